//! Progress of a sweep, for a person who watches.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use unrack_sim::Progress;

const LOOK: &str = "{wide_bar} {percent:>3} % of {prefix} points, {eta} left";
/// Length of the bar for each point.
const STEPS: u64 = 1000;

/// Bar of all points.
pub struct Watch {
    bar: ProgressBar,
}

/// One point's part of the bar.
pub struct Share<'a> {
    watch: &'a Watch,
    shown: u64,
}

impl Watch {
    /// Shows a bar on stderr, if that is a terminal.
    pub fn new(points: usize) -> Watch {
        let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
        let length = Some(points as u64 * STEPS);
        let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr()).with_style(style);
        bar.set_prefix(points.to_string());
        Watch { bar }
    }

    /// Returns the part of a point that starts now.
    pub fn point(&self) -> Share<'_> {
        Share { watch: self, shown: 0 }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

impl Share<'_> {
    /// Moves the bar.
    pub fn show(&mut self, progress: Progress) {
        let total = progress.total.unwrap_or(progress.submitted).max(1);
        self.to((u128::from(progress.finished) * u128::from(STEPS) / u128::from(total)) as u64);
    }

    fn to(&mut self, steps: u64) {
        let steps = steps.clamp(self.shown, STEPS);
        self.watch.bar.inc(steps - self.shown);
        self.shown = steps;
    }
}

impl Drop for Share<'_> {
    /// Fills the point's part, whatever its last progress was.
    fn drop(&mut self) {
        self.to(STEPS);
    }
}
