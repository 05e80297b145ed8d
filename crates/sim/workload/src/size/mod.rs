//! Distributions of message sizes: one fixed size, a cumulative distribution with linear interpolation, or a Pareto
//! distribution.

mod pareto;

pub use pareto::Pareto;

use crate::error::WorkloadError;
use std::borrow::Cow;
use unrack_units::Bytes;

/// Distribution of message sizes in bytes.
#[derive(Debug, Clone, PartialEq)]
pub enum SizeDistribution {
    Fixed(u64),
    Cdf(SizeCdf),
    Pareto(Pareto),
}

/// Cumulative distribution of sizes, as points (bytes, cumulative probability) in ascending order. The last point has
/// probability 1.
#[derive(Debug, Clone, PartialEq)]
pub struct SizeCdf(Vec<(f64, f64)>);

/// Reason why a list of points is not a cumulative distribution: the first wrong point, the rule that it violates, and
/// its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Flaw {
    /// Index of the point, counted from 0.
    pub point: usize,
    pub rule: Cow<'static, str>,
    pub value: String,
}

/// Bytes of a packet. The published distributions give sizes as numbers of packets.
pub const PACKET_BYTES: f64 = 1460.0;

/// Maximum size of a message, in bytes. A fabric may have a lower limit.
pub const MAX_BYTES: u64 = unrack_rack::LARGEST_MESSAGE.get();

/// Returns the limits of a message's size as text for an error message.
pub(crate) fn bounds() -> String {
    format!("{} to {}", Bytes::new(1), Bytes::new(MAX_BYTES))
}

impl SizeDistribution {
    /// Creates a distribution in which all messages have the same size.
    ///
    /// # Errors
    /// If this size is outside the limits of message sizes.
    pub fn fixed(bytes: u64) -> Result<SizeDistribution, WorkloadError> {
        match (1..=MAX_BYTES).contains(&bytes) {
            true => Ok(SizeDistribution::Fixed(bytes)),
            false => Err(WorkloadError::new("workload.size", format!("is {}", bounds()), Bytes::new(bytes))),
        }
    }

    /// Returns the maximum size that can be drawn, in bytes.
    pub fn largest(&self) -> u64 {
        self.at(1.0)
    }

    /// Returns the mean size in bytes.
    pub fn mean(&self) -> f64 {
        match self {
            SizeDistribution::Fixed(bytes) => *bytes as f64,
            SizeDistribution::Cdf(cdf) => cdf.mean(),
            SizeDistribution::Pareto(pareto) => pareto.mean(),
        }
    }

    /// Returns whether the distribution has a heavier tail than an exponential distribution. This is assumed if its
    /// variance exceeds the square of its mean.
    pub fn is_heavy_tailed(&self) -> bool {
        match self {
            SizeDistribution::Fixed(_) => false,
            SizeDistribution::Cdf(cdf) => heavy_tailed(cdf.mean(), cdf.mean_square()),
            SizeDistribution::Pareto(pareto) => heavy_tailed(pareto.mean(), pareto.mean_square()),
        }
    }

    /// Returns the size at the cumulative probability `p`, which is in 0..=1. The size is at least 1.
    pub fn at(&self, p: f64) -> u64 {
        match self {
            SizeDistribution::Fixed(bytes) => *bytes,
            SizeDistribution::Cdf(cdf) => (cdf.at(p).round() as u64).max(1),
            SizeDistribution::Pareto(pareto) => pareto.at(p).round() as u64,
        }
    }
}

impl SizeCdf {
    /// Creates a distribution from points (size, cumulative probability), whose sizes are multiples of `unit_bytes`.
    /// Sizes below one byte count as one byte, because a drawn size is also at least one byte. For example, the lists
    /// of other simulators often begin at size 0.
    ///
    /// # Errors
    /// If the points are not a cumulative distribution; see [`SizeCdf::flaw`].
    pub fn new(points: &[(f64, f64)], unit_bytes: f64) -> Result<SizeCdf, WorkloadError> {
        match SizeCdf::flaw(points, unit_bytes) {
            None => Ok(SizeCdf(points.iter().map(|(size, p)| ((size * unit_bytes).max(1.0), *p)).collect())),
            Some(Flaw { rule, value, .. }) => Err(WorkloadError::new("workload.size.cdf", rule, value)),
        }
    }

