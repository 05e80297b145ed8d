//! The event queue: a calendar whose days adapt to the density of events.
//!
//! Near events are kept in a ring of short days. A day is unsorted until the queue reaches it; then its events are
//! sorted. Events beyond the ring are kept in a heap, and move to the ring when it reaches them. Every few thousand
//! events, the length of a day is set to a few times the mean gap between events, and the number of days to the number
//! of events. Therefore a push costs one linked-list insertion and a pop costs a share of a small sort, whatever the
//! density of events is.
//!
//! The order is (time, tie, insertion), see [`Tied`]. Insertion order is preserved, because sorting is stable and
//! because an event moves from the heap to its day before another event can be pushed to that day.
//!
//! Measured against a radix heap and a binary heap on the delays of `edm` (hold model, ns per event at 100, 3,000 and
//! 100,000 pending events):
//!
//! | queue | 100 | 3,000 | 100,000 |
//! |---|---|---|---|
//! | calendar | 36 | 35 | 82 |
//! | radix heap | 52 | 72 | 115 |
//! | binary heap with sequence numbers | 45 | 75 | 275 |

mod ring;

use self::ring::Ring;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use unrack_units::Time;

/// Order of events at one instant: lower ties come first, and equal ties in order of insertion.
///
/// A split run has one queue for each part. Two events that different parts push have no common order of insertion;
/// therefore their ties must differ.
pub trait Tied: Copy {
    /// Returns the tie of this event; by default [`Tie::HERE`].
    fn tie(&self) -> u32 {
        Tie::HERE
    }
}

/// Ties: the order of events at one instant. The tie of an arrival over a link is the number of the link, which lies
/// between [`Tie::MESSAGE`] and [`Tie::HERE`].
pub struct Tie;

impl Tie {
    /// Tie of new messages.
    pub const MESSAGE: u32 = 0;
    /// Tie of events that are decided at the device where they happen, except alarms.
    pub const HERE: u32 = u32::MAX - 1;
    /// Tie of alarms. They come last, so that a packet that arrives at the moment of an alarm is still in time.
    pub const ALARM: u32 = u32::MAX;
}

/// Queue of events that returns them in order of (time, tie, insertion).
pub struct EventQueue<E> {
    /// Length of a day: 2^shift picoseconds.
    shift: u32,
    today: u64,
    /// Events of today, sorted; they are read from the front.
    current: Vec<(u64, E)>,
    read: usize,
    ring: Ring<E>,
    far: BinaryHeap<Reverse<Far<E>>>,
    /// Number of events pushed to `far` so far. It orders events of equal time there.
    far_pushed: u64,
    /// Number of events whose day has come since the length of days was last adapted.
    turned: u64,
    /// Time of the last adaptation, in picoseconds.
    since: u64,
}

/// An event beyond the ring, ordered by time and insertion.
struct Far<E> {
    key: u64,
    order: u64,
    event: E,
}

/// Number of events between two checks whether the length of days still fits.
const FIT_EVERY: u64 = 1 << 14;
const FIRST_SHIFT: u32 = 10;
/// Range of `shift`: days last from 16 ps to 1 ms.
const SHIFTS: std::ops::RangeInclusive<u32> = 4..=30;

impl<E: Tied> EventQueue<E> {
    /// Creates an empty queue.
    pub fn new() -> Self {
        EventQueue {
            shift: FIRST_SHIFT,
            today: 0,
            current: Vec::new(),
            read: 0,
            ring: Ring::new(0),
            far: BinaryHeap::new(),
            far_pushed: 0,
            turned: 0,
            since: 0,
        }
    }

    /// Returns the number of events in the queue.
    pub fn len(&self) -> usize {
        self.current.len() - self.read + self.ring.len() + self.far.len()
    }

    /// Returns whether the queue has no event.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Adds an event at `at`, which must not be before the last popped time.
    #[inline]
    pub fn push(&mut self, at: Time, event: E) {
        let key = at.as_ps();
        let day = key >> self.shift;
        debug_assert!(day >= self.today, "time goes forward");
        if day == self.today {
            let goes_before = |(at, other): &(u64, E)| *at < key || *at == key && other.tie() <= event.tie();
            let later = self.current[self.read..].partition_point(goes_before);
            self.current.insert(self.read + later, (key, event));
        } else if self.ring.reaches(day - self.today) {
            self.ring.push(day, key, event);
        } else {
            self.far_pushed += 1;
            self.far.push(Reverse(Far { key, order: self.far_pushed, event }));
        }
    }

