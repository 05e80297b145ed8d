//! Instruction window in which cache misses overlap: the number of instructions between the oldest instruction that
//! still waits and the youngest instruction that has begun.
//!
//! Vendors document the size of the reorder buffer, but a thread may obtain only a part of it. If two hardware threads
//! share a core, AMD's and Intel's processors divide the buffer between the two (AMD, Software Optimization Guide
//! 57647, "Simultaneous multi-threading"). A virtual machine cannot detect which of its processors share a core.

use super::chase::LINE;
use super::clock::time_ns;
use super::spread::MeasuredSpread;
use std::hint::black_box;
use unrack_basis::SplitMix64;

/// Number of loads per round.
const LOADS: usize = 1 << 18;
/// Number of operations between two successive loads, in the two variants of the measured loop.
const FEW: usize = 16;
const MANY: usize = 32;

/// Measures how many operations fit into the instruction window while its oldest load waits for memory, which takes
/// `memory_ns`. Returns `None` if the loop with more operations between loads does not take more time, because then
/// something else limits the overlap of the loads.
///
/// As long as the window is the limit, a load of a random line takes `n * latency / window`, where `n` is the number of
/// operations between two successive loads.
pub(super) fn measure(bytes: &[u8], memory_ns: f64, rounds: usize) -> Option<f64> {
    let lines = (bytes.len() / LINE) as u64;
    let mut random = SplitMix64::new(23);
    let places: Vec<u32> = (0..LOADS).map(|_| (random.next_u64() % lines) as u32).collect();
    let ns = |run: fn(&[u8], &[u32]) -> u64| {
        MeasuredSpread::rounds(rounds, || time_ns(|| run(bytes, &places)) / LOADS as f64).min
    };
    let more = ns(apart::<MANY>) - ns(apart::<FEW>);
    (more > 0.0).then(|| (MANY - FEW) as f64 * memory_ns / more)
}

/// Loads a byte of each of the lines in `places`, with `N` dependent one-cycle operations between two successive loads.
fn apart<const N: usize>(bytes: &[u8], places: &[u32]) -> u64 {
    let (a, b) = (black_box(0x9e37_79b9u64), black_box(0x7f4a_7c15u64));
    let (mut sum, mut value) = (0u64, a);
    for &place in places {
        sum ^= u64::from(bytes[place as usize * LINE]);
        // Additions and exclusive ors alternate, so that the compiler cannot merge neighbouring operations.
        for _ in 0..N / 2 {
            value = value.wrapping_add(a);
            value ^= b;
        }
    }
    black_box(sum ^ value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_place_is_loaded() {
        let bytes: Vec<u8> = (0..16 * LINE).map(|i| (i / LINE) as u8).collect();
        let toggled =
            |places: &[u32]| apart::<FEW>(&bytes, places) ^ apart::<FEW>(&bytes, &vec![0; places.len()]);
        assert_eq!(toggled(&[1, 2, 4]), 7);
    }

    #[test]
    fn a_window_is_some_number() {
        let bytes = vec![1; 4 << 20];
        assert!(measure(&bytes, 100.0, 3).is_none_or(|window| window > 0.0));
    }
}
