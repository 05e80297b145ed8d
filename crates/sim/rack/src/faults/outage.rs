//! Outages of a cable, and the times at which they are detected.

use unrack_units::Time;

/// Period during which a cable is down. It may repeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    from: Time,
    length: Time,
    /// Time from one start to the next; `MAX` if the outage does not repeat.
    every: Time,
    /// Time from each start or end until the network detects it; `MAX` if it never does.
    detected_after: Time,
}

impl Outage {
    /// Creates an outage. It never ends if `until` is `MAX`. `every` is the time from the start of one outage to the
    /// start of the next. `detected_after` is the time from each start or end until the network detects it.
    ///
    /// # Errors
    /// Returns the rule that these times violate, and the offending times.
    pub fn new(
        from: Time,
        until: Time,
        every: Option<Time>,
        detected_after: Option<Time>,
    ) -> Result<Outage, (&'static str, String)> {
        if until <= from {
            return Err(("end after they begin", format!("{from} until {until}")));
        }
        let length = until - from;
        if let Some(every) = every.filter(|every| *every <= length) {
            return Err(("are over before they happen again", format!("{length} every {every}")));
        }
        let every = every.unwrap_or(Time::MAX);
        Ok(Outage { from, length, every, detected_after: detected_after.unwrap_or(Time::MAX) })
    }

    /// Returns the time at which the network first detects the outage.
    pub fn first_known(&self) -> Time {
        Time::from_ps(self.from.as_ps().saturating_add(self.detected_after.as_ps()))
    }

    /// Returns whether the network, at `now`, considers the cable down. Detection of each start and end is delayed.
    pub fn is_known(&self, now: Time) -> bool {
        now >= self.detected_after && self.covers(now - self.detected_after)
    }

    /// Returns whether the outage overlaps the period from `first` to `last`, both included.
    pub fn meets(&self, first: Time, last: Time) -> bool {
        if first < self.from {
            return last >= self.from;
        }
        let since = self.since_start(first);
        since < self.length || self.every - since <= last - first
    }

    /// Returns whether the cable is down at this time.
    pub fn covers(&self, at: Time) -> bool {
        self.meets(at, at)
    }

    /// Returns the end of the outage that covers `at`; `None` if it never ends.
    pub fn end_after(&self, at: Time) -> Option<Time> {
        let start = at - self.since_start(at);
        start.as_ps().checked_add(self.length.as_ps()).filter(|end| *end < u64::MAX).map(Time::from_ps)
    }

    /// Returns the next time after `now` at which the network detects a start or an end.
    pub fn next_known(&self, now: Time) -> Option<Time> {
        let Outage { from, length, every, detected_after } = *self;
        // During a detected outage, its end is detected next; otherwise, the start of the next outage is.
        let then = now.as_ps().saturating_sub(detected_after.as_ps());
        let start = if then < from.as_ps() || now < detected_after {
            from.as_ps()
        } else {
            let turns = (then - from.as_ps()) / every.as_ps();
            from.as_ps() + turns * every.as_ps()
        };
        let ends = [0, length.as_ps(), every.as_ps()].map(|after| start.saturating_add(after));
        let known = ends.map(|at| at.saturating_add(detected_after.as_ps()));
        known.into_iter().filter(|at| (now.as_ps() + 1..u64::MAX).contains(at)).min().map(Time::from_ps)
    }

    /// Returns the time since the latest start of the outage.
    fn since_start(&self, at: Time) -> Time {
        Time::from_ps((at - self.from).as_ps() % self.every.as_ps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The known state does not change between two detected changes.
        #[test]
        fn changes_are_known_one_after_the_other(
            from in 0u64..40, length in 1u64..30, every in prop::option::of(31u64..60), after in 0u64..50, now in 0u64..300,
        ) {
            let (every, detected_after) = (every.map(Time::from_ps), Some(Time::from_ps(after)));
            let (start, end) = (Time::from_ps(from), Time::from_ps(from + length));
            let outage = Outage::new(start, end, every, detected_after).unwrap();
            let known = |at: u64| outage.is_known(Time::from_ps(at));
            prop_assert_eq!(outage.first_known().as_ps(), from + after);
            let change = (now + 1..now + 400).find(|at| known(*at) != known(*at - 1));
            prop_assert_eq!(outage.next_known(Time::from_ps(now)).map(Time::as_ps), change);
        }

        /// An outage overlaps an interval if and only if it covers some time in the interval.
        #[test]
        fn an_outage_meets_what_it_covers(
            from in 0u64..50, length in 1u64..20, pause in 0u64..20, first in 0u64..200, more in 0u64..40,
        ) {
            let every = if pause == 0 { Time::MAX } else { Time::from_ps(length + pause) };
            let time = Time::from_ps;
            let outage = Outage { from: time(from), length: time(length), every, detected_after: Time::MAX };
            let down = |at: u64| at >= from && match pause {
                0 => at - from < length,
                _ => (at - from) % (length + pause) < length,
            };
            prop_assert_eq!(outage.meets(time(first), time(first + more)), (first..=first + more).any(down));
            if down(first) {
                let end = (first..).find(|at| !down(*at)).unwrap();
                prop_assert_eq!(outage.end_after(time(first)), Some(time(end)));
            }
        }
    }
}
