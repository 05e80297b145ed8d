//! Scheduler of the core model, which holds dispatched operations until their inputs are available.

use super::buffers::TimedBuffers;
use super::time::LaneTime;

/// Number of operations in a group. Only one operation of each group is simulated, on behalf of the whole group.
const GROUP: usize = 8;

/// Scheduler with a fixed number of entries. An operation occupies an entry from its dispatch until it begins.
/// Operations release their entries in any order.
///
/// Departure: the model simulates only one of every 8 operations, which a fixed pseudo-random sequence selects. This
/// operation occupies one entry of a scheduler with an eighth of the entries. The time for which operations wait for an
/// entry is right on average, at an eighth of the cost.
pub(super) struct Scheduler<T> {
    entries: TimedBuffers<T>,
    /// Position of the next operation in the current group (`passed`), and position of the operation that is simulated
    /// (`followed`).
    passed: usize,
    followed: usize,
    state: u32,
}

impl<T: LaneTime> Scheduler<T> {
    pub(super) fn new(entries: usize) -> Scheduler<T> {
        let entries = TimedBuffers::new(entries.div_ceil(GROUP));
        Scheduler { entries, passed: 0, followed: 0, state: 1 }
    }

    /// Returns when the next operation obtains an entry, at the earliest `dispatch`.
    #[inline(always)]
    pub(super) fn room(&self, dispatch: T) -> T {
        if self.passed == self.followed { self.entries.begin(dispatch) } else { dispatch }
    }

    /// Occupies an entry for an operation until the operation begins at `begin`.
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
