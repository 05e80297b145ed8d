//! Conditions under which a measurement is stated. Otherwise its number is withheld, with advice on what to do.
//!
//! The results are used to choose between networks, which differ by a factor of two or more: links of 25, 50, 100, 200 and 400 Gb/s,
//! fabrics that fetch a page in 0.4, 0.8 and 2 us. A number that is uncertain by more than that does not support a decision. Therefore a
//! factor of two is the bound throughout.

use crate::fit::{self, FitEstimate};
use unrack_record::{Fit, Interval, Stated, Warning};

/// Smallest number of undisturbed native runs for a slowdown. Three are needed, because if two runs differ, it is unknown which is right.
pub const FEWEST_NATIVE: usize = 3;
/// Smallest number of undisturbed runs for a line. A line has two parameters, so fewer runs leave few degrees of freedom, and then
/// Student's factor (4.3 for two) alone makes any interval useless.
pub const FEWEST_RUNS: usize = 5;
/// Smallest number of different delays among the runs. With only two delays, it cannot be seen whether the relation is linear.
pub const FEWEST_DELAYS: usize = 3;

/// Ratio of the upper to the lower end of an interval above which the interval supports no decision.
pub(crate) const WIDE: f64 = 2.0;
/// Width of a slowdown's interval, as a fraction of the native run time, up to which the slowdown is stated even if the loss itself is very
/// uncertain: for example, an interval from 1.00 to 1.05 is useful. DDC §3.2 asks for losses of 5 %.
const NEGLIGIBLE: f64 = 0.05;
/// Smallest R2 of an acceptable line. Below it, the delays explain less than half of the variation between runs, so the runs measure some
/// other effect.
const HARDLY_A_LINE: f64 = 0.5;
/// Factor of the native run time within which a run without any wait must lie, apart from the time that the pager adds.
const OUTSIDE: f64 = 2.0;

/// Key of the refusal for a program that does more work when it has little local memory.
pub const PROGRAM_CHANGED: &str = "program-changed";
/// Key of the refusal for a line whose prediction without waits contradicts the native run time.
pub const INTERCEPT: &str = "intercept";

/// A run without delay at another share of local memory.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OtherShare {
    /// Local memory as a share of the footprint.
    pub share: f64,
    /// Run time in seconds. It includes the time that the pager took, which only makes the advice more careful.
    pub run_s: f64,
}

/// Adds to a [`PROGRAM_CHANGED`] refusal the smallest share of local memory at which the program was unchanged. Returns other refusals
/// unchanged.
pub fn with_share(why: Warning, native_s: f64, others: &[OtherShare]) -> Warning {
    let Some(most) = others.last().filter(|_| why.key == PROGRAM_CHANGED) else { return why };
    let is_itself = |other: &&OtherShare| other.run_s <= native_s * OUTSIDE;
    let advice = match others.iter().find(is_itself) {
        Some(OtherShare { share, run_s }) => {
            let percent = share * 100.0;
            format!("with {percent:.0}% local a run took {run_s:.2} s: ask with --local {percent:.0}%")
        }
        None => format!("even with {:.0}% local a run took {:.2} s", most.share * 100.0, most.run_s),
    };
    Warning::new(PROGRAM_CHANGED, format!("{}; {advice}", why.text))
}

