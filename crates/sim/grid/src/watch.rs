//! Progress of the points of a grid, for a watcher.

use unrack_sim::Progress;

/// Number of steps in which the progress of a point is counted.
pub const STEPS: u64 = 1000;

/// Receiver of the progress of a grid. All threads call it. [`advance`](GridWatch::advance) may end the run by
/// unwinding. It is not called during an unwinding, because a second unwinding would abort the process.
pub trait GridWatch: Sync {
    /// Reports that the grid begins. The results of `kept` of `all` points are already stored.
    fn begin(&self, kept: usize, all: usize);
    /// Reports that a point has advanced by this number of its [`STEPS`].
    fn advance(&self, steps: u64);
}

/// Watcher that ignores all progress.
impl GridWatch for () {
    fn begin(&self, _kept: usize, _all: usize) {}
    fn advance(&self, _steps: u64) {}
}

/// Progress of one point of a grid. When it is dropped, it reports all remaining steps as done, unless the thread is panicking.
pub struct PointProgress<'a> {
    watch: &'a dyn GridWatch,
    shown: u64,
}

impl<'a> PointProgress<'a> {
    /// Returns the progress of a point that starts now.
    pub(crate) fn new(watch: &'a dyn GridWatch) -> PointProgress<'a> {
        PointProgress { watch, shown: 0 }
    }

    /// Reports the progress of the run of the point.
    pub fn show(&mut self, progress: Progress) {
        let total = progress.total.unwrap_or(progress.submitted).max(1);
        self.to((u128::from(progress.finished) * u128::from(STEPS) / u128::from(total)) as u64);
    }

    fn to(&mut self, steps: u64) {
        let steps = steps.clamp(self.shown, STEPS);
        self.watch.advance(steps - self.shown);
        self.shown = steps;
    }
}

impl Drop for PointProgress<'_> {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.to(STEPS);
        }
    }
}