    /// Returns the reason why these points are not a cumulative distribution, or `None` if they are one.
    pub fn flaw(points: &[(f64, f64)], unit_bytes: f64) -> Option<Flaw> {
        fn flaw(point: usize, rule: impl Into<Cow<'static, str>>, value: String) -> Option<Flaw> {
            Some(Flaw { point, rule: rule.into(), value })
        }
        for (n, (size, p)) in points.iter().enumerate() {
            if !(*size >= 0.0 && (0.0..=1.0).contains(p)) {
                let rule = "has sizes of 0 or more and probabilities from 0 to 1";
                return flaw(n, rule, format!("[{size}, {p}]"));
            }
            if size * unit_bytes == 0.0 && *p > 0.0 {
                let rule = "has probability 0 at size 0, since a message has a byte at least: write 1 for 0";
                return flaw(n, rule, format!("[{size}, {p}]"));
            }
            if size * unit_bytes > MAX_BYTES as f64 {
                let rule = format!("has sizes up to {}", Bytes::new(MAX_BYTES));
                return flaw(n, rule, format!("{}B", size * unit_bytes));
            }
            if n > 0 && (points[n - 1].0 > *size || points[n - 1].1 > *p) {
                return flaw(n, "rises in both columns", format!("{:?} then {:?}", points[n - 1], points[n]));
            }
        }
        match points.last() {
            Some((_, 1.0)) => None,
            Some((_, p)) => flaw(points.len() - 1, "ends at probability 1", format!("{p}")),
            None => flaw(0, "has at least one point", "empty".into()),
        }
    }

    /// Returns the published distribution with this name, which is one of
    /// [`BUILT_IN_CDFS`](unrack_rack::BUILT_IN_CDFS).
    pub fn built_in(name: &str) -> Option<SizeCdf> {
        let points: &[(f64, f64)] = match name {
            "websearch" => &WEBSEARCH,
            "datamining" => &DATAMINING,
            "imc10" => &IMC10,
            "hadoop" => &HADOOP,
            "spark" => &SPARK,
            "sparksql" => &SPARKSQL,
            "graphlab" => &GRAPHLAB,
            "memcached" => &MEMCACHED,
            _ => return None,
        };
        Some(SizeCdf::new(points, PACKET_BYTES).expect("the built-in distributions are distributions"))
    }

    fn mean(&self) -> f64 {
        let (first, p) = self.0[0];
        let segment = |two: &[(f64, f64)]| (two[1].1 - two[0].1) * (two[0].0 + two[1].0) / 2.0;
        first * p + self.0.windows(2).map(segment).sum::<f64>()
    }

    fn mean_square(&self) -> f64 {
        let (first, p) = self.0[0];
        let square = |a: f64, b: f64| (a * a + a * b + b * b) / 3.0;
        let segment = |two: &[(f64, f64)]| (two[1].1 - two[0].1) * square(two[0].0, two[1].0);
        first * first * p + self.0.windows(2).map(segment).sum::<f64>()
    }

    fn at(&self, p: f64) -> f64 {
        let after = self.0.partition_point(|point| point.1 <= p).min(self.0.len() - 1);
        let (size, to) = self.0[after];
        let (before, from) = if after == 0 { (size, 0.0) } else { self.0[after - 1] };
        if to == from { size } else { before + (size - before) * (p - from) / (to - from) }
    }
}

/// Returns whether sizes with this mean and this mean of squares have a heavy tail; see
/// [`SizeDistribution::is_heavy_tailed`].
pub fn heavy_tailed(mean: f64, mean_square: f64) -> bool {
    mean_square > 2.0 * mean * mean
}

/// Web search: published in DCTCP (SIGCOMM 2010).
const WEBSEARCH: [(f64, f64); 12] = [
    (6., 0.),
    (6., 0.15),
    (13., 0.2),
    (19., 0.3),
    (33., 0.4),
    (53., 0.53),
    (133., 0.6),
    (667., 0.7),
    (1333., 0.8),
    (3333., 0.9),
    (6667., 0.97),
    (20000., 1.),
];
/// Data mining: published in VL2 (SIGCOMM 2009).
const DATAMINING: [(f64, f64); 9] = [
    (1., 0.),
    (1., 0.5),
    (2., 0.6),
    (3., 0.7),
    (7., 0.8),
    (267., 0.9),
    (2107., 0.95),
    (66667., 0.99),
    (666667., 1.),
];
/// Sizes in datacenters by Benson et al. (IMC 2010), as used by pHost.
const IMC10: [(f64, f64); 12] = [
    (1., 0.),
    (1., 0.5),
    (2., 0.6),
    (3., 0.7),
    (5., 0.75),
    (7., 0.8),
    (40., 0.8125),
    (72., 0.825),
    (137., 0.85),
    (267., 0.9),
    (1187., 0.95),
    (2107., 1.),
];
// Applications from DDC, as used by EDM §4.3.2: the median size is a page, and merged transfers form the tail.
const HADOOP: [(f64, f64); 5] = [(4., 0.), (4., 0.7), (88., 0.8), (167., 0.9), (920., 1.)];
const SPARK: [(f64, f64); 5] = [(4., 0.), (4., 0.7), (13., 0.8), (220., 0.9), (930., 1.)];
const SPARKSQL: [(f64, f64); 7] =
    [(4., 0.), (4., 0.5), (7., 0.6), (7., 0.7), (83., 0.8), (140., 0.9), (980., 1.)];