/// Returns the reason why no conclusion may be drawn from a line: the run time that the line predicts without waits is impossible for the
/// program, or shows that the program behaved differently. `overhead_s` is the time that the pager took, in a run with equally little local
/// memory, for faults that a memory blade would not cause. `delay_s` is the mean delay of the runs. The extrapolation from there to zero
/// delay is as uncertain as the slope, so the check tolerates that error.
pub fn refusal(fit: &Fit, native_s: f64, overhead_s: f64, delay_s: f64) -> Option<Warning> {
    let doubt_s = (fit.waits_ci95[1] - fit.waits) * delay_s;
    let (least, most) = (native_s / OUTSIDE, native_s * OUTSIDE + overhead_s + doubt_s);
    let found = format!(
        "the line predicts {:.2} s for a run without waits, and a native run takes {native_s:.2} s",
        fit.intercept_s
    );
    if fit.intercept_s > most {
        let text = format!(
            "{found}: with little local memory the program itself does more (its collector, its compiler, threads that \
             spin), and no line says how much more on another network; try a larger --local, and see the replay of its trace"
        );
        return Some(Warning::new(PROGRAM_CHANGED, text));
    }
    let text = format!(
        "{found}: run it again with a larger --repeat; if this persists, the number of waits depends on the delay, and no \
         line fits"
    );
    // NaN is not contained in the range either, and is refused.
    (!(least..=most).contains(&fit.intercept_s)).then(|| Warning::new(INTERCEPT, text))
}

/// Returns the longest time per fetch, in microseconds, that costs at most this fraction of the native run time. `longest_ns` is the
/// longest delay of the runs.
pub fn need(fit: &Fit, loss: f64, longest_ns: f64) -> Stated {
    let us = |ns: f64| ns / 1e3;
    let why = match (
        uncertainty(fit, fit.waits_per_s_ci95, "in a second of native run time"),
        fit::largest_delay_ns(fit, loss),
    ) {
        (None, Some(FitEstimate { value, ci95: [low, high] })) => {
            return Stated::Known(Interval { value: Some(us(value)), low: us(low), high: Some(us(high)) });
        }
        (why, _) => why,
    };
    let surely_enough = loss * 1e9 / fit.waits_per_s_ci95[1].max(f64::MIN_POSITIVE);
    match why {
        Some(why) if surely_enough < longest_ns => Stated::withheld(why),
        _ => Stated::Known(Interval { value: None, low: us(longest_ns), high: None }),
    }
}

/// Returns the estimated slowdown (run time divided by native run time) if each fetch has this delay.
///
/// # Errors
/// The reason, if the slowdown is too uncertain to be stated.
pub fn slowdown(fit: &Fit, delay_ns: f64) -> Result<FitEstimate, Warning> {
    let estimate = fit::slowdown(fit, delay_ns);
    let [low, high] = estimate.ci95;
    match uncertainty(fit, fit.waits_per_s_ci95, "in a second of native run time") {
        Some(why) if high - low > NEGLIGIBLE => Err(why),
        _ => Ok(estimate),
    }
}

/// Returns the fit with intervals widened for runs of which other work may have taken the fraction `lost` of the time. Waits may have been
/// overestimated by that fraction in disturbed runs, or underestimated because of a disturbed native run, so the intervals widen in both
/// directions.
pub fn widened(fit: &Fit, lost: f64) -> Fit {
    let stretch = 1.0 / (1.0 - lost.clamp(0.0, 0.99));
    let wider = |[few, many]: [f64; 2]| {
        let few = if few > 0.0 { few / stretch } else { few * stretch };
        [few, many.max(0.0) * stretch]
    };
    Fit { waits_ci95: wider(fit.waits_ci95), waits_per_s_ci95: wider(fit.waits_per_s_ci95), ..fit.clone() }
}

/// Returns the time in seconds that waits add to a run if each fetch has this delay. The interval does not include the scatter of the
/// native runs.
///
/// # Errors
/// The reason, if the time is too uncertain to be stated.
pub fn added_s(fit: &Fit, delay_ns: f64) -> Result<FitEstimate, Warning> {
    match uncertainty(fit, fit.waits_ci95, "in a run") {
        Some(why) => Err(why),
        None => Ok(FitEstimate {
            value: fit.waits * delay_ns / 1e9,
            ci95: fit.waits_ci95.map(|waits| waits * delay_ns / 1e9),
        }),
    }
}

