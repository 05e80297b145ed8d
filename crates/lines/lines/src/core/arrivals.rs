//! Cache lines that have been requested and may still be in flight to the first-level cache of the core model.
//!
//! The simulated caches of the recorder contain a line as soon as it is requested, whereas in the core model the line
//! arrives later. An access that the recorder classifies as a hit therefore waits for the arrival of its line.

use super::time::LaneTime;
use super::watch::WaitCause;

/// Number of entries of the table of requested lines, a power of two. It is several times the number of buffers of any
/// core, so that two lines in flight seldom map to the same entry.
const ENTRIES: usize = 512;

/// Requested line, with the times of its request and its arrival.
#[derive(Clone, Copy)]
pub(super) struct Arrival<T> {
    begin: T,
    /// Time at which the line arrives.
    pub(super) end: T,
    by: ArrivalKind,
    /// Reason that is reported if an instruction waits for this line. It follows from the level that serves the line.
    pub(super) waited: WaitCause,
}

/// Kind of access that requested a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ArrivalKind {
    /// A load or a prefetch.
    Load,
    /// A store, which requests its line after the store has retired.
    Store,
}

/// Direct-mapped table of recently requested lines, whether or not they have arrived. If two lines map to the same
/// entry, the later request overwrites the earlier one, whose line then counts as arrived.
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

    /// Returns the arrival of a line for a load that can execute at `ready`, or `None` if no recent request for the
    /// line is recorded.
    ///
    /// A store requests its line only at its retirement. A load that can execute before this time sends its own request
    /// for the line, which then arrives after the same latency.
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

    /// Returns when a line arrives, or `None` if no recent request for it is recorded.
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

/// Returns the index of a line's entry in the table. Neighbouring lines have different entries. Lines whose distance is
/// a power of two have different entries too.
#[inline(always)]
fn index(line: u64) -> usize {
    (line ^ line >> 9 ^ line >> 18) as usize % ENTRIES
}