    /// Removes and returns the first event.
    #[inline]
    pub fn pop(&mut self) -> Option<(Time, E)> {
        while self.read == self.current.len() {
            self.turn()?;
            self.fit();
        }
        let (key, event) = self.current[self.read];
        self.read += 1;
        Some((Time::from_ps(key), event))
    }

    /// Removes and returns the first event if it is due before `end`. After it has returned `None`, events may be
    /// pushed for any time from `end` on.
    #[inline]
    pub fn pop_before(&mut self, end: Time) -> Option<(Time, E)> {
        while self.read == self.current.len() {
            if self.next_day()? << self.shift >= end.as_ps() {
                return None;
            }
            self.turn()?;
            self.fit();
        }
        let (key, event) = self.current[self.read];
        if key >= end.as_ps() {
            return None;
        }
        self.read += 1;
        Some((Time::from_ps(key), event))
    }

    /// Returns a lower bound of the time of the first event; `None` if the queue is empty.
    pub fn earliest(&self) -> Option<Time> {
        match self.current.get(self.read) {
            Some((key, _)) => Some(Time::from_ps(*key)),
            None => Some(Time::from_ps(self.next_day()? << self.shift)),
        }
    }

    /// Returns the first day after today that has events.
    fn next_day(&self) -> Option<u64> {
        match self.ring.next_day(self.today) {
            Some(day) => Some(day),
            None => Some(self.far.peek()?.0.key >> self.shift),
        }
    }

    /// Advances to the next day that has events.
    fn turn(&mut self) -> Option<()> {
        self.current.clear();
        self.read = 0;
        self.today = self.next_day()?;
        self.pull();
        self.ring.take(self.today, &mut self.current);
        sort_stack(&mut self.current);
        Some(())
    }

    /// Moves events from `far` to the ring, up to the last day that the ring now reaches.
    fn pull(&mut self) {
        while let Some(Reverse(far)) = self.far.peek()
            && self.ring.reaches((far.key >> self.shift) - self.today)
        {
            let Some(Reverse(Far { key, event, .. })) = self.far.pop() else { return };
            self.ring.push(key >> self.shift, key, event);
        }
    }

    /// Adapts the length of days to the density of events, once per [`FIT_EVERY`] events.
    fn fit(&mut self) {
        self.turned += self.current.len() as u64;
        if self.turned < FIT_EVERY {
            return;
        }
        let now = self.today << self.shift;
        let gap = now.saturating_sub(self.since) / self.turned;
        (self.turned, self.since) = (0, now);
        let shift = (u64::BITS - (2 * gap).leading_zeros()).clamp(*SHIFTS.start(), *SHIFTS.end());
        if shift.abs_diff(self.shift) >= 2 || !self.ring.fits(self.len()) {
            self.rebuild(shift);
        }
    }

    /// Rebuilds the queue with days of another length; the order of events is kept.
    #[cold]
    fn rebuild(&mut self, shift: u32) {
        let today = self.today;
        let mut all = std::mem::take(&mut self.current);
        while self.turn().is_some() {
            all.append(&mut self.current);
        }
        // Today does not become the day of the first event, because earlier events may still be pushed.
        self.today = (today << self.shift) >> shift;
        self.shift = shift;
        self.read = 0;
        self.ring = Ring::new(all.len());
        for (key, event) in all {
            self.push(Time::from_ps(key), event);
        }
    }
}

/// Sorts events that are listed in reverse order of insertion. Of equal events, the one that was pushed first comes
/// first.
fn sort_stack<E: Tied>(day: &mut [(u64, E)]) {
    if day.len() > 16 {
        day.reverse();
        // This sort is stable.
        day.sort_by(|(at, event), (other_at, other)| {
            at.cmp(other_at).then_with(|| event.tie().cmp(&other.tie()))
        });
        return;
    }
    for sorted in 1..day.len() {
        let (at, event) = day[sorted];
        let mut hole = sorted;
        while hole > 0 && {
            let (before, other) = &day[hole - 1];
            *before > at || *before == at && other.tie() >= event.tie()
        } {
            day[hole] = day[hole - 1];
            hole -= 1;
        }
        day[hole] = (at, event);
    }
}

impl<E: Tied> Default for EventQueue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Far<E> {
    fn place(&self) -> (u64, u64) {
        (self.key, self.order)
    }
}

impl<E> PartialEq for Far<E> {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}
impl<E> Eq for Far<E> {}
impl<E> PartialOrd for Far<E> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<E> Ord for Far<E> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

#[cfg(test)]
mod tests;
