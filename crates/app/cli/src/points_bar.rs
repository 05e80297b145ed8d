//! Progress bar of a grid of scenarios.

use crate::failure::say;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::path::PathBuf;
use unrack_grid::GridWatch;
use unrack_grid::watch::STEPS;

const LOOK: &str = "{wide_bar} {percent:>3} % of {prefix} points, {eta} left";

/// Progress bar over all points, on stderr if that is a terminal.
pub(crate) struct PointsBar {
    bar: ProgressBar,
    /// Folder to name in the message about points that were already stored.
    kept_in: Option<PathBuf>,
}

impl PointsBar {
    /// Returns a progress bar. If a folder is given, the bar first prints how many points were already stored there.
    pub(crate) fn new(kept_in: Option<PathBuf>) -> PointsBar {
        let style = ProgressStyle::with_template(LOOK).expect("the template is ours");
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr()).with_style(style);
        PointsBar { bar, kept_in }
    }
}

impl GridWatch for PointsBar {
    fn begin(&self, kept: usize, all: usize) {
        if let Some(folder) = self.kept_in.as_ref().filter(|_| kept > 0) {
            say(&format!("{kept} of {all} points are in {} already", folder.display()));
        }
        self.bar.set_prefix((all - kept).to_string());
        self.bar.set_length((all - kept) as u64 * STEPS);
    }

    fn advance(&self, steps: u64) {
        self.bar.inc(steps);
    }
}

impl Drop for PointsBar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
