//! Steps of a question: the current step, and the predicted time of the remaining ones.

use crate::asking::{QuestionCaller, TimeLeft};
use crate::error::Error;
use crate::left::{Kind, StepsLeft};
use std::cell::RefCell;
use std::time::Instant;

/// Reports the steps of a question to its caller.
pub(crate) struct QuestionSteps<'a> {
    asking: QuestionCaller<'a>,
    known: RefCell<PlannedSteps>,
}

/// Remaining steps of a question.
struct PlannedSteps {
    left: StepsLeft,
    /// End of the last step.
    since: Instant,
    /// False while some of the remaining steps are not known yet.
    is_whole: bool,
    until: Option<Instant>,
}

impl<'a> QuestionSteps<'a> {
    /// Starts without any known step. All steps end at `until` at the latest.
    pub(crate) fn until(asking: QuestionCaller<'a>, until: Option<Instant>) -> QuestionSteps<'a> {
        let known =
            PlannedSteps { left: StepsLeft::default(), since: Instant::now(), is_whole: false, until };
        QuestionSteps { asking, known: RefCell::new(known) }
    }

    /// Shows the step that starts now.
    ///
    /// # Errors
    /// If the question was canceled.
    pub(crate) fn begin(&self, what: impl AsRef<str>) -> Result<(), Error> {
        self.asking.check()?;
        self.asking.progress.begin(what.as_ref());
        Ok(())
    }

    /// Fails if the question was canceled.
    pub(crate) fn check(&self) -> Result<(), Error> {
        self.asking.check()
    }

    /// Shows a message to the user.
    pub(crate) fn say(&self, text: &str) {
        self.asking.progress.say(text);
    }

    /// Shows the progress of a simulation.
    pub(crate) fn simulated(&self, now: unrack_sim::Progress) {
        self.asking.progress.simulated(now.finished, now.total.unwrap_or(now.submitted));
    }

    /// Adds a step that is still to be done, with its predicted time in seconds.
    pub(crate) fn expect(&self, kind: Kind, predicted_s: f64) {
        self.known.borrow_mut().left.expect(kind, predicted_s);
    }

    /// Records that all remaining steps are known, and shows the time left.
    pub(crate) fn all_expected(&self) {
        self.known.borrow_mut().is_whole = true;
        self.show();
    }

    /// Removes an expected step that will not be done.
    pub(crate) fn drop(&self, kind: Kind, predicted_s: f64) {
        self.known.borrow_mut().left.drop(kind, predicted_s);
        self.show();
    }

    /// Records a finished step.
    pub(crate) fn done(&self, kind: Kind, predicted_s: f64, took_s: f64) {
        let mut known = self.known.borrow_mut();
        known.left.done(kind, predicted_s, took_s);
        known.since = Instant::now();
        drop(known);
        self.show();
    }

    /// Returns the predicted time of a step, corrected by the actual times of finished steps of its kind.
    pub(crate) fn corrected(&self, kind: Kind, predicted_s: f64) -> f64 {
        self.known.borrow().left.corrected(kind, predicted_s)
    }

    /// Reports that all steps have ended.
    pub(crate) fn finish(&self) {
        self.asking.progress.finish();
    }

    fn show(&self) {
        let PlannedSteps { left, since, is_whole, until } = &*self.known.borrow();
        let left = TimeLeft { seconds: left.seconds(), since: *since, until: *until, is_whole: *is_whole };
        self.asking.progress.time_left(&left);
    }
}
