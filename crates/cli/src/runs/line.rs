//! The delays at which a program is run, and the line through what comes out.

use super::{REMOTE, with_median};
use crate::failure::Failure;
use unrack_paging::{RunReport, fit};
use unrack_record::{Fit, InjectionPoint};

/// Delays are injected at so many values, evenly spaced.
pub const POINTS: u32 = 3;
/// The smallest is so many times the pager's own cost.
const ABOVE_FLOOR: f64 = 2.0;
/// The largest is at least so many times the smallest, or the line would have nothing to stand on.
const APART: f64 = 2.0;
/// Injected waits may make the program take so many times its native run time longer.
const STRETCH: f64 = 2.0;
const LARGEST_DELAY_NS: f64 = 500_000.0;
/// Below this, a line explains too little of what the runs took.
pub const STRAIGHT_R2: f64 = 0.9;

/// The whole delays to inject, in whole nanoseconds, smallest first, for a program that fetches so many
/// pages.
pub fn delays_ns(native_s: f64, fetches: u64, floor_ns: f64) -> impl Iterator<Item = f64> {
    let smallest = ABOVE_FLOOR * floor_ns;
    let affordable = STRETCH * native_s * 1e9 / fetches.max(1) as f64;
    let largest = affordable.min(LARGEST_DELAY_NS).max(APART * smallest);
    let step = (largest - smallest) / f64::from(POINTS - 1);
    (0..POINTS).map(move |n| (smallest + step * f64::from(n)).round())
}

/// What all injected runs are reckoned to take, in native runs: see [`stretched`].
pub fn reckoned(repeat: u32) -> f64 {
    (1..=POINTS).map(stretched).sum::<f64>() * f64::from(repeat)
}

/// What a run at the n-th delay is reckoned to take, in native runs.
pub fn stretched(n: u32) -> f64 {
    REMOTE + STRETCH * f64::from(n) / f64::from(POINTS)
}

/// One run at an injected delay.
#[derive(Clone, Copy)]
pub struct Injected {
    pub wall_s: f64,
    pub fetches: u64,
    pub write_backs: u64,
}

impl Injected {
    pub fn of(report: &RunReport) -> Injected {
        let (fetches, write_backs) = (report.tally.fetches, report.tally.write_backs);
        Injected { wall_s: report.wall_s, fetches, write_backs }
    }
}

pub fn point(delay_ns: f64, runs: &[Injected]) -> InjectionPoint {
    let mut by_time = runs.to_vec();
    by_time.sort_by(|a, b| a.wall_s.total_cmp(&b.wall_s));
    let middle = by_time[by_time.len() / 2];
    InjectionPoint {
        delay_ns,
        runs: with_median(runs.iter().map(|run| run.wall_s).collect()),
        fetches: middle.fetches,
        write_backs: middle.write_backs,
    }
}

pub fn through(points: &[InjectionPoint]) -> Result<Fit, Failure> {
    let point = |point: &InjectionPoint, run_s: &f64| fit::Point { delay_ns: point.delay_ns, run_s: *run_s };
    let all: Vec<_> = points.iter().flat_map(|p| p.runs.seconds.iter().map(move |s| point(p, s))).collect();
    fit::line(&all)
        .ok_or_else(|| Failure::Failed("the injected runs leave no line to draw; use --repeat 2".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delays_are_above_the_floor_and_affordable() {
        let all = |native_s, fetches| delays_ns(native_s, fetches, 10_000.0).collect::<Vec<_>>();
        assert_eq!(all(1.0, 20_000), [20_000.0, 60_000.0, 100_000.0]);
        assert_eq!(all(1.0, 1_000_000), [20_000.0, 30_000.0, 40_000.0], "never near the floor");
        assert_eq!(all(1.0, 0).last(), Some(&LARGEST_DELAY_NS));
    }

    #[test]
    fn a_point_has_the_counts_of_its_median_run() {
        let run = |wall_s, fetches| Injected { wall_s, fetches, write_backs: 0 };
        let point = point(5.0, &[run(3.0, 30), run(1.0, 10), run(2.0, 20)]);
        assert_eq!((point.runs.median_s, point.fetches), (2.0, 20));
    }
}
