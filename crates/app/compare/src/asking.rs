//! The caller of a question: where progress goes, and how the question is canceled.

use crate::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Progress of a question. Every method may be left out; all are called by the thread that asks.
pub trait StepProgress {
    /// A step begins, such as `native run 2`.
    fn begin(&self, _step: &str) {}

    /// The time until the answer is known better than before.
    fn time_left(&self, _left: &TimeLeft) {}

    /// A simulation has finished so many of its messages. This is called about 20 times a second; to unwind from it ends
    /// the simulation.
    fn simulated(&self, _finished: u64, _all: u64) {}

    /// Something to tell the user now, such as that the machine is busy.
    fn say(&self, _text: &str) {}

    /// All steps have ended.
    fn finish(&self) {}
}

/// No progress is shown.
impl StepProgress for () {}

/// Time that the steps to come take, as known at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeLeft {
    /// Predicted time of the steps that had not ended at `since`, in seconds.
    pub seconds: f64,
    /// End of the last step.
    pub since: Instant,
    /// End of the budget: what it has no time for is left out.
    pub until: Option<Instant>,
    /// False while some steps to come are not known yet.
    pub is_whole: bool,
}

impl TimeLeft {
    /// Returns the predicted seconds until the answer, no more than the budget has. `None` while some steps are not known.
    pub fn seconds_from(&self, now: Instant) -> Option<f64> {
        let left_s = self.seconds - now.saturating_duration_since(self.since).as_secs_f64();
        let most_s =
            self.until.map_or(f64::INFINITY, |until| until.saturating_duration_since(now).as_secs_f64());
        self.is_whole.then_some(left_s.min(most_s))
    }
}

/// The caller of a question.
#[derive(Clone, Copy)]
pub struct Asking<'a> {
    pub progress: &'a dyn StepProgress,
    /// Set to true by another thread to cancel the question: the next step does not begin, and a wait for other work ends.
    /// A run of the program under way is ended, too, if a command makes it.
    pub cancel: &'a AtomicBool,
    pub runs: RunsPlace<'a>,
}

/// Where runs of the program by pages are made.
#[derive(Debug, Clone, Copy)]
pub enum RunsPlace<'a> {
    /// In this process, which has one thread and no other children: a run claims its signals and the orphans of its
    /// descendants. A signal ends the run under way.
    ThisProcess,
    /// By the command `unrack` at this path: for processes that have other children, other threads or handlers of signals,
    /// such as an interpreter.
    Command(&'a Path),
}

impl<'a> Asking<'a> {
    /// Returns a caller that makes the runs itself.
    pub fn here(progress: &'a dyn StepProgress, cancel: &'a AtomicBool) -> Asking<'a> {
        Asking { progress, cancel, runs: RunsPlace::ThisProcess }
    }

    /// Fails if the question was canceled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if self.cancel.load(Relaxed) { Err(Error::Canceled) } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn no_more_time_is_left_than_the_budget_has() {
        let now = Instant::now();
        let until = |seconds| now.checked_add(Duration::from_secs(seconds));
        let left =
            |until, is_whole| TimeLeft { seconds: 260.0, since: now, until, is_whole }.seconds_from(now);
        assert_eq!((left(None, true), left(until(300), true)), (Some(260.0), Some(260.0)));
        assert_eq!((left(until(90), true), left(until(0), true)), (Some(90.0), Some(0.0)));
        assert_eq!(left(None, false), None, "some steps are not known");
    }
}
