//! Latency curve: latency of a load as a function of the size of the working set. The latency and the size of each
//! cache level are derived from this curve.

use super::chase::{ChaseOrder, LINE, follow, link};
use super::clock::time_ns;
use super::described::DescribedCache;
use super::error::CalibrateError;
use super::memory::{Memory, PageSize};
use super::spread::MeasuredSpread;
use serde::{Deserialize, Serialize};

/// Size of the smallest measured working set, in bytes.
const LEAST_BYTES: usize = 4 << 10;
/// Minimum and maximum number of loads per round.
const LOADS: std::ops::RangeInclusive<usize> = 1 << 16..=1 << 18;

/// One point of the latency curve: latency of dependent loads of lines in random order, for one size of the working
/// set.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct LatencyPoint {
    /// Size of the working set in bytes.
    pub bytes: u64,
    /// Time between two dependent loads, in nanoseconds.
    pub load_ns: MeasuredSpread,
}

/// Latency and size of a cache level, as measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CacheLevel {
    /// Number of the level; 1 is the nearest to the core.
    pub level: u8,
    /// Size of the level as reported by the kernel, in bytes.
    pub described_bytes: u64,
    /// Size of the level as derived from the latency curve, in bytes. For a shared level, it is the part that other
    /// users of the machine leave to this process.
    pub effective_bytes: u64,
    /// Time between two dependent loads that hit this level, in nanoseconds.
    pub load_ns: MeasuredSpread,
}

/// Cache levels and memory latency, as derived from a latency curve.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct CurveReading {
    pub(super) levels: Vec<CacheLevel>,
    pub(super) memory_ns: MeasuredSpread,
}

/// Measures the latency for working sets from 4 KiB to the size of `memory`, with two sizes per octave.
pub(super) fn measure(memory: &mut Memory, rounds: usize) -> Vec<LatencyPoint> {
    let largest = memory.bytes().len();
    let sizes = (0..).map(|half| (LEAST_BYTES as f64 * 2f64.powf(half as f64 / 2.0)) as usize / LINE * LINE);
    sizes
        .take_while(|&size| size <= largest)
        .map(|size| point(&mut memory.bytes_mut()[..size], rounds))
        .collect()
}

/// Measures the latency for one working set, after one pass over it that warms the caches.
fn point(bytes: &mut [u8], rounds: usize) -> LatencyPoint {
    link(bytes, ChaseOrder::Random, bytes.len() as u64);
    let lines = bytes.len() / LINE;
    let mut at = follow(bytes, 0, lines.max(*LOADS.start()));
    let loads = lines.clamp(*LOADS.start(), *LOADS.end());
    let load_ns = MeasuredSpread::rounds(rounds, || time_ns(|| at = follow(bytes, at, loads)) / loads as f64);
    LatencyPoint { bytes: bytes.len() as u64, load_ns }
}

/// Determines the latency and the effective size of each level, and the latency of memory.
///
/// The latency of a level is read from those working sets that are two to eight times as large as the previous level,
/// and at most half as large as the level itself, because the level serves most of their loads. A level ends where the
/// latency crosses the midpoint between the latency of this level and that of the next level. The two rules also hold
/// for a last level that is partly occupied by other users of the machine, because the smaller working sets still fit
/// into the rest. Working sets of at least twice `last_bytes` are served by memory.
pub(super) fn read(
    points: &[LatencyPoint],
    caches: &[DescribedCache],
    last_bytes: u64,
) -> Result<CurveReading, CalibrateError> {
    let last = caches.last().ok_or(CalibrateError::NoCaches)?;
    let memory_ns = plateau(points, 2 * last_bytes, u64::MAX, Quantile::Half)
        .ok_or(CalibrateError::Curve { level: last.level })?;
    let mut latencies = Vec::new();
    let mut inner = 0;
    for cache in caches {
        let most = if inner == 0 { cache.bytes / 2 } else { (8 * inner).min(cache.bytes / 2) };
        let load_ns = plateau(points, 2 * inner, most, Quantile::Quarter)
            .or_else(|| plateau(points, inner, cache.bytes, Quantile::Quarter))
            .ok_or(CalibrateError::Curve { level: cache.level })?;
        latencies.push(load_ns);
        inner = cache.bytes;
    }
    let nexts = latencies.iter().skip(1).chain([&memory_ns]);
    let levels = caches.iter().zip(latencies.iter().zip(nexts)).map(|(cache, (own, next))| CacheLevel {
        level: cache.level,
        described_bytes: cache.bytes,
        effective_bytes: step(points, (own.median + next.median) / 2.0),
        load_ns: *own,
    });
    Ok(CurveReading { levels: levels.collect(), memory_ns })
}

