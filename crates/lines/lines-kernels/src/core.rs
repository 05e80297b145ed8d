//! Kernels whose speed depends only on the core: each loop is limited by one latency or one throughput of the core.
//! They do not access a working set.

use std::hint::black_box;
use unrack_basis::SplitMix64;

/// Number of operations that a kernel executes per round.
const OPERATIONS: u64 = 1_000_000;
/// Number of operations per iteration of a kernel's loop, large enough that the cost of the loop counter is hidden.
const UNROLLED: u64 = 8;
/// Number of branches whose random bits are generated in one batch.
const BRANCHES: usize = 8192;

/// Returns the number of operations per round.
pub(crate) fn items(_bytes: usize) -> u64 {
    OPERATIONS
}

/// Applies an operation to its own previous result, [`OPERATIONS`] times per round, and returns the last result.
#[inline(always)]
fn chain<T>(rounds: u64, start: T, operation: impl Fn(T) -> T) -> T {
    let mut value = start;
    for _ in 0..rounds * OPERATIONS / UNROLLED {
        for _ in 0..UNROLLED {
            value = operation(value);
        }
    }
    value
}

/// Chain of an addition and an exclusive or: two operations of one cycle each.
pub(crate) fn add(_bytes: usize, rounds: u64) -> u64 {
    let (a, b) = (black_box(0x9e37u64), black_box(0x7f4au64));
    chain(rounds, 1, |value: u64| value.wrapping_add(a) ^ b)
}

/// Chain of a multiplication and an exclusive or.
pub(crate) fn multiply(_bytes: usize, rounds: u64) -> u64 {
    let (a, b) = (black_box(0x9e37_79b1u64), black_box(0x7f4au64));
    chain(rounds, 1, |value: u64| value.wrapping_mul(a) ^ b)
}

/// Chain of a 64-bit division, an exclusive or, and an or.
pub(crate) fn divide(_bytes: usize, rounds: u64) -> u64 {
    let (a, b) = (black_box(u64::MAX / 3), black_box(0x7f4a_9e37u64));
    chain(rounds, 3, |value: u64| ((a / value) ^ b) | 0x1000_0001)
}

/// Chain of additions of floating-point numbers.
pub(crate) fn float_add(_bytes: usize, rounds: u64) -> u64 {
    let a = black_box(0.001);
    chain(rounds, 1.0, |value: f64| value + a).to_bits()
}

/// Chain of multiplications of floating-point numbers.
pub(crate) fn float_multiply(_bytes: usize, rounds: u64) -> u64 {
    let a = black_box(1.000_000_01);
    chain(rounds, 1.0, |value: f64| value * a).to_bits()
}

/// Chain of divisions of floating-point numbers.
pub(crate) fn float_divide(_bytes: usize, rounds: u64) -> u64 {
    let a = black_box(1.000_000_01);
    chain(rounds, 1.0, |value: f64| value / a).to_bits()
}

/// Six independent chains of an addition and an exclusive or. An item consists of twelve operations, which the core can
/// execute at its full width.
pub(crate) fn wide(_bytes: usize, rounds: u64) -> u64 {
    let (a, b) = (black_box(0x9e37u64), black_box(0x7f4au64));
    let values =
        chain(rounds, [1, 2, 3, 4, 5, 6], |values: [u64; 6]| values.map(|value| value.wrapping_add(a) ^ b));
    values.iter().fold(0, |sum: u64, value| sum.rotate_left(1) ^ value)
}

/// Branches on random bits. The core mispredicts half of these branches.
pub(crate) fn mispredict(_bytes: usize, rounds: u64) -> u64 {
    let (mut random, mut bits) = (SplitMix64::new(rounds), [0u8; BRANCHES]);
    let (mut zeros, mut ones) = (0u64, 0u64);
    for _ in 0..rounds * OPERATIONS / BRANCHES as u64 {
        for bytes in bits.chunks_mut(64) {
            let word = random.next_u64();
            bytes.iter_mut().enumerate().for_each(|(i, bit)| *bit = (word >> i) as u8 & 1);
        }
        for &bit in black_box(&bits) {
            // The barriers prevent the compiler from converting the branch to a conditional move.
            if bit == 0 {
                zeros = black_box(zeros + 1);
            } else {
                ones = black_box(ones + 1);
            }
        }
    }
    zeros.rotate_left(32) ^ ones
}

/// Chain of stores to one word. Each stored value is loaded again, and the loaded value plus 1 is stored next.
pub(crate) fn forward(_bytes: usize, rounds: u64) -> u64 {
    // The barriers hide from the compiler that both indices are the same.
    let (to, from) = (black_box(5usize) % 64, black_box(5usize) % 64);
    let (mut words, mut value) = ([0u64; 64], 1u64);
    for _ in 0..rounds * OPERATIONS {
        words[to] = value;
        value = words[from].wrapping_add(1);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted() {
        assert_eq!(forward(0, 2), 2 * OPERATIONS + 1);
        let counts = mispredict(0, 1);
        let (zeros, ones) = (counts.rotate_right(32) as u32, counts as u32);
        assert_eq!(u64::from(zeros + ones), OPERATIONS / BRANCHES as u64 * BRANCHES as u64);
        assert!(zeros.abs_diff(ones) < 10_000, "{zeros} {ones}");
    }

    #[test]
    fn a_chain_is_as_long_as_its_rounds() {
        assert_eq!(chain(3, 0u64, |value| value + 1), 3 * OPERATIONS);
        assert_eq!(f64::from_bits(float_add(0, 1)).round(), 1001.0);
    }
}
