//! A link or a memory that serves one transfer at a time.
//!
//! Transfers are booked in the order in which they are decided, which may differ from the order of their times. For
//! example, a transfer that must first cross another busy link may be booked before one that is already here. Therefore
//! a booking takes any free time after its own start, in several pieces if needed. Transfers that are booked in order
//! of time are served in that order.

use std::collections::VecDeque;
use unrack_engine::network::{Departure, Pace};
use unrack_units::Time;

#[derive(Debug, Clone)]
pub(crate) struct BookedTimeline {
    pace: Pace,
    /// Start and end of the last busy period. Most bookings need only this one.
    last: (Time, Time),
    /// Earlier busy periods, in order, with gaps between them. Periods in the past may be left out.
    busy: VecDeque<(Time, Time)>,
}

impl BookedTimeline {
    /// Creates an idle timeline with this pace.
    pub(super) fn new(pace: Pace) -> BookedTimeline {
        BookedTimeline { pace, last: (Time::ZERO, Time::ZERO), busy: VecDeque::new() }
    }

    /// Books the time that `bytes` need, from `at` on. `at` must not be before `now`, and `now` must not decrease
    /// between calls.
    pub(super) fn book(&mut self, now: Time, at: Time, bytes: u64) -> Departure {
        debug_assert!(now <= at);
        let need = self.pace.transmit(bytes);
        let (start, end) = self.last;
        if at < start {
            return self.fill(now, at, need);
        }
        // The transfer is the last one.
        let first = at.max(end);
        let last = first + need;
        if first == end {
            self.last.1 = last;
        } else {
            if end < now {
                self.busy.clear();
            } else {
                self.forget_before(now);
                self.busy.push_back(self.last);
            }
            self.last = (first, last);
        }
        Departure { first, last }
    }

    fn forget_before(&mut self, now: Time) {
        while self.busy.front().is_some_and(|(_, end)| *end < now) {
            self.busy.pop_front();
        }
    }

    /// Books free time before the last busy period.
    fn fill(&mut self, now: Time, at: Time, need: Time) -> Departure {
        self.forget_before(now);
        self.busy.push_back(self.last);
        let departure = self.fill_busy(at, need);
        self.last = self.busy.pop_back().expect("what was busy last, or what it was joined to");
        departure
    }

    fn fill_busy(&mut self, at: Time, need: Time) -> Departure {
        let mut next = self.busy.partition_point(|(_, end)| *end < at);
        let (mut first, mut from, mut need) = (None, at, need);
        loop {
            // Skip busy periods that include `from`, or that adjoin it.
            while let Some((start, end)) = self.busy.get(next).copied()
                && start <= from
            {
                from = from.max(end);
                next += 1;
            }
            let free = self.busy.get(next).map_or(need, |(start, _)| (*start - from).min(need));
            first.get_or_insert(from);
            let until = from + free;
            need = need - free;
            next = self.insert(next, from, until);
            from = until;
            if need == Time::ZERO {
                return Departure { first: first.unwrap_or(at), last: until };
            }
        }
    }

    /// Marks a free period before busy period `next` as busy, and merges it with adjacent periods. Returns the index of
    /// a busy period that ends at `until` or later.
    fn insert(&mut self, next: usize, from: Time, until: Time) -> usize {
        let joins_next = self.busy.get(next).is_some_and(|(start, _)| *start == until);
        let joins_last = next > 0 && self.busy[next - 1].1 == from;
        match (joins_last, joins_next) {
            (true, true) => {
                self.busy[next - 1].1 = self.busy[next].1;
                self.busy.remove(next);
                next - 1
            }
            (true, false) => {
                self.busy[next - 1].1 = until;
                next
            }
            (false, true) => {
                self.busy[next].0 = from;
                next
            }
            (false, false) => {
                self.busy.insert(next, (from, until));
                next + 1
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_engine::network::Port;
    use unrack_units::Rate;

    impl BookedTimeline {
        fn all(&self) -> impl Iterator<Item = &(Time, Time)> {
            self.busy.iter().chain([&self.last])
        }
    }

    /// Creates a timeline in which a byte takes 80 ps.
    fn timeline() -> BookedTimeline {
        BookedTimeline::new(Pace::new(Rate::from_gbps(100)))
    }

    proptest! {
        /// A timeline that is booked in order of time behaves like a port.
        #[test]
        fn what_is_told_in_order_is_served_in_order(gaps in prop::collection::vec((0u64..4_000, 1u64..40), 1..60)) {
            let (mut timeline, mut port, mut now) = (timeline(), Port::new(Pace::new(Rate::from_gbps(100))), Time::ZERO);
            for (gap, bytes) in gaps {
                now += Time::from_ps(gap);
                prop_assert_eq!(timeline.book(now, now, bytes), port.enqueue(now, bytes));
            }
        }

        /// No time is booked twice or lost, and no transfer waits while there is free time.
        #[test]
        fn any_order_takes_each_time_once(told in prop::collection::vec((0u64..3_000, 1u64..20), 1..60)) {
            let mut timeline = timeline();
            let mut taken = [false; 16_384];
            for (at, bytes) in told {
                // All times are whole byte times.
                let at = at / 80;
                let free: Vec<usize> = (at as usize..).filter(|slot| !taken[*slot]).take(bytes as usize).collect();
                free.iter().for_each(|slot| taken[*slot] = true);
                let departure = timeline.book(Time::ZERO, Time::from_ps(at * 80), bytes);
                prop_assert_eq!(departure.first.as_ps(), free[0] as u64 * 80);
                prop_assert_eq!(departure.last.as_ps(), (free[free.len() - 1] as u64 + 1) * 80);
                prop_assert!(timeline.all().zip(timeline.all().skip(1)).all(|(a, b)| a.1 < b.0));
            }
            let busy: u64 = timeline.all().map(|(start, end)| (*end - *start).as_ps()).sum();
            prop_assert_eq!(busy, taken.iter().filter(|taken| **taken).count() as u64 * 80);
        }
    }
}
