//! Estimates the cycles and the slowdown of a thread from its sampled windows, with 95 % confidence intervals.
//!
//! Windows are sampled systematically, as in SMARTS (Wunderlich et al., ISCA 2003, section 3.1), and evaluated as if
//! they were sampled at random. An estimate is the ratio of two sums over windows. Its error is that of the ratio
//! estimator (Cochran, *Sampling Techniques*, 3rd ed., 1977, equation 6.13), with Student's t; the degrees of freedom
//! are the number of windows minus one. The numerator and the denominator of a slowdown are cycles of the same windows
//! in two lanes. Therefore variation between windows that affects the two lanes equally cancels out.

use super::replay::WindowCycles;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Estimated number. With 95 % confidence, the true value differs from `value` by at most `half`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// Point estimate.
    pub value: f64,
    /// Half of the width of the 95 % confidence interval.
    pub half: f64,
}

/// Reason why an estimate is impossible.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EstimateError {
    /// The thread has fewer than two recorded windows, which are too few for an estimate.
    #[error("{0} recorded windows of a thread are too few to estimate its time: record at least 2")]
    TooFew(usize),
    /// The denominator of the ratio is zero in all windows.
    #[error("the recorded windows of a thread hold no instructions behind their leads")]
    Empty,
}

/// Recorded windows of one thread, with the cycles that each window took in several lanes (memory configurations).
#[derive(Clone, Copy, Debug)]
pub struct WindowSample<'a> {
    windows: &'a [WindowCycles],
}

