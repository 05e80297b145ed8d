//! Costs of the core and the kernel: frequency, mispredicted branches, first touches of pages, and system calls.

use super::chase::{ChaseOrder, LINE, follow, follow_many, link};
use super::clock::time_ns;
use super::error::CalibrateError;
use super::memory::{Memory, PageSize};
use super::spread::MeasuredSpread;
use std::hint::black_box;
use unrack_basis::{PAGE, SplitMix64};

/// Number of dependent operations per round.
const STEPS: usize = 4_000_000;
/// Number of operations per iteration of the measuring loop. It is large enough to hide the loop's own counting.
const UNROLLED: usize = 16;
/// Number of chains of operations that are executed simultaneously.
const CHAINS: usize = 6;
/// Number of branches per round. The bits that decide the branches are new in each round, and are few enough to stay in
/// the first cache level.
const BRANCHES: usize = 16 << 10;
const TOUCHED: usize = 8 << 20;
const CALLS: usize = 20_000;

/// Measures the frequency of a busy core, in GHz, as the rate of dependent additions, which take one cycle each.
pub(super) fn frequency_ghz(rounds: usize) -> MeasuredSpread {
    let (a, b) = (black_box(0x9e37_79b9u64), black_box(0x7f4a_7c15u64));
    MeasuredSpread::rounds(rounds, || STEPS as f64 / time_ns(|| alternate(a, b)))
}

/// Measures the number of independent integer operations that the core executes per nanosecond. If another hardware
/// thread is busy on the same core, the number is lower than the execution units allow, because the two threads take
/// turns.
pub(super) fn additions_per_ns(rounds: usize) -> MeasuredSpread {
    let (a, b) = (black_box(0x9e37_79b9u64), black_box(0x7f4a_7c15u64));
    MeasuredSpread::rounds(rounds, || (STEPS * CHAINS) as f64 / time_ns(|| alternate_in_chains(a, b)))
}

/// Executes the operations of [`alternate`] in several independent chains. There are enough chains that the latency of
/// an operation is no limit, and few enough that all values fit into registers. The results are consumed one by one,
/// because the compiler would use vector instructions if the results were stored next to each other.
#[inline(never)]
fn alternate_in_chains(a: u64, b: u64) -> u64 {
    let mut values = [1, 2, 3, 4, 5, 6];
    for _ in 0..STEPS / UNROLLED {
        for _ in 0..UNROLLED / 2 {
            values = values.map(|value: u64| value.wrapping_add(a) ^ b);
        }
    }
    values.into_iter().fold(0, |sum: u64, value| sum.rotate_left(1) ^ value)
}

/// Executes additions and exclusive ors in turn, so that the compiler cannot merge neighbouring operations.
fn alternate(a: u64, b: u64) -> u64 {
    let mut value = a;
    for _ in 0..STEPS / UNROLLED {
        for _ in 0..UNROLLED / 2 {
            value = value.wrapping_add(a);
            value ^= b;
        }
    }
    value
}

/// Measures the time that a mispredicted branch adds, in nanoseconds. The time begins with the load of the value on
/// which the branch depends, and ends with the first instruction after the branch. The branches depend on random bits,
/// so that half of them are mispredicted.
pub(super) fn mispredict_ns(rounds: usize) -> MeasuredSpread {
    let mut random = SplitMix64::new(17);
    let mut bits = vec![0u8; BRANCHES];
    MeasuredSpread::rounds(rounds, || {
        let fill = |bits: &mut [u8], mask: u64, random: &mut SplitMix64| {
            bits.iter_mut().for_each(|bit| *bit = (random.next_u64() & mask) as u8);
        };
        fill(&mut bits, 0, &mut random);
        branches(&bits);
        let known = time_ns(|| branches(&bits));
        fill(&mut bits, 1, &mut random);
        let unknown = time_ns(|| branches(&bits));
        (unknown - known) / (BRANCHES as f64 / 2.0)
    })
}

/// Executes a branch for each bit. The barriers prevent the compiler from replacing the branch by a conditional move.
#[inline(never)]
fn branches(bits: &[u8]) -> (u64, u64) {
    let (mut zeros, mut ones) = (0, 0);
    for &bit in bits {
        if bit == 0 {
            zeros = black_box(zeros + 1);
        } else {
            ones = black_box(ones + 1);
        }
    }
    (zeros, ones)
}

/// Measures the time of the first touch of a 4 KiB page, in nanoseconds, including the release of the page's memory.
pub(super) fn first_touch_ns(rounds: usize) -> Result<MeasuredSpread, CalibrateError> {
    let mut values = Vec::new();
    for _ in 0..rounds {
        let mut made = Ok(());
        let ns = time_ns(|| made = Memory::new(TOUCHED, PageSize::Small).map(drop));
        made?;
        values.push(ns / (TOUCHED / PAGE) as f64);
    }
    Ok(MeasuredSpread::new(values))
}

/// Measures the time of a system call that does almost nothing, in nanoseconds.
pub(super) fn system_call_ns(rounds: usize) -> MeasuredSpread {
    let calls = || (0..CALLS).for_each(|_| _ = black_box(rustix::process::getppid()));
    MeasuredSpread::rounds(rounds, || time_ns(calls) / CALLS as f64)
}

/// Measures the time of dependent loads of successive lines, in nanoseconds per load. If prefetchers work, this time is
/// far below that of lines in random order.
pub(super) fn forward_ns(bytes: &mut [u8], rounds: usize) -> MeasuredSpread {
    link(bytes, ChaseOrder::Forward, 0);
    let steps = (bytes.len() / LINE).min(1 << 18);
    let mut at = 0;
    MeasuredSpread::rounds(rounds, || time_ns(|| at = follow(bytes, at, steps)) / steps as f64)
}

/// Measures the time of a load of the next line in memory, while two other pointer chases load lines that the second
/// cache level contains. These two follow the first chase through the same lines, at distances that exceed the size of
/// the first cache level. The three chases together span less than `second_bytes`.
pub(super) fn forward_beside_hits_ns(bytes: &mut [u8], second_bytes: usize, rounds: usize) -> MeasuredSpread {
    let ring = link(bytes, ChaseOrder::Forward, 0);
    let behind = second_bytes / 3 / LINE * LINE;
    let steps = (ring.len().saturating_sub(3 * behind / LINE) / rounds).clamp(1, 1 << 18);
    // A round continues where the previous one ended, so that the lines ahead of the first chase are not in a cache
    // yet.
    let mut at = [2 * behind, behind, 0].map(|at| at % (ring.len() * LINE));
    MeasuredSpread::rounds(rounds, || time_ns(|| at = follow_many(bytes, at, steps)) / steps as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn branches_are_counted() {
        assert_eq!(branches(&[0, 1, 1, 0, 1]), (2, 3));
    }

    #[test]
    fn the_core_is_neither_a_clock_of_the_past_nor_of_the_future() {
        let frequency = frequency_ghz(5);
        assert!((0.3..8.0).contains(&frequency.max), "{frequency:?}");
    }

    /// Tests that the additions are not executed by vector instructions. With these, the rate would exceed the integer
    /// rate of every core that has a preset.
    #[test]
    fn additions_are_of_whole_numbers() {
        let per_cycle = additions_per_ns(5).median / frequency_ghz(5).median;
        assert!((0.5..7.0).contains(&per_cycle), "{per_cycle}");
    }

    #[test]
    fn neither_a_branch_nor_a_call_is_free() {
        assert!(mispredict_ns(5).max > 0.0);
        assert!(system_call_ns(3).min > 0.0);
        assert!(first_touch_ns(2).unwrap().min > 0.0);
    }
}
