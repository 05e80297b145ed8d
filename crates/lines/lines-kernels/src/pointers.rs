//! Kernels with random accesses: updates of a table, and chains of dependent loads.

use std::hint::black_box;
use unrack_basis::SplitMix64;

const LINE: usize = 64;

/// Returns the number of 8-byte words of a table that takes `bytes` bytes, rounded down to a power of two. [`gups`]
/// executes one update per round for each word.
pub(crate) fn words(bytes: usize) -> u64 {
    1 << (bytes / 8).ilog2()
}

/// Returns the number of loads per round of a pointer chase, which does not depend on the size of the working set.
pub(crate) fn steps(_bytes: usize) -> u64 {
    100_000
}

/// Updates random words of a table, like RandomAccess of the HPC Challenge: `t[r mod n] ^= r`.
pub(crate) fn gups(bytes: usize, rounds: u64) -> u64 {
    let words = words(bytes);
    let mut table: Vec<u64> = (0..words).collect();
    let mut random = SplitMix64::new(1);
    for _ in 0..words * rounds {
        let r = random.next_u64();
        table[(r & (words - 1)) as usize] ^= r;
    }
    table.iter().fold(0, |sum: u64, word| sum.rotate_left(1) ^ word)
}

/// Element of a linked cycle, which takes one cache line. It contains the number of the next element, and a payload.
#[derive(Clone, Copy)]
struct Node {
    next: u64,
    payload: [u64; 7],
}

/// Creates as many cache lines as fit into `bytes` bytes, linked into one random cycle.
fn ring(bytes: usize) -> Vec<Node> {
    let lines = bytes / LINE;
    let order = shuffled(lines, 2);
    let mut ring = vec![Node { next: 0, payload: [1, 2, 3, 4, 5, 6, 7] }; lines];
    for i in 0..lines {
        ring[order[i] as usize].next = u64::from(order[(i + 1) % lines]);
    }
    ring
}

/// Returns the numbers below `count` in random order (Fisher-Yates shuffle).
pub(crate) fn shuffled(count: usize, seed: u64) -> Vec<u32> {
    let mut random = SplitMix64::new(seed);
    let mut numbers: Vec<u32> = (0..count as u32).collect();
    for i in (1..count).rev() {
        numbers.swap(i, ((u128::from(random.next_u64()) * (i as u128 + 1)) >> 64) as usize);
    }
    numbers
}

/// Follows the cycle of lines from one position, so that each load depends on the previous one.
pub(crate) fn chase(bytes: usize, rounds: u64) -> u64 {
    let ring = black_box(ring(bytes));
    let mut at = 0;
    for _ in 0..steps(bytes) * rounds {
        at = ring[at as usize].next;
    }
    at
}

/// Follows the cycle of lines from eight positions simultaneously, so that eight independent loads are in flight.
pub(crate) fn chases(bytes: usize, rounds: u64) -> u64 {
    const CHASES: usize = 8;
    let ring = black_box(ring(bytes));
    let mut at: [u64; CHASES] = std::array::from_fn(|k| (k * ring.len() / CHASES) as u64);
    for _ in 0..steps(bytes) / CHASES as u64 * rounds {
        at = at.map(|at| ring[at as usize].next);
    }
    at.iter().fold(0, |sum: u64, at| sum.rotate_left(8) ^ at)
}

/// Follows the cycle of lines from one position and sums their payloads.
pub(crate) fn list(bytes: usize, rounds: u64) -> u64 {
    let ring = black_box(ring(bytes));
    let (mut at, mut sum) = (0, 0u64);
    for _ in 0..steps(bytes) * rounds {
        let node = &ring[at as usize];
        sum = node.payload.iter().fold(sum, |sum, word| sum.wrapping_add(*word));
        at = node.next;
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cycle_has_all_lines() {
        let ring = ring(64 << 10);
        let (mut at, mut steps) = (0, 0);
        while steps == 0 || at != 0 {
            (at, steps) = (ring[at as usize].next, steps + 1);
        }
        assert_eq!(steps, 1024);
        assert_eq!(list(64 << 10, 2), 2 * 100_000 * 28);
    }

    #[test]
    fn updates_undo_themselves() {
        // RandomAccess is its own inverse, so repeating the same updates restores the table.
        let words = words(64 << 10);
        let plain = (0..words).fold(0, |sum: u64, word| sum.rotate_left(1) ^ word);
        let mut table: Vec<u64> = (0..words).collect();
        for _ in 0..2 {
            let mut random = SplitMix64::new(1);
            for _ in 0..words {
                let r = random.next_u64();
                table[(r & (words - 1)) as usize] ^= r;
            }
        }
        assert_eq!(table.iter().fold(0, |sum: u64, word| sum.rotate_left(1) ^ word), plain);
        assert_ne!(gups(64 << 10, 1), plain);
    }
}
