//! Scheduler, which holds dispatched operations until their inputs are available.

use super::buffers::TimedBuffers;
use super::time::LaneTime;

/// Size of a group of operations, of which one is simulated on behalf of all.
const GROUP: usize = 8;

/// Scheduler with a fixed number of entries. An operation occupies an entry from its dispatch until it begins, and
/// entries are released in any order.
///
/// Departure: of every 8 operations, only one is simulated, which is selected by a fixed pseudo-random sequence. It
/// occupies one entry of a scheduler of an eighth of the size. The wait is right on average, at an eighth of the
/// cost.
pub(super) struct Scheduler<T> {
    entries: TimedBuffers<T>,
    /// Position in the current group, and the position that is simulated.
    passed: usize,
    followed: usize,
    state: u32,
}

impl<T: LaneTime> Scheduler<T> {
    pub(super) fn new(entries: usize) -> Scheduler<T> {
        let entries = TimedBuffers::new(entries.div_ceil(GROUP));
        Scheduler { entries, passed: 0, followed: 0, state: 1 }
    }

    /// Returns when the next operation obtains an entry.
    #[inline(always)]
    pub(super) fn room(&self, dispatch: T) -> T {
        if self.passed == self.followed { self.entries.begin(dispatch) } else { dispatch }
    }

    /// Occupies the entry of an operation that begins at `begin`.
    #[inline(always)]
    pub(super) fn push(&mut self, begin: T) {
        if self.passed == self.followed {
            self.entries.take(begin);
        }
        self.passed += 1;
        if self.passed == GROUP {
            self.passed = 0;
            // Numerical Recipes, 2nd ed., section 7.1, "quick and dirty" generator.
            self.state = self.state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            self.followed = (self.state >> 16) as usize % GROUP;
        }
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.entries.rebase(base);
    }

    pub(super) fn reset(&mut self) {
        self.entries.reset();
        (self.passed, self.followed, self.state) = (0, 0, 1);
    }
}
