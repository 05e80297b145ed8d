//! Cost of page walks, as the difference between the latencies in small and in huge pages beyond the reach of the
//! TLBs.
//!
//! Page tables share the caches with the data. If the data come from memory, so do parts of the page tables and, in a
//! virtual machine, even more of the host's. A walk then takes several times as long.

use super::curve::LatencyPoint;
use super::spread::MeasuredSpread;

/// Range of working sets that come from memory: from this many times the reach of the second-level TLB and this many
/// times the size of the last level, up to twice that size. Most of their loads walk, and the second level has room
/// for the page tables.
const REACHES: u64 = 4;
const LAST_LEVELS: u64 = 4;

/// Determines the time of a page walk for loads from memory, in nanoseconds, from the latency curves of both page
/// sizes. It applies beyond a second-level TLB with the given reach. `last_bytes` is the part of the last level that
/// this process obtains. Returns `None` if the kernel provides no huge pages.
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

    /// Curve of loads that take `ns` and, beyond a reach of 8 MiB, a walk that takes `walk_ns` of the size.
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
