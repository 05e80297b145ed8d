//! Noise: whether two results differ by more than chance can explain.

use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Judgement of a difference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Noise {
    /// More than chance: the 95 % confidence interval of the difference excludes 0, or the intervals of the two values do not overlap.
    More,
    Within,
    /// Unknown, because the spread of the values is unknown: there is only one run on each side.
    Unknown,
}

/// Part of the differences that are outside of the interval by chance alone: 5 %, as for all intervals in this crate.
const OUTSIDE: f64 = 0.05;

impl Noise {
    /// Judges two values by their confidence intervals.
    pub fn of_intervals(a: [f64; 2], b: [f64; 2]) -> Noise {
        if a[1] < b[0] || b[1] < a[0] { Noise::More } else { Noise::Within }
    }

    /// Judges two means by the spread of their samples, with the 95 % confidence interval of `b - a`.
    ///
    /// The interval is Welch's, because the spreads may differ. Equal seeds draw the same work on both sides, so the values are correlated
    /// in pairs. They are treated as independent, which makes the interval too wide rather than too narrow.
    pub fn of_samples(a: &[f64], b: &[f64]) -> (Noise, Option<[f64; 2]>) {
        if a.len() < 2 || b.len() < 2 {
            return (Noise::Unknown, None);
        }
        let ([mean_a, error_a], [mean_b, error_b]) = (mean_and_error(a), mean_and_error(b));
        let (difference, error) = (mean_b - mean_a, error_a + error_b);
        // B. L. Welch, Biometrika 34 (1947): the degrees of freedom of a difference of means.
        let freedom =
            error.powi(2) / (error_a.powi(2) / (a.len() - 1) as f64 + error_b.powi(2) / (b.len() - 1) as f64);
        let half = match StudentsT::new(0.0, 1.0, freedom) {
            Ok(student) => student.inverse_cdf(1.0 - OUTSIDE / 2.0) * error.sqrt(),
            // Without any spread, the degrees of freedom are 0 divided by 0.
            Err(_) => 0.0,
        };
        let interval = [difference - half, difference + half];
        let is_more = difference != 0.0 && (interval[0] > 0.0 || interval[1] < 0.0);
        (if is_more { Noise::More } else { Noise::Within }, Some(interval))
    }
}

/// Returns the mean, and the square of the standard error of the mean.
fn mean_and_error(values: &[f64]) -> [f64; 2] {
    let n = values.len() as f64;
    let mean = mean(values);
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    [mean, squares / (n - 1.0) / n]
}

pub(super) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_basis::SplitMix64;

    /// Student (Biometrika 6, 1908): hours of sleep gained with two soporifics. The interval is Welch's, as R's `t.test` computes it.
    #[test]
    fn the_interval_is_that_of_a_published_example() {
        let first = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
        let second = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];
        let (noise, interval) = Noise::of_samples(&first, &second);
        let [low, high] = interval.unwrap();
        assert_eq!(noise, Noise::Within);
        assert!((low - -0.205_483_2).abs() < 1e-6 && (high - 3.365_483_2).abs() < 1e-6, "{low} {high}");
    }

    #[test]
    fn one_value_says_nothing_and_no_spread_says_all() {
        assert_eq!(Noise::of_samples(&[1.0], &[2.0, 2.1]).0, Noise::Unknown);
        assert_eq!(Noise::of_samples(&[1.0, 1.0], &[1.0, 1.0]).0, Noise::Within);
        assert_eq!(Noise::of_samples(&[1.0, 1.0], &[1.1, 1.1]).0, Noise::More);
        assert_eq!(Noise::of_samples(&[1.0, 1.1, 0.9], &[2.0, 2.1, 1.9]).0, Noise::More);
        assert_eq!(Noise::of_samples(&[2.0, 2.1, 1.9], &[1.0, 1.1, 0.9]).0, Noise::More);
    }

    #[test]
    fn chance_alone_is_rarely_more_than_noise() {
        // Means of uniform samples: two samples of the same distribution, a thousand times.
        let mut random = SplitMix64::new(1);
        let mut draw = || random.next_u64() as f64 / u64::MAX as f64;
        for seeds in [3, 5, 10] {
            let mut sample = || (0..seeds).map(|_| draw()).collect::<Vec<_>>();
            let more = (0..1000).filter(|_| Noise::of_samples(&sample(), &sample()).0 == Noise::More).count();
            // 50 are expected; four standard deviations of this number are 28.
            assert!(more < 78, "{more} of 1000 with {seeds} seeds");
        }
    }
}
