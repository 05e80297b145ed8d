//! Size of the smallest working set whose loads are served by memory. It is measured because other users of the machine
//! may occupy most of a large last cache level.
//!
//! Measurements of memory need a working set of several times the last level. A virtual machine may report a last level
//! of hundreds of MiB, but obtain only a twentieth of it. In this case a smaller working set is sufficient, and the
//! measurement takes a tenth of the time.

use super::bypass;
use super::chase::{ChaseOrder, follow, link};
use super::clock::time_ns;
use super::error::CalibrateError;
use super::memory::{Memory, PageSize};
use super::spread::MeasuredSpread;

/// Size of the smallest working set that is tried, in bytes.
const LEAST_BYTES: u64 = 64 << 20;
/// Criterion for a working set that memory serves: the latency of its loads is at least this fraction of the latency of
/// loads of flushed lines.
const FROM_MEMORY: f64 = 0.85;
/// Number of loads per round. The constant after it is the number of rounds.
const LOADS: usize = 1 << 16;
const ROUNDS: usize = 5;

/// Returns the size of the last cache level in bytes, as `described` by the kernel. Returns a smaller size if memory
/// already serves working sets of at least twice that smaller size.
pub(super) fn last_bytes(described: u64) -> Result<u64, CalibrateError> {
    if bypass::IS_KNOWN { smallest(described, latencies) } else { Ok(described) }
}

/// Returns half the size of the smallest working set that memory serves, or `described` if that is smaller. Each size
/// that is tried is twice the previous one. For a size, `latencies` returns the latency of loads in a working set that
/// was traversed before, and the latency of loads of flushed lines.
fn smallest(
    described: u64,
    mut latencies: impl FnMut(u64) -> Result<[f64; 2], CalibrateError>,
) -> Result<u64, CalibrateError> {
    let mut bytes = LEAST_BYTES;
    while bytes < 2 * described {
        let [again, flushed] = latencies(bytes)?;
        if again >= FROM_MEMORY * flushed {
            return Ok(bytes / 2);
        }
        bytes *= 2;
    }
    Ok(described)
}

/// Measures the latency of loads in a working set of this size: first after it was traversed, and then after its lines
/// were flushed from the caches.
fn latencies(bytes: u64) -> Result<[f64; 2], CalibrateError> {
    let mut memory = Memory::new(bytes as usize, PageSize::Huge)?;
    let lines = link(memory.bytes_mut(), ChaseOrder::Random, bytes).len();
    let mut at = follow(memory.bytes(), 0, lines);
    let mut load_ns = || time_ns(|| at = follow(memory.bytes(), at, LOADS)) / LOADS as f64;
    let again = MeasuredSpread::rounds(ROUNDS, &mut load_ns).median;
    bypass::flush(memory.bytes());
    // There is no warm-up round, because the lines that it loaded would be in the caches. Each round continues where
    // the previous one ended.
    let flushed = MeasuredSpread::new((0..ROUNDS).map(|_| load_ns()).collect()).median;
    Ok([again, flushed])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the result of [`smallest`] and the number of sizes that it tried. In the simulated machine, a process
    /// obtains `kept` bytes of the last cache level. A load takes 30 ns if it hits this level, and 130 ns if memory
    /// serves it.
    fn found(described: u64, kept: u64) -> (u64, usize) {
        let mut looked = 0;
        let bytes = smallest(described, |bytes| {
            looked += 1;
            let hits = (kept as f64 / bytes as f64).min(1.0);
            Ok([130.0 - 100.0 * hits, 130.0])
        });
        (bytes.unwrap(), looked)
    }

    #[test]
    fn a_part_of_a_large_level_needs_less() {
        // Of the loads, 19.5 % must hit the last level for a mean latency of 85 % of 130 ns.
        assert_eq!(found(480 << 20, 20 << 20), (64 << 20, 2));
        assert_eq!(found(480 << 20, 90 << 20), (256 << 20, 4));
        assert_eq!(
            found(480 << 20, 480 << 20),
            (480 << 20, 4),
            "all of it is needed where we have all of it"
        );
        assert_eq!(found(32 << 20, 5 << 20), (32 << 20, 0), "a small level is not looked at");
    }

    #[test]
    fn both_latencies_are_some_time() {
        let [again, flushed] = latencies(1 << 20).unwrap();
        assert!(again > 0.0 && flushed > 0.0, "{again} ns, {flushed} ns");
    }
}
