//! The straight line from fetch delay to run time, and the conclusions that it permits.
//!
//! A program that waits for `waits` fetches one after another takes `intercept + waits x delay`. The slope is measured well above the
//! pager's floor, and holds below it too. Therefore the slowdown at any delay is `(native + waits x delay) / native`.
//!
//! The line is that of Theil and Sen: its slope is the median of the slopes between all pairs of runs at different delays (P. K. Sen,
//! "Estimates of the regression coefficient based on Kendall's tau", J. Am. Stat. Assoc. 63, 1968). A single run that took ten times as
//! long can move a least-squares line anywhere, but moves this line by no more than the scatter of the other runs. Confidence intervals
//! come from a bootstrap: see [`bootstrap`].

mod bootstrap;
#[cfg(test)]
mod tests;
mod theil_sen;

use bootstrap::Resampled;
use theil_sen::PointPairs;
use unrack_record::Fit;

/// One run: the total delay of one fetch, and the run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitPoint {
    pub delay_ns: f64,
    pub run_s: f64,
}

/// A value and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FitEstimate {
    pub value: f64,
    pub ci95: [f64; 2],
}

/// Fits the line to `points`, all with equal weight. `native_s` are the times of the program's native runs. The same points and seed give
/// the same line.
///
/// Returns `None` if there are fewer than three points (two points determine a line but do not show its error), fewer than two different
/// delays, no native run, or numbers that are not finite.
pub fn line(points: &[FitPoint], native_s: &[f64], seed: u64) -> Option<Fit> {
    let is_known = |p: &FitPoint| p.delay_ns.is_finite() && p.run_s.is_finite();
    let is_time = |s: &f64| s.is_finite() && *s > 0.0;
    if points.len() < 3
        || !points.iter().all(is_known)
        || native_s.is_empty()
        || !native_s.iter().all(is_time)
    {
        return None;
    }
    // Seconds per nanosecond would be tiny numbers, so everything is computed in nanoseconds.
    let delays: Vec<f64> = points.iter().map(|p| p.delay_ns).collect();
    let runs: Vec<f64> = points.iter().map(|p| p.run_s * 1e9).collect();
    let pairs = PointPairs::new(&delays)?;
    let waits = pairs.slope(&runs);
    let intercept = theil_sen::intercept(&delays, &runs, waits);
    let fitted: Vec<f64> = delays.iter().map(|delay| intercept + waits * delay).collect();
    let resampled = Resampled::draw(&pairs, &runs, &fitted, waits, native_s, seed);
    let waits_per_s = waits / median(&mut native_s.to_vec());
    Some(Fit {
        intercept_s: intercept / 1e9,
        waits,
        waits_ci95: around(waits, resampled.waits),
        waits_per_s,
        waits_per_s_ci95: around(waits_per_s, resampled.waits_per_s),
        r2: explained(&runs, &fitted),
        worst_residual: runs.iter().zip(&fitted).map(|(run, line)| off(*run, *line)).fold(0.0, f64::max),
    })
}

/// Returns the estimated slowdown (run time divided by native run time) if each fetch has this delay.
pub fn slowdown(fit: &Fit, delay_ns: f64) -> FitEstimate {
    let at = |waits_per_s: f64| 1.0 + waits_per_s.max(0.0) * delay_ns / 1e9;
    FitEstimate { value: at(fit.waits_per_s), ci95: fit.waits_per_s_ci95.map(at) }
}

/// Returns the largest delay of a fetch that costs at most this fraction of the native run time (0.05 means 5 %), with its interval.
/// Returns `None` if the program was not found to wait at all, so that any delay is acceptable.
pub fn largest_delay_ns(fit: &Fit, loss: f64) -> Option<FitEstimate> {
    let at = |waits_per_s: f64| if waits_per_s > 0.0 { loss * 1e9 / waits_per_s } else { f64::INFINITY };
    let [few, many] = fit.waits_per_s_ci95;
    (fit.waits_per_s > 0.0).then(|| FitEstimate { value: at(fit.waits_per_s), ci95: [at(many), at(few)] })
}

/// Returns the median of `values`: the middle value, or the mean of the middle two. `values` must not be empty.
pub fn median(values: &mut [f64]) -> f64 {
    let (middle, is_even) = (values.len() / 2, values.len().is_multiple_of(2));
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    match below.iter().copied().reduce(f64::max) {
        Some(lower) if is_even => (lower + *upper) / 2.0,
        _ => *upper,
    }
}

/// Returns the 2.5th and the 97.5th percentile of the draws, widened to include `value` itself.
fn around(value: f64, mut drawn: Vec<f64>) -> [f64; 2] {
    drawn.sort_by(f64::total_cmp);
    let cut = drawn.len() / 40;
    [drawn[cut].min(value), drawn[drawn.len() - 1 - cut].max(value)]
}

/// Returns the fraction of the variance of `runs` that the line explains; 1 if the run times do not vary at all.
fn explained(runs: &[f64], fitted: &[f64]) -> f64 {
    let mean = runs.iter().sum::<f64>() / runs.len() as f64;
    let about_mean: f64 = runs.iter().map(|run| (run - mean).powi(2)).sum();
    let about_line: f64 = runs.iter().zip(fitted).map(|(run, line)| (run - line).powi(2)).sum();
    if about_mean > 0.0 { (1.0 - about_line / about_mean).clamp(0.0, 1.0) } else { 1.0 }
}

/// Returns the distance of a run from the line, divided by the line's value at that delay.
fn off(run: f64, line: f64) -> f64 {
    (run - line).abs() / line.abs().max(f64::MIN_POSITIVE)
}
