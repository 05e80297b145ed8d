//! Progress of a grid's points, for a watcher.

use unrack_sim::Progress;

/// Parts of a point, in which its progress is counted.
pub const STEPS: u64 = 1000;

/// Listener of a grid that runs. All threads call it. [`advance`](GridWatch::advance) may end the run by unwinding; it is
/// not called during an unwinding, which a second one would make an abort of the process.
pub trait GridWatch: Sync {
    /// Says that the grid begins; `kept` of `all` points are not run again.
    fn begin(&self, kept: usize, all: usize);
    /// Says that a point came further, by so many of its [`STEPS`].
    fn advance(&self, steps: u64);
}

/// Watcher that ignores all progress.
impl GridWatch for () {
    fn begin(&self, _kept: usize, _all: usize) {}
    fn advance(&self, _steps: u64) {}
}

/// Progress of one point. At its end, it has come all the way.
pub struct PointProgress<'a> {
    watch: &'a dyn GridWatch,
    shown: u64,
}

impl<'a> PointProgress<'a> {
    /// Returns the progress of a point that starts now.
    pub(crate) fn new(watch: &'a dyn GridWatch) -> PointProgress<'a> {
        PointProgress { watch, shown: 0 }
    }

    /// Says how far the point's run is.
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
