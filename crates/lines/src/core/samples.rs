//! Cycles per instruction and slowdowns of a thread, from a systematic sample of its windows.
//!
//! Both are ratios of two sums over windows: cycles over instructions, cycles in one lane over those in another. The
//! variance is that of the ratio estimator (Cochran, Sampling Techniques, 3rd edition, section 2.11 and equation 6.13),
//! which counts what the two sums have in common. The sample is treated as random, as SMARTS does (Wunderlich et al., ISCA
//! 2003, section 3.2).

use super::WindowCycles;
use std::collections::BTreeMap;

/// Number with its 95 % interval, which is as wide to both sides.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Value.
    pub value: f64,
    /// Half of the interval's width.
    pub half: f64,
    /// Windows that it was estimated from.
    pub windows: usize,
}

/// Reason why there is no estimate.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SamplesError {
    /// The windows are too few for an interval.
    #[error(
        "thread {thread} has {found} windows, but an interval needs 2 or more: record with a shorter period"
    )]
    TooFew {
        /// Thread.
        thread: u32,
        /// Its windows.
        found: usize,
    },
    /// A lane does not exist.
    #[error("lane {lane}, but the windows have {found}")]
    Lane {
        /// Number that was asked for.
        lane: usize,
        /// Number of lanes.
        found: usize,
    },
}

/// Windows of all threads, as the core ran them.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    threads: BTreeMap<u32, Vec<Sample>>,
}

/// Window's instructions and its cycles in each lane.
#[derive(Clone, Debug)]
struct Sample {
    instructions: f64,
    cycles: Vec<f64>,
}

impl Samples {
    /// Adds a window of a thread. One without instructions beyond its lead says nothing and is left out.
    pub fn add(&mut self, thread: u32, window: &WindowCycles) {
        if window.instructions > 0 {
            let sample = Sample { instructions: window.instructions as f64, cycles: window.cycles.clone() };
            self.threads.entry(thread).or_default().push(sample);
        }
    }

    /// Returns the threads that have windows, in ascending order.
    pub fn threads(&self) -> impl Iterator<Item = u32> + '_ {
        self.threads.keys().copied()
    }

    /// Estimates a thread's cycles per instruction in a lane.
    ///
    /// # Errors
    /// If it has less than two windows, or no such lane.
    pub fn cycles(&self, thread: u32, lane: usize) -> Result<Estimate, SamplesError> {
        self.estimate(thread, lane, |sample| (sample.cycles[lane], sample.instructions))
    }

    /// Estimates a thread's further cycles per instruction in a lane, beyond those in the first.
    ///
    /// # Errors
    /// If it has less than two windows, or no such lane.
    pub fn extra(&self, thread: u32, lane: usize) -> Result<Estimate, SamplesError> {
        self.estimate(thread, lane, |sample| (sample.cycles[lane] - sample.cycles[0], sample.instructions))
    }

    /// Estimates a thread's slowdown: its cycles in a lane over those in the first.
    ///
    /// # Errors
    /// If it has less than two windows, or no such lane.
    pub fn slowdown(&self, thread: u32, lane: usize) -> Result<Estimate, SamplesError> {
        self.estimate(thread, lane, |sample| (sample.cycles[lane], sample.cycles[0]))
    }

    fn estimate(
        &self,
        thread: u32,
        lane: usize,
        pair: impl Fn(&Sample) -> (f64, f64),
    ) -> Result<Estimate, SamplesError> {
        let samples = self.threads.get(&thread).map_or(&[][..], Vec::as_slice);
        if let Some(found) = samples.iter().map(|sample| sample.cycles.len()).find(|found| lane >= *found) {
            return Err(SamplesError::Lane { lane, found });
        }
        let pairs: Vec<(f64, f64)> = samples.iter().map(pair).collect();
        ratio(&pairs).ok_or(SamplesError::TooFew { thread, found: samples.len() })
    }
}

