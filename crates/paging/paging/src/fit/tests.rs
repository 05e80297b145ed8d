//! Tests of fitted lines and their intervals.

use super::*;
use proptest::prelude::*;
use rand::SeedableRng;
use rand_distr::{Distribution, Normal, StudentT};
use rand_pcg::Pcg64Mcg;

fn points(runs: &[(f64, f64)]) -> Vec<FitPoint> {
    runs.iter().map(|&(delay_ns, run_s)| FitPoint { delay_ns, run_s }).collect()
}

fn fitted(waits_per_s: f64, waits_per_s_ci95: [f64; 2]) -> Fit {
    let (waits, waits_ci95) = (waits_per_s, waits_per_s_ci95);
    Fit { intercept_s: 1.0, waits, waits_ci95, waits_per_s, waits_per_s_ci95, r2: 0.9, worst_residual: 0.1 }
}

#[test]
fn a_line_reckoned_by_hand() {
    // Run times in ns 1, 2, 2, 4 at 0, 1, 2, 3 ns: slopes 1, 0, 2, 1/2, 1, 1, so 1; residuals 1, 1, 0, 1, so 1.
    let fit =
        line(&points(&[(0.0, 1e-9), (1.0, 2e-9), (2.0, 2e-9), (3.0, 4e-9)]), &[2e-9, 1e-9, 3e-9], 1).unwrap();
    assert!((fit.waits - 1.0).abs() < 1e-12 && (fit.intercept_s - 1e-9).abs() < 1e-21, "{fit:?}");
    assert!((fit.waits_per_s - 0.5e9).abs() < 1.0, "over the middle native run: {fit:?}");
    // One run lies 1 ns below the line, whose value there is 3 ns; the runs differ from their mean by 4.75 ns^2.
    assert!(
        (fit.r2 - (1.0 - 1.0 / 4.75)).abs() < 1e-12 && (fit.worst_residual - 1.0 / 3.0).abs() < 1e-12,
        "{fit:?}"
    );
}

#[test]
fn no_line_without_enough_points() {
    let native = [1.0];
    assert_eq!(line(&points(&[(1.0, 1.0), (2.0, 2.0)]), &native, 1), None);
    assert_eq!(line(&points(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)]), &native, 1), None);
    assert_eq!(line(&points(&[(1.0, 1.0), (2.0, f64::NAN), (3.0, 3.0)]), &native, 1), None);
    let level = points(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]);
    assert_eq!(line(&level, &[], 1), None);
    assert_eq!(line(&level, &[0.0], 1), None);
    let level = line(&level, &native, 1).unwrap();
    assert_eq!((level.waits, level.r2, level.worst_residual), (0.0, 1.0, 0.0));
}

#[test]
fn a_program_that_does_not_wait_takes_any_delay() {
    let fit = line(&points(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)]), &[2.0], 1).unwrap();
    assert_eq!(largest_delay_ns(&fit, 0.05), None);
    assert_eq!(slowdown(&fit, 1e9).value, 1.0);
}

#[test]
fn wide_intervals_stay_meaningful() {
    let fit = fitted(10.0, [-5.0, 25.0]);
    assert_eq!(slowdown(&fit, 1e8), FitEstimate { value: 2.0, ci95: [1.0, 3.5] });
    let delay = largest_delay_ns(&fit, 0.1).unwrap();
    assert_eq!(delay, FitEstimate { value: 1e7, ci95: [4e6, f64::INFINITY] });
}

#[test]
fn medians() {
    let median = |values: &[f64]| super::median(&mut values.to_vec());
    assert_eq!(
        (median(&[3.0, 1.0, 2.0]), median(&[4.0, 1.0]), median(&[9.0, 4.0, 1.0, 2.0])),
        (2.0, 2.5, 3.0)
    );
}

/// Program that computes for 0.5 s, spends 1.3 s more on paging, and waits 57,000 times: the NumPy example.
struct Program {
    /// Number of runs at each of five delays, from 19.5 to 52 us.
    runs: [usize; 5],
    native: usize,
}

const WAITS: f64 = 57_000.0;
const NATIVE_S: f64 = 0.5;
const INTERCEPT_S: f64 = 1.8;

