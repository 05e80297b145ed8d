//! Lines on their way to the caches.
//!
//! The recorder's caches have a line at once when it is asked for; in time it arrives later. An access that the recorder
//! calls a hit waits for the arrival.

use super::time::Time;
use super::watch::Waited;

/// Entries, a power of two: several times the buffers of any core, so that few lines displace each other.
const ENTRIES: usize = 512;

/// Line that was asked for.
#[derive(Clone, Copy)]
pub(super) struct Arrival<T> {
    begin: T,
    /// Time at which it is there.
    pub(super) end: T,
    by: By,
    /// Place that it comes from.
    pub(super) waited: Waited,
}

/// Kind of request that brings a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum By {
    /// Load or prefetch.
    Load,
    /// Store, which asks after it has retired.
    Store,
}

/// Lines that were asked for lately, arrived or not. Where two have the same entry, the older one is forgotten: it counts
/// as arrived.
pub(super) struct Arrivals<T> {
    /// Line numbers plus 1; 0 is none.
    lines: Vec<u64>,
    arrivals: Vec<Arrival<T>>,
}

impl<T: Time> Arrivals<T> {
    pub(super) fn new() -> Arrivals<T> {
        let none = Arrival { begin: T::START, end: T::START, by: By::Load, waited: Waited::Core };
        Arrivals { lines: vec![0; ENTRIES], arrivals: vec![none; ENTRIES] }
    }

    /// Returns the arrival of a line for a load that is ready at `ready`, if the line is or was on its way.
    ///
    /// A store's line is asked for late. A load that is ready before asks itself, and has it after the same latency.
    #[inline(always)]
    pub(super) fn arrival(&self, line: u64, ready: T) -> Option<Arrival<T>> {
        let index = index(line);
        if self.lines[index] != line + 1 {
            return None;
        }
        let mut arrival = self.arrivals[index];
        if arrival.by == By::Store {
            arrival.end = arrival.end.earlier(ready.shifted(arrival.begin, arrival.end));
        }
        Some(arrival)
    }

    /// Returns when a line is there, if it is or was on its way.
    #[inline(always)]
    pub(super) fn end(&self, line: u64) -> Option<T> {
        let index = index(line);
        (self.lines[index] == line + 1).then(|| self.arrivals[index].end)
    }

    /// Notes a line that is asked for at `begin` and arrives at `end`.
    pub(super) fn insert(&mut self, line: u64, begin: T, end: T, by: By, waited: Waited) {
        let index = index(line);
        self.lines[index] = line + 1;
        self.arrivals[index] = Arrival { begin, end, by, waited };
    }

    pub(super) fn rebase(&mut self, base: T) {
        for arrival in &mut self.arrivals {
            (arrival.begin, arrival.end) = (arrival.begin.minus(base), arrival.end.minus(base));
        }
    }

    pub(super) fn reset(&mut self) {
        self.lines.fill(0);
    }
}

/// Returns the entry of a line: neighbours get different ones, and so do lines a power of two apart.
#[inline(always)]
fn index(line: u64) -> usize {
    (line ^ line >> 9 ^ line >> 18) as usize % ENTRIES
}
