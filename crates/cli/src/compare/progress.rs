//! What `compare` is doing: a line with a bar on a terminal, nothing elsewhere.

use indicatif::{ProgressBar, ProgressStyle};
use std::time::Duration;

pub struct Steps(ProgressBar);

impl Steps {
    pub fn new(steps: u64) -> Steps {
        let bar = ProgressBar::new(steps);
        let style = ProgressStyle::with_template("{bar:24} {pos}/{len} {msg} [{elapsed}, about {eta} left]");
        bar.set_style(style.expect("a template of this program's own"));
        bar.enable_steady_tick(Duration::from_millis(200));
        Steps(bar)
    }

    /// Says what comes now.
    pub fn begin(&self, what: impl Into<String>) {
        self.0.set_message(what.into());
    }

    pub fn done(&self) {
        self.0.inc(1);
    }

    pub fn finish(&self) {
        self.0.finish_and_clear();
    }
}
