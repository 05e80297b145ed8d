//! Front end: fetches instructions ahead of dispatch, one group at a time.
//!
//! A group ends at a taken branch, or when it is full. The branch predictor runs ahead of dispatch until its queue is
//! full or a branch is mispredicted. Code lines that the first level lacks are therefore requested before they are
//! needed: fetch-directed prefetching (Ishii, Lee, Nathella and Sunwoo, "Re-establishing fetch-directed instruction
//! prefetching", ISPASS 2021).
//!
//! Fetch times are expressed as the dispatch times that they allow if there is no other delay. The pipeline stages
//! between fetch and dispatch are part of the penalty of a mispredicted branch.
//!
//! Not modelled: branches whose targets are unknown before decoding, decoders, and the capacity of operation caches.

use super::parameters::CoreParameters;
use super::ring::Ring;
use super::time::LaneTime;

/// Maximum number of groups between prediction and dispatch. No vendor states it; simulators of fetch-directed
/// prefetching use 24.
const QUEUE: usize = 24;

/// Front end of a core.
pub(super) struct FrontEnd<T> {
    width: usize,
    turn: f32,
    /// Slots left in the current group.
    left: usize,
    /// Fetch times of the last groups, as many as are fetched per turn.
    fetched: Ring<T>,
    /// Dispatch times at the beginning of the last groups.
    queue: Ring<T>,
    /// Fetch time of the current group.
    begin: T,
    /// Time from which the code of the current group is available.
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

    /// Returns when `slots` slots can be dispatched, at the earliest at `dispatch`.
    #[inline(always)]
    pub(super) fn bound(&mut self, dispatch: T, slots: usize) -> T {
        if self.left == 0 {
            self.group(dispatch);
        }
        // An instruction of several slots may exceed its group. This is rare enough to ignore.
        self.left = self.left.saturating_sub(slots);
        dispatch.later(self.ready)
    }

    /// Starts a group after a dispatch at `dispatch`. Returns when the group is fetched.
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
