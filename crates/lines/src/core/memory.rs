//! Memory behind the caches, near and far: when a line arrives.

use super::parameters::{Lane, Pages};
use super::time::{Lanes, Time, later};

/// Memory as the core asks it. A line has a mask, one bit for each placement that has its page near.
///
/// `dispatch` is the time at which the asking instruction was dispatched: not later than `at`, and never before that of an
/// earlier request.
pub(super) trait Memory<T: Time> {
    /// Reads a line. Returns when its value is there.
    fn read(&mut self, at: T, dispatch: T, line: u64, near: u16) -> T;

    /// Writes a line. Returns when the memory has it.
    fn write(&mut self, at: T, dispatch: T, line: u64, near: u16) -> T;

    /// Writes a modified line that nothing waits for.
    fn write_back(&mut self, at: T, dispatch: T, line: u64, near: u16);

    /// Loads an entry of a page table, which is near. Returns when its value is there.
    fn load_entry(&mut self, at: T) -> T;

    /// Counts times from `base` from now on.
    fn rebase(&mut self, base: T);

    /// Prepares for a new window.
    fn reset(&mut self);
}

/// Way to a memory: one line after another.
///
/// The way is busy for an interval from the later of the line's dispatch and the busy time so far. If it were busy from the
/// line's own beginning, a line whose address comes from a miss would keep all that the program asks for after it waiting,
/// which in a core are asked for before it.
///
/// Departure: lines that all wait for one event find the way free at once, as many as fit between dispatch and that event.
pub(super) struct Channel<T> {
    interval: f32,
    free: T,
}

impl<T: Time> Channel<T> {
    /// Creates a way that a line occupies for so many cycles; 0 is no limit.
    pub(super) fn new(interval: f32) -> Channel<T> {
        Channel { interval, free: T::START }
    }

    /// Sends a line when the way is free. Returns when it begins to be sent.
    pub(super) fn send(&mut self, at: T, dispatch: T) -> T {
        if self.interval == 0.0 {
            return at;
        }
        let begin = at.later(self.free);
        self.free = self.free.later(dispatch).after(self.interval);
        begin
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.free = self.free.minus(base);
    }

    pub(super) fn reset(&mut self) {
        self.free = T::START;
    }
}

/// Memory of `N` lanes, each with its own placement and latencies.
pub(super) struct LaneMemory<const N: usize> {
    lanes: [Lane; N],
    /// Times from which on the way to near and to far memory is free.
    free: [Lanes<N>; 2],
    /// Latencies of near memory.
    near: Lanes<N>,
}

impl<const N: usize> LaneMemory<N> {
    /// Creates memory of so many lanes; the last one given stands for those that are not.
    ///
    /// # Panics
    /// If there is none.
    pub(super) fn new(lanes: &[Lane]) -> LaneMemory<N> {
        let lanes: [Lane; N] = std::array::from_fn(|lane| lanes[lane.min(lanes.len() - 1)]);
        let near = Lanes(lanes.map(|lane| lane.near.latency));
        LaneMemory { lanes, free: [Lanes::START; 2], near }
    }
}

impl<const N: usize> Memory<Lanes<N>> for LaneMemory<N> {
    fn read(&mut self, mut at: Lanes<N>, dispatch: Lanes<N>, _: u64, near: u16) -> Lanes<N> {
        for (index, lane) in self.lanes.iter().enumerate() {
            let is_far = lane.is_far(near);
            let memory = if is_far { &lane.far } else { &lane.near };
            let free = &mut self.free[usize::from(is_far)].0[index];
            if memory.interval > 0.0 {
                at.0[index] = later(at.0[index], *free);
                *free = later(*free, dispatch.0[index]) + memory.interval;
            }
            at.0[index] += memory.latency;
        }
        at
    }

    fn write(&mut self, at: Lanes<N>, dispatch: Lanes<N>, line: u64, near: u16) -> Lanes<N> {
        self.read(at, dispatch, line, near)
    }

    fn write_back(&mut self, at: Lanes<N>, dispatch: Lanes<N>, line: u64, near: u16) {
        self.read(at, dispatch, line, near);
    }

    fn load_entry(&mut self, at: Lanes<N>) -> Lanes<N> {
        at.plus(self.near)
    }

    fn rebase(&mut self, base: Lanes<N>) {
        self.free.iter_mut().for_each(|free| *free = free.minus(base));
    }

    fn reset(&mut self) {
        self.free = [Lanes::START; 2];
    }
}

impl Lane {
    /// Returns whether a page is far, of which the mask says which placements have it near.
    #[inline]
    pub(super) fn is_far(&self, near: u16) -> bool {
        match self.pages {
            Pages::AllNear => false,
            Pages::AllFar => true,
            Pages::Placement(number) => near >> number & 1 == 0,
        }
    }
}
