//! Page walks: what a load beyond the TLBs' reach takes more in small pages than in huge ones.
//!
//! Page tables share the caches with the data. Where these come from memory, so do parts of the tables, and under a
//! hypervisor more of the host's: a walk then takes several times as long.

use super::curve::LatencyPoint;
use super::spread::Spread;

/// Working sets that come from memory: from so many reaches of the second-level TLB and so many sizes of the last level to
/// twice as much. Most loads walk, and the second level has room for the page tables.
const REACHES: u64 = 4;
const LAST_LEVELS: u64 = 4;

/// Reads the time of a walk of loads from memory, in nanoseconds, beyond a second-level TLB that reaches so far, from the curves
/// of both sizes of pages. Of the last level, `last_bytes` are ours. `None` where the kernel gives no huge pages.
pub(super) fn read(
    small: &[LatencyPoint],
    huge: &[LatencyPoint],
    reach: u64,
    last_bytes: u64,
) -> Option<Spread> {
    let least = (REACHES * reach).max(LAST_LEVELS * last_bytes);
    let inside = small.iter().filter(|point| (least..=2 * least).contains(&point.bytes));
    let walks = inside.filter_map(|small| {
        let huge = huge.iter().find(|huge| huge.bytes == small.bytes)?;
        let walking = 1.0 - reach as f64 / small.bytes as f64;
        Some((small.load_ns.median - huge.load_ns.median).max(0.0) / walking)
    });
    let walks: Vec<f64> = walks.collect();
    (!walks.is_empty()).then(|| Spread::new(walks))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Curve of loads that take `ns`, and beyond a reach of 8 MiB a walk that takes `walk_ns` of the size.
    fn curve(walk_ns: impl Fn(u64) -> f64) -> Vec<LatencyPoint> {
        let point = |shift| {
            let bytes = 1u64 << shift;
            let walking = (1.0 - f64::from(8 << 20) / bytes as f64).max(0.0);
            let ns = 100.0 + walking * walk_ns(bytes);
            LatencyPoint { bytes, load_ns: Spread { min: ns, median: ns, max: ns } }
        };
        (12..30).map(point).collect()
    }

    #[test]
    fn walks_are_what_small_pages_take_more() {
        let walk_ns = |bytes| if bytes >= 32 << 20 { 60.0 } else { 10.0 };
        let (small, huge) = (curve(walk_ns), curve(|_| 0.0));
        let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
        assert_eq!(median(read(&small, &huge, 8 << 20, 24 << 20)), Some(60.0));
        assert_eq!(median(read(&small, &huge, 8 << 20, 4 << 20)), Some(60.0));
        assert_eq!(median(read(&huge, &small, 8 << 20, 24 << 20)), Some(0.0));
        assert_eq!(read(&small, &[], 8 << 20, 24 << 20), None);
    }
}
