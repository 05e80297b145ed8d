//! The straight line from delay to run time, and what follows from it.
//!
//! A program that waits for `waits` fetches one after another takes `intercept + waits x delay`. The
//! slope, measured well above the pager's floor, holds below it too: the slowdown at any delay is
//! `(native + waits x delay) / native`.

use unrack_record::Fit;

/// A run: the whole delay of one fetch, and the run time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Point {
    pub delay_ns: f64,
    pub run_s: f64,
}

/// A value and its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    pub value: f64,
    pub ci95: [f64; 2],
}

/// Least squares, all points of equal weight. `None` with fewer than three points (two leave nothing to
/// judge the line by), fewer than two different delays, or numbers that are not finite.
pub fn line(points: &[Point]) -> Option<Fit> {
    let n = points.len() as f64;
    if points.len() < 3 || points.iter().any(|p| !(p.delay_ns.is_finite() && p.run_s.is_finite())) {
        return None;
    }
    // Seconds per nanosecond are tiny: reckon in nanoseconds throughout.
    let mean = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).sum::<f64>() / n;
    let (x_mean, y_mean) = (mean(&|p| p.delay_ns), mean(&|p| p.run_s * 1e9));
    let around = |p: &Point| (p.delay_ns - x_mean, p.run_s * 1e9 - y_mean);
    let sum = |of: &dyn Fn(f64, f64) -> f64| points.iter().map(around).map(|(x, y)| of(x, y)).sum::<f64>();
    let (xx, xy, yy) = (sum(&|x, _| x * x), sum(&|x, y| x * y), sum(&|_, y| y * y));
    if xx <= 0.0 {
        return None;
    }
    let waits = xy / xx;
    let intercept_ns = y_mean - waits * x_mean;
    let residuals = sum(&|x, y| (y - waits * x).powi(2));
    let half = t_quantile_975(points.len() - 2) * (residuals / (n - 2.0) / xx).sqrt();
    let relative = |p: &Point| {
        let expected = intercept_ns + waits * p.delay_ns;
        (p.run_s * 1e9 - expected).abs() / expected.abs().max(f64::MIN_POSITIVE)
    };
    Some(Fit {
        intercept_s: intercept_ns / 1e9,
        waits,
        waits_ci95: [waits - half, waits + half],
        // Run times that do not vary at all lie on a level line.
        r2: if yy > 0.0 { (1.0 - residuals / yy).clamp(0.0, 1.0) } else { 1.0 },
        worst_residual: points.iter().map(relative).fold(0.0, f64::max),
    })
}

/// Run time over native run time at this delay of one fetch.
pub fn slowdown(native_s: f64, fit: &Fit, delay_ns: f64) -> Estimate {
    let at = |waits: f64| 1.0 + waits.max(0.0) * delay_ns / 1e9 / native_s;
    Estimate { value: at(fit.waits), ci95: fit.waits_ci95.map(at) }
}

/// The largest delay of one fetch that costs at most this part of the native run time (0.05: 5 %), with
/// its interval. `None` if the program was not found to wait at all: any delay will do.
pub fn largest_delay_ns(native_s: f64, fit: &Fit, loss: f64) -> Option<Estimate> {
    let at = |waits: f64| if waits > 0.0 { loss * native_s * 1e9 / waits } else { f64::INFINITY };
    let [few, many] = fit.waits_ci95;
    (fit.waits > 0.0).then(|| Estimate { value: at(fit.waits), ci95: [at(many), at(few)] })
}

/// The value that Student's t with `freedom` degrees stays below with probability 0.975.
fn t_quantile_975(freedom: usize) -> f64 {
    let (mut low, mut high) = (0.0, 13.0);
    for _ in 0..80 {
        let middle = (low + high) / 2.0;
        match t_within(middle, freedom) < 0.95 {
            true => low = middle,
            false => high = middle,
        }
    }
    (low + high) / 2.0
}

