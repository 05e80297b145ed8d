//! Cost of page walks. It is the difference between the latencies of loads in small and in huge pages, for working sets
//! beyond the reach of the TLBs.
//!
//! Page tables share the caches with the data. If a working set is so large that memory serves its data, memory also
//! serves parts of the page tables and, in a virtual machine, even more of the host's page tables. A walk then takes
//! several times as long.

use super::curve::LatencyPoint;
use super::spread::MeasuredSpread;

/// Lower limits of the working sets from which the cost is derived: this many times the reach of the second-level TLB,
/// and this many times the size of the last cache level. Working sets up to twice the larger limit are used. Most of
/// their loads cause a page walk, and the second cache level has room for the page tables.
const REACHES: u64 = 4;
const LAST_LEVELS: u64 = 4;

/// Determines the time that a page walk adds to a load from memory, in nanoseconds, from the latency curves for small
/// and for huge pages. `reach` is the number of bytes that the second-level TLB covers, and `last_bytes` is the part of
/// the last cache level that this process obtains. Returns `None` if the kernel provides no huge pages.
pub(super) fn read(
    small: &[LatencyPoint],
    huge: &[LatencyPoint],
    reach: u64,
    last_bytes: u64,
) -> Option<MeasuredSpread> {
    let least = (REACHES * reach).max(LAST_LEVELS * last_bytes);
    let inside = small.iter().filter(|point| (least..=2 * least).contains(&point.bytes));
    let walks = inside.filter_map(|small| {
        let huge = huge.iter().find(|huge| huge.bytes == small.bytes)?;
        let walking = 1.0 - reach as f64 / small.bytes as f64;
        Some((small.load_ns.median - huge.load_ns.median).max(0.0) / walking)
    });
    let walks: Vec<f64> = walks.collect();
    (!walks.is_empty()).then(|| MeasuredSpread::new(walks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a latency curve in which each load takes 100 ns. Beyond a TLB reach of 8 MiB, the loads that miss the
    /// TLB also take a walk of `walk_ns(bytes)`, where `bytes` is the size of the working set.
    fn curve(walk_ns: impl Fn(u64) -> f64) -> Vec<LatencyPoint> {
        let point = |shift| {
            let bytes = 1u64 << shift;
            let walking = (1.0 - f64::from(8 << 20) / bytes as f64).max(0.0);
            let ns = 100.0 + walking * walk_ns(bytes);
            LatencyPoint { bytes, load_ns: MeasuredSpread { min: ns, median: ns, max: ns } }
        };
        (12..30).map(point).collect()
    }

    #[test]
    fn walks_are_what_small_pages_take_more() {
        let walk_ns = |bytes| if bytes >= 32 << 20 { 60.0 } else { 10.0 };
        let (small, huge) = (curve(walk_ns), curve(|_| 0.0));
        let median = |spread: Option<MeasuredSpread>| spread.map(|spread| spread.median);
        assert_eq!(median(read(&small, &huge, 8 << 20, 24 << 20)), Some(60.0));
        assert_eq!(median(read(&small, &huge, 8 << 20, 4 << 20)), Some(60.0));
        assert_eq!(median(read(&huge, &small, 8 << 20, 24 << 20)), Some(0.0));
        assert_eq!(read(&small, &[], 8 << 20, 24 << 20), None);
    }
}
