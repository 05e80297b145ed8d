//! Lines in flight to the caches.
//!
//! The recorder's caches contain a line as soon as it is requested, whereas in the core model it arrives later. An
//! access that the recorder classifies as a hit therefore waits for the arrival of its line.

use super::time::LaneTime;
use super::watch::WaitCause;

/// Number of entries, a power of two. It is several times the number of buffers of any core, so that few lines
/// displace each other.
const ENTRIES: usize = 512;

/// Line that was requested.
#[derive(Clone, Copy)]
pub(super) struct Arrival<T> {
    begin: T,
    /// Time at which the line arrives.
    pub(super) end: T,
    by: ArrivalKind,
    /// Level from which the line comes, as the reason for waiting.
    pub(super) waited: WaitCause,
}

/// Kind of request that brought a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalKind {
    /// Load or prefetch.
    Load,
    /// Store, which requests its line after it has retired.
    Store,
}

/// Recently requested lines, arrived or not, in a direct-mapped table. If two lines share an entry, the older one is
/// overwritten and counts as arrived.
pub(super) struct ArrivalTable<T> {
    /// Line numbers plus 1; 0 marks an empty entry.
    lines: Vec<u64>,
    arrivals: Vec<Arrival<T>>,
}

impl<T: LaneTime> ArrivalTable<T> {
    pub(super) fn new() -> ArrivalTable<T> {
        let none = Arrival { begin: T::START, end: T::START, by: ArrivalKind::Load, waited: WaitCause::Core };
        ArrivalTable { lines: vec![0; ENTRIES], arrivals: vec![none; ENTRIES] }
    }

    /// Returns the arrival of a line, for a load that is ready at `ready`, if the line was requested recently.
    ///
    /// A store requests its line only at retirement. A load that is ready earlier sends its own request, and its line
    /// arrives after the same latency.
    #[inline(always)]
    pub(super) fn arrival(&self, line: u64, ready: T) -> Option<Arrival<T>> {
        let index = index(line);
        if self.lines[index] != line + 1 {
            return None;
        }
        let mut arrival = self.arrivals[index];
        if arrival.by == ArrivalKind::Store {
            arrival.end = arrival.end.earlier(ready.shifted(arrival.begin, arrival.end));
        }
        Some(arrival)
    }

    /// Returns when a line arrives, if it was requested recently.
    #[inline(always)]
    pub(super) fn end(&self, line: u64) -> Option<T> {
        let index = index(line);
        (self.lines[index] == line + 1).then(|| self.arrivals[index].end)
    }

    /// Records a line that is requested at `begin` and arrives at `end`.
    pub(super) fn insert(&mut self, line: u64, begin: T, end: T, by: ArrivalKind, waited: WaitCause) {
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

/// Returns the entry of a line. Neighbouring lines have different entries, and so have lines that are a power of two
/// apart.
#[inline(always)]
fn index(line: u64) -> usize {
    (line ^ line >> 9 ^ line >> 18) as usize % ENTRIES
}
