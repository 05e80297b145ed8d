//! What is being done: a line with a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

/// Work in steps of unequal length, each as long as so many native runs.
pub struct Steps(ProgressBar);

const LOOK: &str = "{bar:24} {percent:>3} %  {msg} [{elapsed}, about {eta} left]";
/// Parts of a native run that are told apart.
const PARTS: f64 = 100.0;

impl Steps {
    pub fn new(native_runs: f64) -> Steps {
        let bar = ProgressBar::new((native_runs * PARTS) as u64);
        bar.set_style(ProgressStyle::with_template(LOOK).expect("the template is ours"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Steps(bar)
    }

    /// Says what comes now.
    pub fn begin(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    /// A step is over that was reckoned to take as long as so many native runs.
    pub fn done(&self, native_runs: f64) {
        self.0.inc((native_runs * PARTS) as u64);
    }

    /// A step was not needed.
    pub fn skip(&self, native_runs: f64) {
        let length = self.0.length().unwrap_or(0);
        self.0.set_length(length.saturating_sub((native_runs * PARTS) as u64));
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