impl Program {
    /// Returns its runs, each multiplied by `noise`: 1.0 is no noise.
    fn measured(&self, mut noise: impl FnMut() -> f64) -> (Vec<FitPoint>, Vec<f64>) {
        let delays = (0..5).flat_map(|n| vec![19_500.0 + 8_125.0 * n as f64; self.runs[n]]);
        let run =
            |delay_ns: f64| FitPoint { delay_ns, run_s: (INTERCEPT_S + WAITS * delay_ns / 1e9) * noise() };
        let points = delays.map(run).collect();
        (points, (0..self.native).map(|_| NATIVE_S * noise()).collect())
    }

    /// Returns the fractions of many studies in which the intervals held the true waits, and the true waits per
    /// second.
    fn coverage(&self, noise: impl Distribution<f64>) -> [f64; 2] {
        const STUDIES: u64 = 1000;
        let mut held = [0, 0];
        for seed in 0..STUDIES {
            let mut generator = Pcg64Mcg::seed_from_u64(seed);
            // Never less than half: nothing makes a program faster.
            let (points, native) = self.measured(|| (1.0 + noise.sample(&mut generator)).max(0.5));
            let fit = line(&points, &native, seed).unwrap();
            let holds = |[low, high]: [f64; 2], truth: f64| (low..=high).contains(&truth) as u32;
            held[0] += holds(fit.waits_ci95, WAITS);
            held[1] += holds(fit.waits_per_s_ci95, WAITS / NATIVE_S);
        }
        held.map(|held| f64::from(held) / STUDIES as f64)
    }
}

/// Student's t with 2 degrees of freedom, whose variance is infinite, as wide in the middle as the normal noise.
struct HeavyTailed(StudentT<f64>);

impl Distribution<f64> for HeavyTailed {
    fn sample<R: rand::Rng + ?Sized>(&self, generator: &mut R) -> f64 {
        0.03 * self.0.sample(generator)
    }
}

/// A program that is run natively until its interval is narrow enough to be stated is stopped by the interval's width, not by its place:
/// what is stated then is right nearly as often as with a fixed number of runs.
#[test]
fn runs_that_end_when_the_interval_is_narrow_hold_the_truth_as_often() {
    const STUDIES: u64 = 1000;
    let program = Program { runs: [1, 1, 1, 1, 1], native: 4 };
    for scatter in [0.1, 0.2, 0.3] {
        let (of_points, of_natives) = (Normal::new(0.0, 0.03).unwrap(), Normal::new(0.0, scatter).unwrap());
        let (mut stated, mut held, mut more) = (0, 0, 0);
        for seed in 0..STUDIES {
            let mut generator = Pcg64Mcg::seed_from_u64(seed);
            let points = program.measured(|| 1.0 + of_points.sample(&mut generator)).0;
            let mut native = Vec::new();
            while native.len() < 36 {
                let mut run = || NATIVE_S * (1.0f64 + of_natives.sample(&mut generator)).max(0.5);
                native.extend([run(), run(), run(), run()]);
                let fit = line(&points, &native, seed).unwrap();
                if crate::quality::slowdown(&fit, 5e3).is_ok() {
                    let [low, high] = fit.waits_per_s_ci95;
                    stated += 1;
                    more += u32::from(native.len() > 4);
                    held += u32::from((low..=high).contains(&(WAITS / NATIVE_S)));
                    break;
                }
            }
        }
        let right = f64::from(held) / f64::from(stated);
        assert!(
            stated > 500 && right > 0.9,
            "{scatter}: {stated} stated, {more} with more runs, {right} right"
        );
        assert!(more > 100, "{scatter}: {more} with more runs");
    }
}

#[test]
fn intervals_hold_the_truth_in_about_95_of_100_studies() {
    let programs = [
        Program { runs: [1, 1, 1, 1, 1], native: 4 },
        Program { runs: [2, 1, 1, 1, 2], native: 5 },
        Program { runs: [5, 1, 1, 1, 5], native: 8 },
        Program { runs: [3, 3, 3, 3, 3], native: 3 },
    ];
    for program in programs {
        let normal = program.coverage(Normal::new(0.0, 0.03).unwrap());
        let heavy = program.coverage(HeavyTailed(StudentT::new(2.0).unwrap()));
        for held in normal.into_iter().chain(heavy) {
            // With 1,000 studies, the fraction that holds has a standard deviation of 0.7 % at 95 %.
            assert!((0.93..=0.99).contains(&held), "{:?}: normal {normal:?}, heavy {heavy:?}", program.runs);
        }
    }
}