/// Returns the reason why the number of waits is too uncertain to be stated, if it is. `few` and `many` are the ends of its interval.
fn uncertainty(fit: &Fit, [few, many]: [f64; 2], per: &str) -> Option<Warning> {
    if fit.r2 < HARDLY_A_LINE {
        let text = format!(
            "the delays explain less than half of the variation between runs (R2 {:.2}): run it again on an idle \
             machine, with a larger --repeat",
            fit.r2
        );
        return Some(Warning::new("scatter", text));
    }
    let text = format!(
        "the program waits {:.0} to {:.0} times {per}, an interval wider than a factor of two: run it again on an idle machine, with a larger --repeat",
        few.max(0.0),
        many.max(0.0)
    );
    (few <= 0.0 || many > WIDE * few).then(|| Warning::new("wide-interval", text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn fit(waits_per_s: f64, ci95: [f64; 2], r2: f64) -> Fit {
        let (waits, waits_ci95) = (waits_per_s, ci95);
        let (intercept_s, waits_per_s_ci95) = (1.0, ci95);
        Fit { intercept_s, waits, waits_ci95, waits_per_s, waits_per_s_ci95, r2, worst_residual: 0.0 }
    }

    fn reason(stated: &Stated) -> &str {
        &stated.reason().unwrap().key
    }

    #[test]
    fn a_narrow_interval_is_stated_with_its_ends() {
        let stated = need(&fit(400_000.0, [300_000.0, 500_000.0], 0.99), 0.05, 50_000.0);
        let interval = stated.known().unwrap();
        assert_eq!((interval.value, interval.low), (Some(0.125), 0.1));
        assert!((interval.high.unwrap() - 0.05 / 0.3).abs() < 1e-12);
    }

    /// A real case that was once stated as "at most 107 ns", with an R2 of 0.30 and 0 to 820,099 waits.
    #[test]
    fn a_line_that_is_none_needs_nothing() {
        assert_eq!(reason(&need(&fit(400_000.0, [0.0, 820_099.0], 0.3), 0.05, 50_000.0)), "scatter");
        assert_eq!(reason(&need(&fit(400_000.0, [0.0, 820_099.0], 0.9), 0.05, 50_000.0)), "wide-interval");
        assert_eq!(
            reason(&need(&fit(400_000.0, [290_000.0, 590_000.0], 0.9), 0.05, 50_000.0)),
            "wide-interval"
        );
        let why = slowdown(&fit(400_000.0, [0.0, 820_099.0], 0.9), 300.0).unwrap_err();
        assert!(why.text.contains("0 to 820099 times") && why.text.contains("--repeat"), "{why}");
    }

    #[test]
    fn a_program_that_hardly_waits_may_take_what_was_tried() {
        let none = fit(2.0, [-3.0, 7.0], 0.1);
        let stated = need(&none, 0.05, 500_000.0);
        assert_eq!(stated, Stated::Known(Interval { value: None, low: 500.0, high: None }));
        assert_eq!(slowdown(&none, 50_000.0).unwrap().ci95, [1.0, 1.0 + 7.0 * 50e-6]);
        let never = need(&fit(0.0, [0.0, 0.0], 1.0), 0.01, 500_000.0);
        assert_eq!(never, Stated::Known(Interval { value: None, low: 500.0, high: None }));
    }

    #[test]
    fn a_run_without_waits_takes_as_long_as_a_native_one_nearly() {
        let line = |intercept_s, most_waits| Fit { intercept_s, ..fit(1.0, [1.0, most_waits], 1.0) };
        let at = |intercept_s| refusal(&line(intercept_s, 1.0), 2.0, 1.0, 60e-6);
        for possible in [1.0, 2.0, 3.0, 5.0] {
            assert_eq!(at(possible), None);
        }
        for impossible in [-11.0, 0.0, 0.99, f64::NAN] {
            let why = at(impossible).unwrap();
            assert!(why.key == "intercept" && why.text.contains("--repeat"), "{why}");
        }
        for changed in [5.01, 50.0] {
            let why = at(changed).unwrap();
            assert!(why.key == "program-changed" && why.text.contains("larger --local"), "{why}");
        }
        // If the slope may be steeper by 20,000 waits, the intercept may be lower by 1.2 s.
        assert_eq!(refusal(&line(6.1, 20_001.0), 2.0, 1.0, 60e-6), None);
        assert!(refusal(&line(6.3, 20_001.0), 2.0, 1.0, 60e-6).is_some());
    }

    #[test]
    fn a_changed_program_is_asked_at_a_share_where_it_was_not() {
        let why = || Warning::new(PROGRAM_CHANGED, "too long");
        let others = |times: [f64; 2]| {
            let other = |(share, run_s)| OtherShare { share, run_s };
            [0.4, 0.8].into_iter().zip(times).map(other).collect::<Vec<_>>()
        };
        let at = |times| with_share(why(), 2.0, &others(times)).text;
        assert_eq!(at([3.9, 3.0]), "too long; with 40% local a run took 3.90 s: ask with --local 40%");
        assert_eq!(at([4.1, 4.0]), "too long; with 80% local a run took 4.00 s: ask with --local 80%");
        assert_eq!(at([9.0, 4.1]), "too long; even with 80% local a run took 4.10 s");
        assert_eq!(with_share(why(), 2.0, &[]), why());
        let other = Warning::new("intercept", "too short");
        assert_eq!(with_share(other.clone(), 2.0, &others([1.0, 1.0])), other);
    }

    #[test]
    fn rough_runs_have_wider_intervals() {
        let wide = widened(&fit(400_000.0, [300_000.0, 500_000.0], 0.99), 0.5);
        assert_eq!((wide.waits_per_s, wide.waits_per_s_ci95), (400_000.0, [150_000.0, 1_000_000.0]));
        assert_eq!(widened(&fit(1.0, [-3.0, 7.0], 0.1), 0.5).waits_ci95, [-6.0, 14.0]);
    }

    #[test]
    fn what_waits_add_is_stated_however_native_runs_scatter() {
        let scattered =
            Fit { waits_per_s_ci95: [30_000.0, 61_000.0], ..fit(44_000.0, [42_000.0, 47_000.0], 0.99) };
        let FitEstimate { value, ci95 } = added_s(&scattered, 50_000.0).unwrap();
        assert!(
            [(value, 2.2), (ci95[0], 2.1), (ci95[1], 2.35)].iter().all(|(it, is)| (it - is).abs() < 1e-9)
        );
        assert_eq!(slowdown(&scattered, 50_000.0).unwrap_err().key, "wide-interval");
        let why = added_s(&fit(44_000.0, [20_000.0, 41_000.0], 0.99), 1.0).unwrap_err();
        assert!(why.key == "wide-interval" && why.text.contains("times in a run"), "{why}");
        assert_eq!(added_s(&fit(44_000.0, [42_000.0, 47_000.0], 0.4), 1.0).unwrap_err().key, "scatter");
    }

    proptest! {
        #[test]
        fn what_is_stated_is_never_wider_than_a_factor_of_two(
            few in -10.0f64..1e6, wider in 0.0f64..1e6, at in 0.0f64..1.0, r2 in 0.0f64..1.0, loss in 0.001f64..1.0,
        ) {
            let fit = fit(few + at * wider, [few, few + wider], r2);
            if let Stated::Known(Interval { value: Some(value), low, high: Some(high) }) = need(&fit, loss, 500_000.0) {
                prop_assert!(r2 >= HARDLY_A_LINE && high <= WIDE * low * (1.0 + 1e-9), "{low} {high}");
                prop_assert!(low <= value * (1.0 + 1e-9) && value <= high * (1.0 + 1e-9));
            }
            if let Ok(FitEstimate { ci95: [low, high], .. }) = slowdown(&fit, 1e4) {
                prop_assert!(high - low <= NEGLIGIBLE || high - 1.0 <= WIDE * (low - 1.0) * (1.0 + 1e-9));
            }
        }
    }
}
