//! Smallest working set that comes from memory, on a machine whose last level is large and mostly used by others.
//!
//! Measurements of memory need a working set of several times the last level. A virtual machine may report a last
//! level of hundreds of MiB but obtain only a twentieth of it. In this case a smaller working set is sufficient, and
//! its measurement takes a tenth of the time.

use super::bypass;
use super::chase::{ChaseOrder, follow, link};
use super::clock::time_ns;
use super::error::CalibrateError;
use super::memory::{Memory, PageSize};
use super::spread::MeasuredSpread;

/// Smallest working set that is tried, in bytes.
const LEAST_BYTES: u64 = 64 << 20;
/// A working set counts as coming from memory if its latency is at least this fraction of the latency of flushed
/// lines.
const FROM_MEMORY: f64 = 0.85;
/// Loads per round, and number of rounds.
const LOADS: usize = 1 << 16;
const ROUNDS: usize = 5;

/// Returns the size of the last level in bytes, or a smaller size if working sets of twice that size and more already
/// come from memory.
pub(super) fn last_bytes(described: u64) -> Result<u64, CalibrateError> {
    if bypass::IS_KNOWN { smallest(described, latencies) } else { Ok(described) }
}

/// Returns half of the smallest working set that comes from memory. The sizes that are tried double from one to the
/// next. `latencies` returns two latencies for a size: that of a warm working set, and that of flushed lines.
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

/// Measures the time of a load in a working set that was traversed before, and in one that was flushed.
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

    /// Result for a last level of which a process obtains `kept` bytes at 30 ns, before memory at 130 ns.
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
        // A latency of 85 % of 130 ns corresponds to 19.5 % hits.
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
