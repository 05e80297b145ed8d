//! Page walk: what a load beyond the TLBs' reach takes more in small pages than in huge ones.
//!
//! Where a kernel puts page tables and pages differs from allocation to allocation, and under a hypervisor so do the pages of
//! its own tables. Each round takes memory beside that of the rounds before, which the kernel would give again.

use super::CalibrateError;
use super::chase::{Order, follow, link};
use super::clock::time_ns;
use super::memory::{Memory, Pages};
use super::spread::Spread;

/// Working set, in reaches of the second-level TLB: most loads walk, and the caches still hold the page tables.
const REACHES: u64 = 4;
/// Loads of a round.
const LOADS: usize = 1 << 17;

/// Measures the time of a page walk beyond a second-level TLB that reaches so far, in nanoseconds. `None` where the kernel gives
/// no huge pages.
///
/// # Errors
/// If memory is short.
pub(super) fn measure(reach_bytes: u64, rounds: usize) -> Result<Option<Spread>, CalibrateError> {
    let bytes = (REACHES * reach_bytes) as usize;
    let mut huge = Memory::new(bytes, Pages::Huge)?;
    if !huge.is_huge() {
        return Ok(None);
    }
    let huge_ns = Spread::rounds(rounds, || load_ns(&mut huge)).median;
    drop(huge);
    let (mut all, mut walks) = (Vec::new(), Vec::new());
    for _ in 0..rounds {
        let mut small = Memory::new(bytes, Pages::Small)?;
        walks.push(walk_ns(load_ns(&mut small), huge_ns));
        all.push(small);
    }
    Ok(Some(Spread::new(walks)))
}

/// Returns the time of a walk by the times of loads that need their predecessors, of which all but one in [`REACHES`] walk.
fn walk_ns(small_ns: f64, huge_ns: f64) -> f64 {
    (small_ns - huge_ns).max(0.0) * REACHES as f64 / (REACHES - 1) as f64
}

/// Measures a load.
fn load_ns(memory: &mut Memory) -> f64 {
    link(memory.bytes_mut(), Order::Random, 5);
    let mut at = follow(memory.bytes(), 0, LOADS);
    time_ns(|| at = follow(memory.bytes(), at, LOADS)) / LOADS as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_of_four_loads_walk() {
        assert_eq!(walk_ns(130.0, 100.0), 40.0);
        assert_eq!(walk_ns(100.0, 130.0), 0.0);
    }

    #[test]
    fn a_walk_is_measured_in_each_round() {
        let walk = measure(1 << 20, 3).unwrap();
        assert!(walk.is_none_or(|walk| walk.is_sound() && walk.min >= 0.0), "{walk:?}");
    }
}