/// Probability that |t| <= `t`: exact for whole degrees of freedom.
///
/// Abramowitz and Stegun, Handbook of Mathematical Functions, 26.7.3 and 26.7.4.
fn t_within(t: f64, freedom: usize) -> f64 {
    let angle = (t / (freedom as f64).sqrt()).atan();
    let (sin, cos) = angle.sin_cos();
    // Both series: each term is the one before, times cos^2 k/(k+1), for every second k.
    let is_odd = freedom % 2 == 1;
    let (mut term, mut sum) = if is_odd { (cos, cos) } else { (1.0, 1.0) };
    let mut k = if is_odd { 2 } else { 1 };
    while k + 2 < freedom {
        term *= cos * cos * k as f64 / (k + 1) as f64;
        sum += term;
        k += 2;
    }
    match (is_odd, freedom) {
        (true, 1) => angle * std::f64::consts::FRAC_2_PI,
        (true, _) => (angle + sin * sum) * std::f64::consts::FRAC_2_PI,
        (false, _) => sin * sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn points(runs: &[(f64, f64)]) -> Vec<Point> {
        runs.iter().map(|&(delay_ns, run_s)| Point { delay_ns, run_s }).collect()
    }

    #[test]
    fn students_t_as_in_the_tables() {
        let tables = [
            (1, 12.7062047),
            (2, 4.3026527),
            (3, 3.1824463),
            (4, 2.7764451),
            (5, 2.5705818),
            (10, 2.2281389),
            (29, 2.0452296),
            (30, 2.0422725),
            (1000, 1.9623391),
        ];
        for (freedom, expected) in tables {
            assert!((t_quantile_975(freedom) - expected).abs() < 1e-6, "{freedom}");
        }
    }

    #[test]
    fn a_known_line_with_its_interval() {
        // Run times in ns 1, 2, 2, 4 at 0, 1, 2, 3 ns: slope 0.9, sum of squared residuals 0.7.
        let fit = line(&points(&[(0.0, 1e-9), (1.0, 2e-9), (2.0, 2e-9), (3.0, 4e-9)])).unwrap();
        assert!((fit.waits - 0.9).abs() < 1e-12);
        assert!((fit.intercept_s - 0.9e-9).abs() < 1e-21);
        let half = 4.302_652_73 * (0.7f64 / 2.0 / 5.0).sqrt();
        assert!((fit.waits_ci95[1] - 0.9 - half).abs() < 1e-7, "{fit:?}");
        assert!((fit.r2 - (1.0 - 0.7 / 4.75)).abs() < 1e-12);
        assert!((fit.worst_residual - 0.7 / 2.7).abs() < 1e-9, "{fit:?}");
    }

    #[test]
    fn no_line_without_enough_points() {
        assert_eq!(line(&points(&[(1.0, 1.0), (2.0, 2.0)])), None);
        assert_eq!(line(&points(&[(1.0, 1.0), (1.0, 2.0), (1.0, 3.0)])), None);
        assert_eq!(line(&points(&[(1.0, 1.0), (2.0, f64::NAN), (3.0, 3.0)])), None);
        let level = line(&points(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)])).unwrap();
        assert_eq!((level.waits, level.r2, level.worst_residual), (0.0, 1.0, 0.0));
    }

    #[test]
    fn a_program_that_does_not_wait_takes_any_delay() {
        let fit = line(&points(&[(1.0, 2.0), (2.0, 2.0), (3.0, 2.0)])).unwrap();
        assert_eq!(largest_delay_ns(2.0, &fit, 0.05), None);
        assert_eq!(slowdown(2.0, &fit, 1e9).value, 1.0);
    }

    #[test]
    fn wide_intervals_stay_meaningful() {
        let fit =
            Fit { intercept_s: 1.0, waits: 10.0, waits_ci95: [-5.0, 25.0], r2: 0.3, worst_residual: 0.5 };
        assert_eq!(slowdown(1.0, &fit, 1e8), Estimate { value: 2.0, ci95: [1.0, 3.5] });
        let delay = largest_delay_ns(1.0, &fit, 0.1).unwrap();
        assert_eq!(delay, Estimate { value: 1e7, ci95: [4e6, f64::INFINITY] });
    }

    proptest! {
        #[test]
        fn an_exact_line_is_found_exactly(
            intercept in 0.1f64..100.0,
            waits in 1.0f64..1e7,
            delays in proptest::collection::vec(1e3f64..1e6, 3..20),
        ) {
            prop_assume!(delays.iter().any(|d| (d - delays[0]).abs() > 1e3));
            let at = |delay: &f64| Point { delay_ns: *delay, run_s: intercept + waits * delay / 1e9 };
            let fit = line(&delays.iter().map(at).collect::<Vec<_>>()).unwrap();
            let scale = (intercept + waits * 1e-3) * 1e9 / 1e3;
            prop_assert!((fit.waits - waits).abs() < 1e-9 * scale, "{fit:?}");
            prop_assert!(fit.worst_residual < 1e-9);
        }

        #[test]
        fn requirement_and_slowdown_are_inverse(
            native in 0.1f64..100.0, waits in 1.0f64..1e7, loss in 0.001f64..10.0, spread in 0.0f64..0.9,
        ) {
            let waits_ci95 = [waits * (1.0 - spread), waits * (1.0 + spread)];
            let fit = Fit { intercept_s: native, waits, waits_ci95, r2: 1.0, worst_residual: 0.0 };
            let delay = largest_delay_ns(native, &fit, loss).unwrap();
            prop_assert!(delay.ci95[0] <= delay.value && delay.value <= delay.ci95[1]);
            prop_assert!((slowdown(native, &fit, delay.value).value - 1.0 - loss).abs() < 1e-9 * (1.0 + loss));
            let pessimist = slowdown(native, &fit, delay.ci95[0]).ci95[1];
            prop_assert!((pessimist - 1.0 - loss).abs() < 1e-9 * (1.0 + loss));
        }
    }
}
