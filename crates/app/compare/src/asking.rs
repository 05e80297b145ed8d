//! Interface between a question and its caller: how a question reports its progress, and how the caller cancels it.

use crate::error::Error;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Receives the progress of a question. Every method does nothing by default, and is called by the thread that asks the question.
pub trait StepProgress {
    /// A step begins, such as `native run 2`.
    fn begin(&self, _step: &str) {}

    /// Receives a new estimate of the time until the answer.
    fn time_left(&self, _left: &TimeLeft) {}

    /// Receives the progress of a simulation, which has finished `_finished` of its `_all` messages. This method is called about 20 times a
    /// second; if it unwinds, the simulation ends.
    fn simulated(&self, _finished: u64, _all: u64) {}

    /// Receives a message for the user, to be shown now, for example that the machine is busy.
    fn say(&self, _text: &str) {}

    /// All steps have ended.
    fn finish(&self) {}
}

/// Discards all progress.
impl StepProgress for () {}

/// Predicted time of the remaining steps, as known at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TimeLeft {
    /// Predicted time of the steps that had not ended at `since`, in seconds.
    pub seconds: f64,
    /// End of the last step.
    pub since: Instant,
    /// End of the budget. Steps that do not fit into the budget are left out.
    pub until: Option<Instant>,
    /// False while some of the remaining steps are not known yet, so that `seconds` is only part of the time.
    pub is_whole: bool,
}

impl TimeLeft {
    /// Returns the predicted seconds until the answer, at most the rest of the budget. `None` while some steps are not known.
    pub fn seconds_from(&self, now: Instant) -> Option<f64> {
        let left_s = self.seconds - now.saturating_duration_since(self.since).as_secs_f64();
        let most_s =
            self.until.map_or(f64::INFINITY, |until| until.saturating_duration_since(now).as_secs_f64());
        self.is_whole.then_some(left_s.min(most_s))
    }
}

/// The caller of a question: its progress receiver, its cancel flag, and the place where the program is run.
#[derive(Clone, Copy)]
pub struct QuestionCaller<'a> {
    pub progress: &'a dyn StepProgress,
    /// Cancels the question when another thread sets it to true: the question then starts no further step and stops waiting for other work
    /// on the machine. The current run of the program is also ended, if a command makes that run.
    pub cancel: &'a AtomicBool,
    pub runs: RunsPlace<'a>,
}

/// Process that runs the program of a question about pages.
#[derive(Debug, Clone, Copy)]
pub enum RunsPlace<'a> {
    /// This process, which must have a single thread and no other children, because a run takes over the signals of this process and adopts
    /// orphaned descendants of the program. A signal ends the current run.
    ThisProcess,
    /// The command `unrack` at this path. It is used by processes that have other children, other threads or signal handlers, for example
    /// by an interpreter.
    Command(&'a Path),
}

impl<'a> QuestionCaller<'a> {
    /// Returns a caller whose runs are made in this process.
    pub fn here(progress: &'a dyn StepProgress, cancel: &'a AtomicBool) -> QuestionCaller<'a> {
        QuestionCaller { progress, cancel, runs: RunsPlace::ThisProcess }
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
