//! Front end of the core model, which fetches instructions ahead of dispatch, one group at a time.
//!
//! A group is the set of successive instructions that the core fetches at once. It ends at a taken branch, or when it
//! is full. The branch predictor runs ahead of dispatch until its queue is full or a branch is mispredicted. Therefore
//! code lines that are not in the first-level cache are requested before they are needed: fetch-directed prefetching
//! (Ishii, Lee, Nathella and Sunwoo, "Re-establishing fetch-directed instruction prefetching", ISPASS 2021).
//!
//! The fetch time of a group is expressed as the time at which the group can be dispatched if there is no other delay.
//! The pipeline stages between fetch and dispatch are accounted for in the penalty of a mispredicted branch.
//!
//! Not modelled: branches whose targets are unknown before decoding, decoders, and the capacity of operation caches.

use super::parameters::CoreParameters;
use super::ring::Ring;
use super::time::LaneTime;

/// Maximum number of groups that the branch predictor has predicted and the core has not dispatched yet. No vendor
/// states this number; simulators of fetch-directed prefetching use 24.
const QUEUE: usize = 24;

/// Front end of a core.
pub(super) struct FrontEnd<T> {
    width: usize,
    turn: f32,
    /// Number of dispatch slots that are still free in the current group.
    left: usize,
    /// Fetch times of the last groups of instructions. The number of stored times is the number of groups that the core
    /// fetches per turn.
    fetched: Ring<T>,
    /// Dispatch times at the beginning of each of the last [`QUEUE`] groups.
    queue: Ring<T>,
    /// Fetch time of the current group.
    begin: T,
    /// Time from which the code of the current group can be dispatched.
    ready: T,
}

impl<T: LaneTime> FrontEnd<T> {
    pub(super) fn new(parameters: &CoreParameters) -> FrontEnd<T> {
        FrontEnd {
            width: parameters.fetch_width,
            turn: parameters.turn,
            left: 0,
            fetched: Ring::new(parameters.fetch_groups),
            queue: Ring::new(QUEUE),
            begin: T::START,
            ready: T::START,
        }
    }

    /// Returns when the front end can dispatch an instruction of `slots` slots, at the earliest at `dispatch`.
    #[inline(always)]
    pub(super) fn bound(&mut self, dispatch: T, slots: usize) -> T {
        if self.left == 0 {
            self.group(dispatch);
        }
        // An instruction of several slots may exceed its group. This is rare enough to ignore.
        self.left = self.left.saturating_sub(slots);
        dispatch.later(self.ready)
    }

    /// Starts a new group. `dispatch` is the time of the last dispatch. Returns when the group is fetched.
    pub(super) fn group(&mut self, dispatch: T) -> T {
        self.begin = self.begin.later(self.fetched.oldest(0).after(self.turn)).later(self.queue.oldest(0));
        self.fetched.push(self.begin);
        self.queue.push(dispatch);
        self.ready = self.ready.later(self.begin);
        self.left = self.width;
        self.begin
    }

    /// Ends the current group, because a branch was taken.
    #[inline(always)]
    pub(super) fn end_group(&mut self) {
        self.left = 0;
    }

    /// Delays dispatch until a code line arrives.
    pub(super) fn wait(&mut self, until: T) {
        self.ready = self.ready.later(until);
    }

    /// Restarts the front end so that its first dispatch is at `dispatch`.
    pub(super) fn restart(&mut self, dispatch: T) {
        self.left = 0;
        self.begin = self.begin.later(dispatch);
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.fetched.rebase(base);
        self.queue.rebase(base);
        (self.begin, self.ready) = (self.begin.minus(base), self.ready.minus(base));
    }

    pub(super) fn reset(&mut self) {
        self.left = 0;
        self.fetched.reset(T::START.after(-self.turn));
        self.queue.reset(T::START);
        (self.begin, self.ready) = (T::START, T::START);
    }
}