const GRAPHLAB: [(f64, f64); 5] = [(4., 0.), (4., 0.7), (88., 0.8), (167., 0.9), (1080., 1.)];
const MEMCACHED: [(f64, f64); 5] = [(4., 0.), (4., 0.7), (64., 0.8), (296., 0.9), (1216., 1.)];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mean_is_that_of_the_draws() {
        for name in unrack_rack::BUILT_IN_CDFS {
            let size = SizeDistribution::Cdf(SizeCdf::built_in(name).unwrap());
            let steps = 1_000_000;
            let mean = (0..steps).map(|i| size.at((i as f64 + 0.5) / steps as f64) as f64).sum::<f64>()
                / steps as f64;
            assert!((mean / size.mean() - 1.0).abs() < 1e-3, "{name}: {mean} against {}", size.mean());
        }
    }

    #[test]
    fn interpolates_between_points() {
        let cdf = SizeCdf::new(&[(10., 0.5), (20., 1.)], 1.).unwrap();
        assert_eq!([0.0, 0.3, 0.5, 0.75].map(|p| cdf.at(p)), [10., 10., 10., 15.]);
        assert_eq!(cdf.mean(), 12.5);
    }

    #[test]
    fn what_is_no_distribution_is_refused() {
        let message = |points: &[(f64, f64)]| SizeCdf::new(points, 1.).unwrap_err().to_string();
        assert!(message(&[]).contains("at least one point"));
        assert!(message(&[(1., 0.), (2., 0.9)]).contains("ends at probability 1, but is 0.9"));
        assert!(message(&[(3., 0.), (2., 1.)]).contains("rises"));
        assert!(message(&[(0., 1.)]).contains("write 1 for 0"));
        assert!(message(&[(0., 0.), (0., 0.5), (9., 1.)]).contains("write 1 for 0"));
        assert!(message(&[(f64::NAN, 1.)]).contains("0 or more"));
        assert!(message(&[(-1., 0.), (2., 1.)]).contains("0 or more"));
        let fixed = |bytes| SizeDistribution::fixed(bytes).map_err(|why| why.to_string());
        assert_eq!(fixed(0).unwrap_err(), "`workload.size` is 1B to 1024GiB, but is 0B");
        assert_eq!(
            fixed(MAX_BYTES + 1024).unwrap_err(),
            "`workload.size` is 1B to 1024GiB, but is 1073741825KiB"
        );
        assert!(message(&[(2e12, 1.)]).contains("up to 1024GiB, but is 2000000000000B"));
    }

    #[test]
    fn a_distribution_may_begin_at_size_0() {
        for unit in [1.0, PACKET_BYTES] {
            let [from_0, from_1] = [0.0, 1.0 / unit].map(|first| {
                SizeDistribution::Cdf(SizeCdf::new(&[(first, 0.), (10_000., 0.15), (3e7, 1.)], unit).unwrap())
            });
            assert_eq!(from_0, from_1);
            assert_eq!(from_0.at(0.0), 1);
        }
        // The mean, and therefore the offered load, is derived from the sizes that are actually drawn.
        let tiny = SizeDistribution::Cdf(SizeCdf::new(&[(0., 0.), (1., 1.)], 1.).unwrap());
        assert_eq!((tiny.mean(), tiny.at(0.2)), (1.0, 1));
    }

    #[test]
    fn sizes_of_4_gib_and_more_are_drawn() {
        for bytes in [u64::from(u32::MAX), 1 << 32, (1 << 32) + 1, 5 << 30, MAX_BYTES] {
            let fixed = SizeDistribution::fixed(bytes).unwrap();
            let cdf = SizeDistribution::Cdf(SizeCdf::new(&[(1., 0.), (bytes as f64, 1.)], 1.).unwrap());
            assert_eq!([fixed.at(0.3), fixed.largest(), cdf.largest()], [bytes; 3]);
            assert_eq!(cdf.at(0.5), (1.0 + (bytes - 1) as f64 * 0.5).round() as u64);
        }
    }
}
