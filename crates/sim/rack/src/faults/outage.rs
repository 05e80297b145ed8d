//! Outages of a cable, and when they are detected.

use unrack_units::Time;

/// Period in which a cable is down, possibly repeated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outage {
    from: Time,
    length: Time,
    /// Time between two starts; `MAX` if it happens once.
    every: Time,
    /// Time from each change until it is detected; `MAX` if never.
    detected_after: Time,
}

impl Outage {
    /// Creates an outage. An `until` of `MAX` means for ever; `every` is the time from the start of one to the start of
    /// the next; `detected_after` is the time from each change until it is detected.
    ///
    /// # Errors
    /// Returns the rule that these times break, and how.
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

    /// Returns when the outage is detected for the first time.
    pub fn first_known(&self) -> Time {
        Time::from_ps(self.from.as_ps().saturating_add(self.detected_after.as_ps()))
    }

    /// Returns whether the outage is detected and in force, as known at `now`.
    pub fn is_known(&self, now: Time) -> bool {
        now >= self.detected_after && self.covers(now - self.detected_after)
    }

    /// Returns whether any of it is within these times, ends included.
    pub fn meets(&self, first: Time, last: Time) -> bool {
        if first < self.from {
            return last >= self.from;
        }
        let since = self.since_start(first);
        since < self.length || self.every - since <= last - first
    }

    /// Returns whether it is down at this time.
    pub fn covers(&self, at: Time) -> bool {
        self.meets(at, at)
    }

    /// Returns when the outage that covers `at` ends; `None` if never.
    pub fn end_after(&self, at: Time) -> Option<Time> {
        let start = at - self.since_start(at);
        start.as_ps().checked_add(self.length.as_ps()).filter(|end| *end < u64::MAX).map(Time::from_ps)
    }

    /// Returns when the next start or end is detected, after `now`.
    pub fn next_known(&self, now: Time) -> Option<Time> {
        let Outage { from, length, every, detected_after } = *self;
        // During an outage the next to be detected is its end, else the start of one.
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

    /// Returns the time since its latest start.
    fn since_start(&self, at: Time) -> Time {
        Time::from_ps((at - self.from).as_ps() % self.every.as_ps())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The known state does not change between one detected change and the next.
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

        /// An outage meets an interval if and only if it covers some time in it.
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
