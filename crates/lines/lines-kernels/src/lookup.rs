//! Kernels that look up keys: hash join, B-tree and binary search.

use std::collections::BTreeMap;
use unrack_basis::{SplitMix64, mix};

/// Returns the number of keys from which a join builds its hash table. The hash table takes two thirds of the working
/// set and is half full. The keys that probe the table take the remaining third.
pub(crate) fn join_items(bytes: usize) -> u64 {
    table_slots(bytes) / 2
}

/// Returns the number of 16-byte slots of a join's hash table, which is a power of two.
fn table_slots(bytes: usize) -> u64 {
    1 << (bytes * 2 / 3 / 16).ilog2()
}

/// Returns the number of lookups per round, which does not depend on the size of the working set.
pub(crate) fn lookups(_bytes: usize) -> u64 {
    100_000
}

/// Returns the number of entries of a B-tree that takes `bytes` bytes, at about 20 bytes per entry. If the standard
/// library builds a tree from sorted entries, each leaf of 192 bytes holds 11 entries of 16 bytes, and the inner nodes
/// add a tenth of the memory of the leaves.
fn entries(bytes: usize) -> u64 {
    (bytes / 20) as u64
}

/// Returns the number of 8-byte words of a sorted array that takes `bytes` bytes.
fn words(bytes: usize) -> u64 {
    (bytes / 8) as u64
}

/// Joins two relations on a key. It builds a hash table with linear probing from the rows of one relation, and looks up
/// each key of the other relation in this table.
pub(crate) fn join(bytes: usize, rounds: u64) -> u64 {
    let slots = table_slots(bytes);
    let keys = join_items(bytes);
    let mut table = vec![(0u64, 0u64); slots as usize];
    for row in 1..=keys {
        let slot = find(&table, row);
        table[slot] = (row, row * 3);
    }
    let mut random = SplitMix64::new(6);
    // Half of the probes find a match.
    let probes: Vec<u64> = (0..keys).map(|_| 1 + random.next_u64() % (2 * keys)).collect();
    (0..rounds).fold(0, |sum: u64, _| {
        let partners = probes.iter().map(|&key| table[find(&table, key)].1);
        sum.rotate_left(1).wrapping_add(partners.fold(0, u64::wrapping_add))
    })
}

/// Returns the slot that holds `key`, or, if the table lacks `key`, the empty slot into which it has to be inserted. A
/// slot with key 0 is empty.
fn find(table: &[(u64, u64)], key: u64) -> usize {
    let mask = table.len() - 1;
    let mut slot = mix(key) as usize & mask;
    while table[slot].0 != key && table[slot].0 != 0 {
        slot = (slot + 1) & mask;
    }
    slot
}

/// Looks up random keys in a B-tree. Half of these keys are in the tree.
pub(crate) fn btree(bytes: usize, rounds: u64) -> u64 {
    let entries = entries(bytes);
    let map: BTreeMap<u64, u64> = (0..entries).map(|key| (2 * key, key)).collect();
    let mut random = SplitMix64::new(7);
    (0..lookups(bytes) * rounds).fold(0, |sum: u64, _| {
        let found = map.get(&(random.next_u64() % (2 * entries)));
        sum.wrapping_add(found.map_or(1, |value| value ^ 0xff))
    })
}

/// Searches for random keys in a sorted array.
pub(crate) fn binary_search(bytes: usize, rounds: u64) -> u64 {
    let words = words(bytes);
    let sorted: Vec<u64> = (0..words).map(|word| word * 7).collect();
    let mut random = SplitMix64::new(8);
    (0..lookups(bytes) * rounds).fold(0, |sum: u64, _| {
        let key = random.next_u64() % (7 * words);
        sum.wrapping_add(sorted.partition_point(|word| *word < key) as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_in_a_table_with_collisions() {
        let mut table = vec![(0, 0); 64];
        for key in 1..=40 {
            let slot = find(&table, key);
            table[slot] = (key, key + 100);
        }
        assert!((1..=40).all(|key| table[find(&table, key)] == (key, key + 100)));
        assert!((41..=80).all(|key| table[find(&table, key)] == (0, 0)));
    }

    #[test]
    fn half_of_the_keys_of_a_b_tree_are_there() {
        let entries = entries(64 << 10);
        let mut random = SplitMix64::new(7);
        let expected = (0..lookups(0)).fold(0u64, |sum, _| {
            let key = random.next_u64() % (2 * entries);
            sum + if key.is_multiple_of(2) { (key / 2) ^ 0xff } else { 1 }
        });
        assert_eq!(btree(64 << 10, 1), expected);
    }

    #[test]
    fn a_search_finds_the_rank() {
        let words = words(64 << 10);
        let mut random = SplitMix64::new(8);
        let ranks = (0..lookups(0)).map(|_| (random.next_u64() % (7 * words)).div_ceil(7));
        assert_eq!(binary_search(64 << 10, 1), ranks.sum::<u64>());
    }
}
