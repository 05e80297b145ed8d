//! Expected run time of a program with remote memory, estimated from one run by subtracting the cost of the pager itself.
//!
//! A run takes as long as it would on a real network, plus the time that its threads lost to the pager in addition to the waits. If only
//! one thread waited for pages, the loss of the run is known. If several threads waited, the loss of the thread that lost most is an upper
//! bound, because the other threads continued meanwhile; the run may have lost no time at all.
//!
//! Two facts bound the result, independently of the pager's counts: a program takes at least its native time, and at most its native time
//! plus all its waits one after another. A run that contradicts these bounds permits no conclusion.

use crate::quality::{INTERCEPT, PROGRAM_CHANGED, WIDE};
use unrack_record::{Interval, Stated, Warning};

/// Relative uncertainty of the time lost to the pager: the cost of a fetch scatters by this fraction from moment to moment.
const LOST: f64 = 0.1;
/// `SCATTER` is the relative scatter of native runs. `START_S` is the time in seconds that the start of pagers takes, which no counter
/// includes. A run that violates the bounds by less than these still agrees with them.
const SCATTER: f64 = 0.1;
const START_S: f64 = 0.1;
/// Key of the refusal to state a run time because the native time is unknown.
pub const NO_NATIVE: &str = "no-native";

/// Measured times of one run.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct OneRun {
    pub wall_s: f64,
    /// Time that the most affected thread lost to the pager itself, in seconds.
    pub lost_s: f64,
    /// Sum of the delays of all fetches for which threads waited, in seconds.
    pub waits_s: f64,
    /// Number of threads that waited for pages.
    pub threads: u64,
}

/// Returns the expected run time of a program, in seconds. `native_s` is the time of a native run, if known.
pub fn expected(run: &OneRun, native_s: Option<f64>) -> Stated {
    let without_s = run.wall_s - run.lost_s;
    let error_s = LOST * run.lost_s;
    let most_s = if run.threads > 1 { run.wall_s } else { without_s + error_s };
    let value = (run.threads <= 1).then_some(without_s);
    let found = Interval { value, low: without_s - error_s, high: Some(most_s) };
    let Some(native_s) = native_s else { return without_native(run, found) };
    let (least_s, all_s) = (native_s, native_s + run.waits_s);
    if found.low > all_s * (1.0 + SCATTER) + START_S {
        let text = format!(
            "without the pager's own cost the run took at least {:.2} s, and natively with all waits one after another it would \
             take {all_s:.2} s: with little local memory the program itself does more (its collector, its compiler, threads that \
             spin); try a larger --local, or ask `unrack compare`",
            found.low
        );
        return Stated::withheld(Warning::new(PROGRAM_CHANGED, text));
    }
    if most_s < native_s * (1.0 - SCATTER) {
        let text = format!(
            "the pager's own cost of {:.2} s leaves {most_s:.2} s of this run, and natively it takes {native_s:.2} s: the cost was \
             not what it was measured to be; run it again on an idle machine, or ask `unrack compare`",
            run.lost_s
        );
        return Stated::withheld(Warning::new(INTERCEPT, text));
    }
    let within = |s: f64| s.clamp(least_s, all_s);
    stated(Interval { value: value.map(within), low: within(found.low), high: Some(within(most_s)) })
}

/// Returns the expected run time if the native time is unknown. With several threads the result is withheld, because then the run's loss to
/// the pager is unknown too.
fn without_native(run: &OneRun, found: Interval) -> Stated {
    let text = "the native run time is not known, below which no run time can be: give --local as a share, such as 25%, for which \
                the program is run natively first";
    match run.threads > 1 || found.low < run.waits_s {
        true => Stated::withheld(Warning::new(NO_NATIVE, text)),
        false => stated(found),
    }
}

/// States an interval, unless it is too wide to support a decision.
fn stated(found: Interval) -> Stated {
    let high = found.high.unwrap_or(f64::INFINITY);
    let text = format!(
        "the run leaves open any time from {:.2} to {high:.2} s, an interval wider than a factor of two: ask `unrack compare`, which \
         runs the program at several delays",
        found.low
    );
    match found.low > 0.0 && high <= WIDE * found.low {
        true => Stated::Known(found),
        false => Stated::withheld(Warning::new("wide-interval", text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn run(wall_s: f64, lost_s: f64, waits_s: f64, threads: u64) -> OneRun {
        OneRun { wall_s, lost_s, waits_s, threads }
    }

    fn key(stated: &Stated) -> &str {
        &stated.reason().unwrap().key
    }

    #[test]
    fn one_thread_that_waits_is_accounted_for() {
        let known = expected(&run(3.0, 1.0, 1.0, 1), Some(1.0));
        let interval = known.known().unwrap();
        assert_eq!((interval.value, interval.low, interval.high), (Some(2.0), 1.9, Some(2.0)));
        let short = expected(&run(0.15, 0.0, 0.0, 1), Some(0.06));
        assert_eq!(short.known().unwrap().value, Some(0.06), "the pager's start");
        assert_eq!(expected(&run(3.0, 1.0, 1.0, 1), None).known().unwrap().value, Some(2.0));
    }

    /// Real cases of impossible results: 0.00 s, 1.12 s for a program that takes 8.95 s, and 45 s where 27 s is the maximum.
    #[test]
    fn impossible_times_are_withheld() {
        assert_eq!(key(&expected(&run(6.31, 6.31, 1.7, 4), None)), NO_NATIVE);
        let hidden = expected(&run(12.0, 10.88, 4.0, 4), Some(8.95));
        let interval = hidden.known().unwrap();
        assert!(
            interval.value.is_none() && interval.low >= 8.95 && interval.high.unwrap() <= 12.95,
            "{interval:?}"
        );
        assert_eq!(key(&expected(&run(60.0, 15.0, 18.0, 1), Some(9.0))), PROGRAM_CHANGED);
        assert_eq!(key(&expected(&run(12.0, 10.9, 4.0, 1), Some(8.95))), INTERCEPT);
    }

    #[test]
    fn threads_that_wait_at_once_leave_it_open() {
        // Four threads wait for 8 s in total: simultaneously for 2 s, or one after another.
        assert_eq!(key(&expected(&run(12.0, 8.0, 8.0, 4), Some(2.0))), "wide-interval");
    }

    proptest! {
        #[test]
        fn no_time_is_below_the_native_one_or_above_all_waits(
            wall_s in 0.0f64..100.0, lost in 0.0f64..1.5, waits_s in 0.0f64..100.0, threads in 0u64..9, native_s in 0.001f64..100.0,
        ) {
            if let Stated::Known(Interval { value, low, high: Some(high) }) =
                expected(&run(wall_s, lost * wall_s, waits_s, threads), Some(native_s))
            {
                prop_assert!(native_s <= low && low <= high && high <= native_s + waits_s && high <= WIDE * low);
                prop_assert!(value.is_none_or(|value| low <= value && value <= high));
            }
        }
    }
}
