//! Time budget of a whole command.

use std::cell::Cell;
use std::time::{Duration, Instant};
use unrack_units::Time;

/// Time for runs of the program, and the time that is reserved for the steps after the runs.
pub(crate) struct RunBudget {
    whole: Option<Duration>,
    until: Option<Instant>,
    reserved: Cell<Duration>,
}

/// Safety factor of predicted times: a step starts only if the remaining time is at least its predicted time multiplied by this factor,
/// because the times of similar steps vary by about that much.
const MARGIN: f64 = 1.25;
/// Time reserved for the tables and the report.
const CLOSING: Duration = Duration::from_millis(500);

impl RunBudget {
    /// Starts a budget now. Without a time the budget is unlimited.
    pub(crate) fn new(time: Option<Time>) -> RunBudget {
        let whole = time.map(|time| Duration::from_secs_f64(time.as_secs_f64()));
        let until = whole.and_then(|whole| Instant::now().checked_add(whole));
        RunBudget { whole, until, reserved: Cell::new(CLOSING) }
    }

    /// Reserves this time for the steps that come after the runs of the program. It reserves at most half of the remaining budget, so that
    /// some time is left for runs.
    pub(crate) fn reserve(&self, seconds: f64) {
        let half = self.left_s().map_or(f64::INFINITY, |left| left / 2.0);
        let seconds = (seconds * MARGIN).min(half).clamp(0.0, 1e9);
        self.reserved.set(CLOSING + Duration::from_secs_f64(seconds));
    }

    /// Releases all reserved time, so that the next steps can use it.
    pub(crate) fn release(&self) {
        self.reserved.set(CLOSING);
    }

    /// Returns the seconds of the budget that are neither spent nor reserved; `None` if the budget is unlimited.
    pub(crate) fn left_s(&self) -> Option<f64> {
        Some(self.deadline()?.saturating_duration_since(Instant::now()).as_secs_f64())
    }

    /// Returns the time by which the current run must have ended; `None` if the budget is unlimited.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        let until = self.until?;
        Some(until.checked_sub(self.reserved.get()).unwrap_or(until))
    }

    /// Returns the end of the budget; `None` if the budget is unlimited.
    pub(crate) fn until(&self) -> Option<Instant> {
        self.until
    }

    /// Returns whether the budget allows a step with this predicted time to start.
    pub(crate) fn allows(&self, predicted_s: f64) -> bool {
        self.left_s().is_none_or(|left_s| affords(left_s, predicted_s))
    }

    /// Returns the budget in words.
    pub(crate) fn text(&self) -> String {
        self.whole.map_or("no bound".into(), |whole| format!("{} s", whole.as_secs_f64()))
    }
}

fn affords(left_s: f64, predicted_s: f64) -> bool {
    left_s > 0.0 && predicted_s * MARGIN <= left_s
}

/// Returns the amount of work that fits into `left_s` seconds, if the work `size` is predicted to take `predicted_s`. `None` if less than
/// `least` fits.
pub(crate) fn fitting(size: u64, least: u64, predicted_s: f64, left_s: f64) -> Option<u64> {
    if affords(left_s, predicted_s) {
        return Some(size);
    }
    let part = (left_s / (predicted_s * MARGIN)).max(0.0);
    Some((size as f64 * part) as u64).filter(|size| *size >= least)
}

/// Parses a time budget such as `90s`, `2m`, `2min` or `1h`. In addition to the units of [`Time`], `m` means minutes and `h` hours.
///
/// # Errors
/// If the text is not a time, or the time is 0.
pub fn parse_budget(text: &str) -> Result<Time, String> {
    let minutes = |number: &str, each: u32| {
        let number: f64 = number.trim_end().parse().map_err(|_| ())?;
        Ok::<_, ()>(format!("{}s", number * f64::from(each) * 60.0))
    };
    let seconds = match (text.strip_suffix('m'), text.strip_suffix('h')) {
        (Some(number), _) => minutes(number, 1),
        (_, Some(number)) => minutes(number, 60),
        _ => Ok(text.into()),
    };
    let why = || format!("{text:?} is no time: write it as 90s, 2m or 1h");
    let time: Time = seconds.map_err(|()| why())?.parse().map_err(|_| why())?;
    if time == Time::ZERO {
        Err("a budget of 0 is too small: write it as 90s, 2m or 1h".into())
    } else {
        Ok(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_as_people_write_them() {
        let seconds = |text| parse_budget(text).map(|time| time.as_secs_f64());
        let cases = [("90s", 90.0), ("2m", 120.0), ("2min", 120.0), ("1.5h", 5400.0), ("500ms", 0.5)];
        for (text, expected) in cases {
            assert_eq!(seconds(text), Ok(expected), "{text}");
        }
        for text in ["", "m", "2", "-1m", "0s", "0m", "2 weeks", "NaNm", "infm", "1e30h"] {
            let why = seconds(text).unwrap_err();
            assert!(why.contains("90s, 2m or 1h"), "{text}: {why}");
        }
    }

    #[test]
    fn what_does_not_fit_is_made_smaller_or_left_out() {
        assert_eq!(fitting(300_000, 3_000, 10.0, 12.5), Some(300_000));
        assert_eq!(fitting(300_000, 3_000, 10.0, 1.25), Some(30_000));
        assert_eq!(fitting(300_000, 3_000, 10.0, 0.1), None);
        assert_eq!(fitting(300_000, 3_000, 10.0, 0.0), None);
        assert_eq!(fitting(300_000, 3_000, 0.0, 0.0), None, "nothing is left");
    }

    #[test]
    fn without_a_bound_everything_may_begin() {
        let budget = RunBudget::new(None);
        budget.reserve(1e12);
        assert!(budget.allows(1e12) && budget.left_s().is_none() && budget.deadline().is_none());
    }

    #[test]
    fn what_is_kept_back_is_not_left() {
        let budget = RunBudget::new(Some(Time::from_us(100_000_000)));
        assert!(budget.allows(70.0) && !budget.allows(90.0));
        budget.reserve(40.0);
        assert!(!budget.allows(70.0) && budget.allows(30.0));
        budget.reserve(1e6);
        assert!(budget.allows(15.0), "runs keep some of it");
        budget.release();
        assert!(budget.allows(70.0));
        assert!(!RunBudget::new(Some(Time::from_ns(1))).allows(0.0), "it is over");
    }
}
