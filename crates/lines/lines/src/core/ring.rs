//! Queue of fixed length whose entries are released in order.

use super::time::LaneTime;

/// Queue of fixed length, such as a reorder buffer. Each entry becomes free at the time that was pushed for it.
pub(super) struct Ring<T> {
    times: Vec<T>,
    /// Index of the oldest entry, which the next push takes.
    next: usize,
}

impl<T: LaneTime> Ring<T> {
    pub(super) fn new(length: usize) -> Ring<T> {
        Ring { times: vec![T::START; length], next: 0 }
    }

    /// Returns the number of entries.
    pub(super) fn len(&self) -> usize {
        self.times.len()
    }

    /// Returns the time at which one entry of the queue becomes free. This entry was pushed `later` pushes after the
    /// oldest one. If `later` is the length of the queue or more, the function returns the time of the newest entry.
    #[inline(always)]
    pub(super) fn oldest(&self, later: usize) -> T {
        let length = self.times.len();
        let index = self.next + later.min(length - 1);
        self.times[if index < length { index } else { index - length }]
    }

    /// Returns the time that was pushed `before` pushes ago. `before` is 1 to the length of the queue.
    #[inline(always)]
    pub(super) fn pushed(&self, before: usize) -> T {
        let index = if self.next < before { self.next + self.times.len() } else { self.next };
        self.times[index - before]
    }

    /// Takes the oldest entry, which becomes free again at `time`.
    #[inline(always)]
    pub(super) fn push(&mut self, time: T) {
        self.times[self.next] = time;
        self.next += 1;
        if self.next == self.times.len() {
            self.next = 0;
        }
    }

    /// Sets all entries to become free at `time`.
    pub(super) fn reset(&mut self, time: T) {
        self.times.fill(time);
        self.next = 0;
    }

    pub(super) fn rebase(&mut self, base: T) {
        self.times.iter_mut().for_each(|time| *time = time.minus(base));
    }
}
