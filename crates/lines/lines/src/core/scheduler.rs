//! Scheduler: operations that were dispatched and wait for their inputs.

use super::buffers::Buffers;
use super::time::Time;

/// Operations of which one is followed, for all of them.
const GROUP: usize = 8;

/// Scheduler of a number of entries, each held from dispatch to the beginning of the operation, in any order.
///
/// Departure: of each 8 operations one, drawn by a fixed sequence, is followed, and holds an entry of an eighth of the number:
/// the wait is right on average, at an eighth of the cost.
pub(super) struct Scheduler<T> {
    entries: Buffers<T>,
    /// Operations of this group so far, and the one that is followed.
    passed: usize,
    followed: usize,
    state: u32,
}

impl<T: Time> Scheduler<T> {
    pub(super) fn new(entries: usize) -> Scheduler<T> {
        let entries = Buffers::new(entries.div_ceil(GROUP));
        Scheduler { entries, passed: 0, followed: 0, state: 1 }
    }

    /// Returns when the next operation finds room.
    #[inline(always)]
    pub(super) fn room(&self, dispatch: T) -> T {
        if self.passed == self.followed { self.entries.begin(dispatch) } else { dispatch }
    }

    /// Takes the room of an operation that begins at `begin`.
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