/// Quantile of the latencies in a flat part of the curve, which is used as the latency of a level.
#[derive(Clone, Copy)]
enum Quantile {
    /// Lower quartile. It is used for a level that is partly occupied by other users of the machine, because the larger
    /// working sets may then not fit into the level.
    Quarter = 4,
    /// Median.
    Half = 2,
}

/// Returns the given quantile of the latencies, among the points whose working set is between `least` and `most` bytes.
/// Returns `None` if there is no such point.
fn plateau(points: &[LatencyPoint], least: u64, most: u64, quantile: Quantile) -> Option<MeasuredSpread> {
    let mut inside: Vec<MeasuredSpread> =
        points.iter().filter(|p| (least..=most).contains(&p.bytes)).map(|p| p.load_ns).collect();
    inside.sort_by(|a, b| a.median.total_cmp(&b.median));
    inside.get(inside.len().saturating_sub(1) / quantile as usize).copied()
}

/// Returns the size of the working set at which the latency exceeds a limit and stays above it, interpolated on a
/// logarithmic scale.
fn step(points: &[LatencyPoint], limit_ns: f64) -> u64 {
    let below = points.iter().rposition(|point| point.load_ns.median <= limit_ns);
    let Some(below) = below.map(|at| points[at]) else { return 0 };
    let Some(above) = points.iter().find(|point| point.bytes > below.bytes) else { return below.bytes };
    let share = (limit_ns - below.load_ns.median) / (above.load_ns.median - below.load_ns.median);
    (below.bytes as f64 * (above.bytes as f64 / below.bytes as f64).powf(share)) as u64
}

/// Allocates memory for [`measure`] that is several times as large as the last cache level, so that the latency curve
/// includes working sets that memory serves.
pub(super) fn room(
    last_level_bytes: u64,
    available_bytes: u64,
    pages: PageSize,
) -> Result<Memory, CalibrateError> {
    let wanted = (8 * last_level_bytes).min(available_bytes / 4).max(4 * last_level_bytes);
    Memory::new(wanted as usize / LINE * LINE, pages)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn cache(level: u8, bytes: u64) -> DescribedCache {
        DescribedCache { level, bytes, ways: 8, sets: 64, shared_by: 1 }
    }

    fn flat(ns: f64) -> MeasuredSpread {
        MeasuredSpread { min: ns, median: ns, max: ns }
    }

    /// Returns the ideal curve of a machine with three cache levels and four points per octave. This process obtains
    /// `kept` bytes of the third level.
    fn ideal(kept: f64, memory_ns: f64) -> Vec<LatencyPoint> {
        let latency = |bytes: f64| match bytes {
            _ if bytes <= 32768.0 => 1.0,
            _ if bytes <= 524_288.0 => 4.0,
            _ if bytes <= kept => 12.0,
            _ => memory_ns,
        };
        let sizes = (0..65).map(|quarter| 4096.0 * 2f64.powf(f64::from(quarter) / 4.0));
        sizes
            .map(|bytes| LatencyPoint { bytes: bytes as u64, load_ns: flat(latency(bytes.floor())) })
            .collect()
    }

    proptest! {
        #[test]
        fn an_ideal_curve_gives_its_own_parameters(kept in 4.2e6..3e7, memory_ns in 60.0..400.0f64) {
            let caches = [cache(1, 32 << 10), cache(2, 512 << 10), cache(3, 32 << 20)];
            let reading = read(&ideal(kept, memory_ns), &caches, 32 << 20).unwrap();
            let latencies: Vec<f64> = reading.levels.iter().map(|level| level.load_ns.median).collect();
            prop_assert_eq!((latencies, reading.memory_ns.median), (vec![1.0, 4.0, 12.0], memory_ns));
            for (level, size) in reading.levels.iter().zip([32768.0, 524_288.0, kept]) {
                let ratio = level.effective_bytes as f64 / size;
                prop_assert!((0.84..1.19).contains(&ratio), "L{}: {ratio}", level.level);
            }
        }
    }

    #[test]
    fn a_curve_that_ends_too_early_is_an_error() {
        let caches = [cache(1, 32 << 10), cache(2, 1 << 30)];
        assert!(read(&ideal(1e7, 100.0), &caches, 1 << 30).is_err());
        assert!(read(&ideal(1e7, 100.0), &[], 1 << 20).is_err());
    }

    #[test]
    fn latency_grows_beyond_the_first_level() {
        let mut memory = Memory::new(8 << 20, PageSize::Small).unwrap();
        let points = measure(&mut memory, 3);
        assert_eq!(points.len(), 23);
        assert!(points[22].load_ns.median > points[0].load_ns.median, "{points:?}");
    }
}
