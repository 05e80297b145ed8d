//! Front end: fetches instructions ahead of dispatch, a group of them at a time.
//!
//! A group ends at a taken branch, or when it is full. The predictor of branches runs ahead, so that lines of code which the
//! first level lacks are asked for before their turn: fetch-directed prefetching (Ishii, Lee, Nathella and Sunwoo, "Re-establishing
//! fetch-directed instruction prefetching", ISPASS 2021), until its queue is full or a branch was mispredicted.
//!
//! Times are those of dispatch where nothing else is waited for: the stages between fetch and dispatch count with the penalty of a
//! mispredicted branch.
//!
//! Left out: branches whose targets are not known before they are decoded, decoders, and the limits of operation caches.

use super::parameters::CoreParameters;
use super::ring::Ring;
use super::time::Time;

/// Groups between prediction and dispatch at most. No maker states it; simulators of fetch-directed prefetching take 24.
const QUEUE: usize = 24;

/// Front end of a core.
pub(super) struct Front<T> {
    width: usize,
    turn: f32,
    /// Slots that the present group has left.
    left: usize,
    /// Fetches of the last groups, as many as a turn has.
    fetched: Ring<T>,
    /// Dispatches at the beginning of the last groups.
    queue: Ring<T>,
    /// Fetch of the present group.
    begin: T,
    /// Time from which on the code of the present group is there.
    ready: T,
}

impl<T: Time> Front<T> {
    pub(super) fn new(parameters: &CoreParameters) -> Front<T> {
        Front {
            width: parameters.fetch_width,
            turn: parameters.turn,
            left: 0,
            fetched: Ring::new(parameters.fetch_groups),
            queue: Ring::new(QUEUE),
            begin: T::START,
            ready: T::START,
        }
    }

    /// Returns when so many slots can be dispatched, at the earliest at `dispatch`.
    #[inline(always)]
    pub(super) fn bound(&mut self, dispatch: T, slots: usize) -> T {
        if self.left == 0 {
            self.group(dispatch);
        }
        // An instruction of several slots may exceed its group: few do.
        self.left = self.left.saturating_sub(slots);
        dispatch.later(self.ready)
    }

    /// Begins a group, after a dispatch at `dispatch`. Returns when it is fetched.
    pub(super) fn group(&mut self, dispatch: T) -> T {
        self.begin = self.begin.later(self.fetched.oldest(0).after(self.turn)).later(self.queue.oldest(0));
        self.fetched.push(self.begin);
        self.queue.push(dispatch);
        self.ready = self.ready.later(self.begin);
        self.left = self.width;
        self.begin
    }

    /// Ends the present group: a branch was taken.
    #[inline(always)]
    pub(super) fn end_group(&mut self) {
        self.left = 0;
    }

    /// Waits for a line of code.
    pub(super) fn wait(&mut self, until: T) {
        self.ready = self.ready.later(until);
    }

    /// Begins anew, with a first dispatch at `dispatch`.
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
