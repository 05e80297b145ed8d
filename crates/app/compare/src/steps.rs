//! Steps of a question: which one is under way, and how long the others will take.

use crate::asking::{Asking, TimeLeft};
use crate::error::Error;
use crate::left::{Kind, Left};
use std::cell::RefCell;
use std::time::Instant;

/// Steps of a question, as shown to its caller.
pub(crate) struct Steps<'a> {
    asking: Asking<'a>,
    known: RefCell<Known>,
}

/// Steps to come.
struct Known {
    left: Left,
    /// End of the last step.
    since: Instant,
    /// False while some steps to come are not known yet.
    is_whole: bool,
    until: Option<Instant>,
}

impl<'a> Steps<'a> {
    /// Begins with no step known; all end at a time at the latest.
    pub(crate) fn until(asking: Asking<'a>, until: Option<Instant>) -> Steps<'a> {
        let known = Known { left: Left::default(), since: Instant::now(), is_whole: false, until };
        Steps { asking, known: RefCell::new(known) }
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

    /// Tells the user something.
    pub(crate) fn say(&self, text: &str) {
        self.asking.progress.say(text);
    }

    /// Shows how far a simulation is.
    pub(crate) fn simulated(&self, now: unrack_sim::Progress) {
        self.asking.progress.simulated(now.finished, now.total.unwrap_or(now.submitted));
    }

    /// Adds a step to come, with its predicted time in seconds.
    pub(crate) fn expect(&self, kind: Kind, predicted_s: f64) {
        self.known.borrow_mut().left.expect(kind, predicted_s);
    }

    /// Notes that all steps to come are known.
    pub(crate) fn all_expected(&self) {
        self.known.borrow_mut().is_whole = true;
        self.show();
    }

    /// Removes an expected step that will not come.
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

    /// Returns the predicted time of a step, corrected by the actual times of its kind.
    pub(crate) fn corrected(&self, kind: Kind, predicted_s: f64) -> f64 {
        self.known.borrow().left.corrected(kind, predicted_s)
    }

    /// Says that all steps have ended.
    pub(crate) fn finish(&self) {
        self.asking.progress.finish();
    }

    fn show(&self) {
        let Known { left, since, is_whole, until } = &*self.known.borrow();
        let left = TimeLeft { seconds: left.seconds(), since: *since, until: *until, is_whole: *is_whole };
        self.asking.progress.time_left(&left);
    }
}