impl<'a> WindowSample<'a> {
    /// Creates a sample from windows of one thread. All windows must have been executed in the same lanes.
    pub fn new(windows: &'a [WindowCycles]) -> WindowSample<'a> {
        WindowSample { windows }
    }

    /// Estimates the cycles per instruction of the thread in a lane.
    ///
    /// # Errors
    /// If there are fewer than two windows, or they contain no instruction.
    pub fn cycles_per_instruction(&self, lane: usize) -> Result<Estimate, EstimateError> {
        self.ratio(|window| (window.cycles[lane], window.instructions as f64))
    }

    /// Estimates how many more cycles per instruction the thread takes in `lane` than in the lane `base`.
    ///
    /// # Errors
    /// If there are fewer than two windows, or they contain no instruction.
    pub fn extra_cycles_per_instruction(&self, lane: usize, base: usize) -> Result<Estimate, EstimateError> {
        self.ratio(|window| (window.cycles[lane] - window.cycles[base], window.instructions as f64))
    }

    /// Estimates the slowdown of a lane: the cycles of the thread in `lane`, divided by its cycles in the lane `base`.
    ///
    /// # Errors
    /// If there are fewer than two windows, or they contain no instruction.
    pub fn slowdown(&self, lane: usize, base: usize) -> Result<Estimate, EstimateError> {
        self.ratio(|window| (window.cycles[lane], window.cycles[base]))
    }

    /// Estimates a ratio. `pair` returns the numerator and the denominator of a window, and the ratio is the sum of the
    /// numerators divided by the sum of the denominators.
    fn ratio(&self, pair: impl Fn(&WindowCycles) -> (f64, f64)) -> Result<Estimate, EstimateError> {
        let count = self.windows.len();
        if count < 2 {
            return Err(EstimateError::TooFew(count));
        }
        let (mut above, mut below) = (0.0, 0.0);
        for (y, x) in self.windows.iter().map(&pair) {
            (above, below) = (above + y, below + x);
        }
        if below <= 0.0 {
            return Err(EstimateError::Empty);
        }
        // Cochran, equation 6.13: v(R) = sum((y - R x)^2) / (n (n - 1) mean(x)^2). The finite population correction
        // is left out, because the sampled share is small.
        let value = above / below;
        let squares: f64 = self.windows.iter().map(&pair).map(|(y, x)| (y - value * x).powi(2)).sum();
        let n = count as f64;
        let error = (squares * n / (n - 1.0)).sqrt() / below;
        Ok(Estimate { value, half: quantile(n - 1.0) * error })
    }
}

/// Returns the 97.5 % quantile of Student's t with `freedom` degrees of freedom, at least 1.
fn quantile(freedom: f64) -> f64 {
    StudentsT::new(0.0, 1.0, freedom).map_or(f64::INFINITY, |t| t.inverse_cdf(0.975))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_basis::SplitMix64;

    fn window(instructions: u64, cycles: &[f64]) -> WindowCycles {
        WindowCycles { thread: 0, start: 0, instructions, cycles: cycles.to_vec() }
    }

    #[test]
    fn of_windows_of_equal_length_the_interval_is_that_of_their_mean() {
        // Worked example: 1, 2, 3 have a mean of 2 and a deviation of 1, and the quantile of t with 2 degrees of
        // freedom is 4.303.
        let windows = [10.0, 20.0, 30.0].map(|cycles| window(10, &[cycles]));
        let estimate = WindowSample::new(&windows).cycles_per_instruction(0).unwrap();
        assert_eq!(estimate.value, 2.0);
        assert!((estimate.half - 4.302_652_7 / 3f64.sqrt()).abs() < 1e-6, "{estimate:?}");
    }

    #[test]
    fn one_window_is_too_few_and_two_are_uncertain() {
        let windows = [window(10, &[10.0]), window(10, &[20.0])];
        assert_eq!(WindowSample::new(&windows[..1]).cycles_per_instruction(0), Err(EstimateError::TooFew(1)));
        assert!(WindowSample::new(&windows).cycles_per_instruction(0).unwrap().half > 6.0, "t of 1 is 12.7");
        let empty = [window(0, &[0.0]), window(0, &[0.0])];
        assert_eq!(WindowSample::new(&empty).cycles_per_instruction(0), Err(EstimateError::Empty));
    }

    proptest! {
        #[test]
        fn what_is_common_to_both_lanes_leaves_a_slowdown_certain(cycles in prop::collection::vec(1..1000u32, 2..50)) {
            let windows: Vec<_> =
                cycles.iter().map(|c| window(10, &[f64::from(*c), 2.5 * f64::from(*c)])).collect();
            let slowdown = WindowSample::new(&windows).slowdown(1, 0).unwrap();
            prop_assert!((slowdown.value - 2.5).abs() < 1e-12 && slowdown.half < 1e-9);
            let extra = WindowSample::new(&windows).extra_cycles_per_instruction(1, 0).unwrap();
            let base = WindowSample::new(&windows).cycles_per_instruction(0).unwrap();
            prop_assert!((extra.value - 1.5 * base.value).abs() <= 1e-9 * base.value);
        }
    }

    /// Samples windows from a population many times: 95 % of the intervals contain its ratio, within the error of
    /// that count.
    #[test]
    fn intervals_hold_the_truth_as_often_as_they_say() {
        let mut random = SplitMix64::new(7);
        let mut draw = |range: u64| random.next_u64() % range;
        let population: Vec<_> = (0..4000)
            .map(|_| {
                let near = 500.0 + draw(1000) as f64;
                window(1000, &[near, near * 1.5 + draw(800) as f64])
            })
            .collect();
        let sum = |lane: usize| population.iter().map(|window| window.cycles[lane]).sum::<f64>();
        let truth = sum(1) / sum(0);
        let held = (0..2000).filter(|_| {
            let windows: Vec<_> = (0..30).map(|_| population[draw(4000) as usize].clone()).collect();
            let slowdown = WindowSample::new(&windows).slowdown(1, 0).unwrap();
            (slowdown.value - truth).abs() <= slowdown.half
        });
        // 1900 are expected, with a standard deviation of 10.
        let held = held.count();
        assert!((1850..=1950).contains(&held), "{held} of 2000");
    }
}