/// Estimates the ratio of two sums. `None` for less than two pairs.
fn ratio(pairs: &[(f64, f64)]) -> Option<Estimate> {
    let windows = pairs.len();
    if windows < 2 {
        return None;
    }
    let sum = pairs.iter().fold((0.0, 0.0), |sum, pair| (sum.0 + pair.0, sum.1 + pair.1));
    let value = sum.0 / sum.1;
    let count = windows as f64;
    // Cochran, equation 6.13: v(R) = sum (y - R x)^2 / ((n - 1) n xbar^2).
    let residuals: f64 = pairs.iter().map(|(y, x)| (y - value * x).powi(2)).sum();
    let deviation = (residuals * count / (count - 1.0)).sqrt() / sum.1;
    Some(Estimate { value, half: student(windows - 1) * deviation, windows })
}

/// Returns the 97.5 % quantile of Student's distribution. Beyond the table: the first terms of the expansion by Cornish and
/// Fisher (Abramowitz and Stegun, 26.7.5), to three decimals.
fn student(freedom: usize) -> f64 {
    const TABLE: [f64; 10] = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228];
    let normal: f64 = 1.959_964;
    TABLE.get(freedom - 1).copied().unwrap_or_else(|| {
        let freedom = freedom as f64;
        let first = (normal.powi(3) + normal) / 4.0;
        let second = (5.0 * normal.powi(5) + 16.0 * normal.powi(3) + 3.0 * normal) / 96.0;
        normal + first / freedom + second / (freedom * freedom)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(windows: &[(u64, [f64; 2])]) -> Samples {
        let mut samples = Samples::default();
        for (instructions, cycles) in windows {
            let account = crate::core::Account::default();
            let window = WindowCycles { instructions: *instructions, cycles: cycles.to_vec(), account };
            samples.add(3, &window);
        }
        samples
    }

    #[test]
    fn ratios_are_of_sums_and_their_intervals_of_residuals() {
        let samples = samples(&[(10, [10.0, 30.0]), (10, [20.0, 40.0]), (20, [30.0, 50.0])]);
        let cycles = samples.cycles(3, 0).unwrap();
        assert_eq!((cycles.value, cycles.windows), (1.5, 3));
        // Residuals -5, 5, 0: s^2 = 50 / 2, mean x = 40 / 3.
        let expected = 4.303 * (25.0f64 / 3.0).sqrt() / (40.0 / 3.0);
        assert!((cycles.half - expected).abs() < 1e-12, "{cycles:?}");
        assert_eq!(samples.slowdown(3, 1).unwrap().value, 2.0);
        assert_eq!(samples.extra(3, 1).unwrap().value, 1.5);
    }

    #[test]
    fn a_slowdown_that_all_windows_share_is_certain_where_their_times_are_not() {
        let samples = samples(&[(10, [10.0, 20.0]), (10, [40.0, 80.0]), (10, [70.0, 140.0])]);
        assert!(samples.cycles(3, 1).unwrap().half > 1.0);
        assert_eq!(samples.slowdown(3, 1).unwrap().half, 0.0);
    }

    #[test]
    fn one_window_is_too_few() {
        let samples = samples(&[(10, [10.0, 20.0]), (0, [1.0, 1.0])]);
        assert_eq!(samples.cycles(3, 0), Err(SamplesError::TooFew { thread: 3, found: 1 }));
        assert_eq!(samples.cycles(4, 0), Err(SamplesError::TooFew { thread: 4, found: 0 }));
        assert_eq!(samples.cycles(3, 2), Err(SamplesError::Lane { lane: 2, found: 2 }));
    }

    #[test]
    fn quantiles_are_those_of_tables() {
        for (freedom, expected) in [(1, 12.706), (10, 2.228), (11, 2.201), (20, 2.086), (100, 1.984)] {
            assert!((student(freedom) - expected).abs() < 1.5e-3, "{freedom}: {}", student(freedom));
        }
    }
}
