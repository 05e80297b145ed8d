//! Pointer chases: sequences of loads in which each load returns the address of the next load.
//!
//! Each line of the memory contains the offset of the line that is visited next. A single chase measures the latency of
//! a load, and several simultaneous chases measure how many cache misses overlap.

use unrack_basis::SplitMix64;

/// Bytes of a line.
pub(super) const LINE: usize = 64;

/// Order in which a chase visits the lines of its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChaseOrder {
    /// One random cycle through all lines.
    Random,
    /// Each line is followed by the next line in memory.
    Forward,
}

/// Links the whole lines of `bytes` into one ring, by writing the offset of the next line to each line. Returns the
/// offsets of the lines in the order of the ring: `ring[i]` is the offset of the i-th line.
pub(super) fn link(bytes: &mut [u8], order: ChaseOrder, seed: u64) -> Vec<u32> {
    let mut ring: Vec<u32> = (0..(bytes.len() / LINE) as u32).collect();
    if order == ChaseOrder::Random {
        shuffle(&mut ring, seed);
    }
    for (i, &line) in ring.iter().enumerate() {
        let next = ring[(i + 1) % ring.len()] as usize * LINE;
        bytes[line as usize * LINE..][..8].copy_from_slice(&(next as u64).to_le_bytes());
    }
    ring
}

/// Shuffles the values by the method of Fisher and Yates (Knuth, TAOCP vol. 2, algorithm 3.4.2 P).
fn shuffle(values: &mut [u32], seed: u64) {
    let mut random = SplitMix64::new(seed);
    for i in (1..values.len()).rev() {
        let j = (u128::from(random.next_u64()) * (i as u128 + 1)) >> 64;
        values.swap(i, j as usize);
    }
}

/// Follows a ring of lines for `steps` loads, starting at offset `from`. Returns the offset that is reached.
pub(super) fn follow(bytes: &[u8], from: usize, steps: usize) -> usize {
    let mut at = from;
    for _ in 0..steps {
        at = next(bytes, at);
    }
    at
}

/// Follows a ring of lines from `K` offsets simultaneously, for `steps` loads from each. Returns the offsets that are
/// reached.
pub(super) fn follow_many<const K: usize>(bytes: &[u8], from: [usize; K], steps: usize) -> [usize; K] {
    let mut at = from;
    for _ in 0..steps {
        // The array is updated in place, because a new array would be copied by vectors, which wait for the stores of
        // its words.
        at.iter_mut().for_each(|at| *at = next(bytes, *at));
    }
    at
}

/// Loads the offset of the next line. The bounds check does not lengthen the chain of loads, because the core predicts
/// its branch.
#[inline(always)]
fn next(bytes: &[u8], at: usize) -> usize {
    let word = bytes[at..at + 8].try_into().expect("a slice of 8 bytes");
    u64::from_le_bytes(word) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ring_visits_each_line_once() {
        for order in [ChaseOrder::Random, ChaseOrder::Forward] {
            let mut bytes = vec![0; 1000 * LINE];
            link(&mut bytes, order, 7);
            let (mut seen, mut at) = (vec![false; 1000], 0);
            for _ in 0..1000 {
                assert!(!std::mem::replace(&mut seen[at / LINE], true), "{order:?}");
                at = follow(&bytes, at, 1);
            }
            assert_eq!(at, 0);
        }
    }

    #[test]
    fn many_chases_are_as_many_single_ones() {
        let mut bytes = vec![0; 64 * LINE];
        let ring = link(&mut bytes, ChaseOrder::Random, 3);
        let from = [0, 9, 40].map(|i| ring[i] as usize * LINE);
        assert_eq!(follow_many(&bytes, from, 17), from.map(|from| follow(&bytes, from, 17)));
        assert_eq!(follow(&bytes, from[0], 9), from[1]);
    }
}