proptest! {
    #[test]
    fn an_exact_line_is_found_exactly(
        intercept in 0.1f64..100.0,
        waits in 1.0f64..1e7,
        delays in proptest::collection::vec(1e3f64..1e6, 3..20),
    ) {
        prop_assume!(delays.iter().any(|d| (d - delays[0]).abs() > 1e3));
        let at = |delay: &f64| FitPoint { delay_ns: *delay, run_s: intercept + waits * delay / 1e9 };
        let fit = line(&delays.iter().map(at).collect::<Vec<_>>(), &[intercept], 1).unwrap();
        // Two delays may be a nanosecond apart: rounding errors of floats are tolerated there.
        let rounding = (intercept + waits * 1e-3) * 1e9 * 1e-15;
        let nearest = nearest_apart(&delays);
        prop_assert!((fit.waits - waits).abs() <= 1e-9 * waits + 4.0 * rounding / nearest, "{fit:?}");
        prop_assert!(fit.worst_residual < 1e-6);
    }

    #[test]
    fn one_run_of_ten_times_the_length_does_not_move_an_exact_line(
        middle in 1usize..4, ends in 1usize..6, which in 0usize..100, factor in 0.1f64..10.0,
    ) {
        let program = Program { runs: [ends, middle, middle, middle, ends], native: 3 };
        let (mut points, native) = program.measured(|| 1.0);
        let which = which % points.len();
        points[which].run_s *= factor;
        let fit = line(&points, &native, 1).unwrap();
        prop_assert!((fit.waits - WAITS).abs() < 1e-6 * WAITS, "{fit:?}");
    }

    #[test]
    fn one_run_of_ten_times_the_length_moves_a_noisy_line_by_less_than_a_fifth(
        noise in proptest::collection::vec(0.98f64..1.02, 12), which in 0usize..7, is_longer: bool,
    ) {
        let program = Program { runs: [2, 1, 1, 1, 2], native: 5 };
        let mut noise = noise.into_iter();
        let (mut points, native) = program.measured(|| noise.next().unwrap());
        let undisturbed = line(&points, &native, 1).unwrap();
        points[which].run_s *= if is_longer { 10.0 } else { 0.1 };
        let fit = line(&points, &native, 1).unwrap();
        prop_assert!((fit.waits / undisturbed.waits - 1.0).abs() < 0.2, "{undisturbed:?} {fit:?}");
    }

    #[test]
    fn intervals_hold_their_value_and_are_the_same_again(
        runs in proptest::collection::vec(0.1f64..10.0, 5), seed: u64,
    ) {
        let points: Vec<_> = (1u8..).zip(&runs).map(|(n, s)| FitPoint { delay_ns: f64::from(n), run_s: *s }).collect();
        let fit = line(&points, &runs, seed).unwrap();
        let holds = |[low, high]: [f64; 2], value| low <= value && value <= high;
        prop_assert!(holds(fit.waits_ci95, fit.waits) && holds(fit.waits_per_s_ci95, fit.waits_per_s), "{fit:?}");
        prop_assert_eq!(line(&points, &runs, seed).unwrap(), fit);
    }

    #[test]
    fn requirement_and_slowdown_are_inverse(
        waits_per_s in 1.0f64..1e7, loss in 0.001f64..10.0, spread in 0.0f64..0.9,
    ) {
        let fit = fitted(waits_per_s, [waits_per_s * (1.0 - spread), waits_per_s * (1.0 + spread)]);
        let delay = largest_delay_ns(&fit, loss).unwrap();
        prop_assert!(delay.ci95[0] <= delay.value && delay.value <= delay.ci95[1]);
        prop_assert!((slowdown(&fit, delay.value).value - 1.0 - loss).abs() < 1e-9 * (1.0 + loss));
        let pessimist = slowdown(&fit, delay.ci95[0]).ci95[1];
        prop_assert!((pessimist - 1.0 - loss).abs() < 1e-9 * (1.0 + loss));
    }
}

/// Returns the smallest distance between two different delays.
fn nearest_apart(delays: &[f64]) -> f64 {
    let mut sorted = delays.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.windows(2).map(|pair| pair[1] - pair[0]).filter(|apart| *apart > 0.0).fold(f64::INFINITY, f64::min)
}
