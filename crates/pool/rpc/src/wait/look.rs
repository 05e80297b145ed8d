//! Polling until a condition holds, without missing a deadline.
//!
//! A look at coherent memory takes some tens of nanoseconds, and reading the clock about as long. So the clock is
//! not read at each of those looks, but often enough that no deadline is missed by more than a tenth. It is read
//! after each look that takes long, such as one that waits for a line or flushes one.

use std::time::{Duration, Instant};

/// Most cheap looks between two readings of the clock: a microsecond or two.
const LOOKS: u32 = 32;
/// Assumed duration of a cheap look before any were timed.
const CHEAP: Duration = Duration::from_nanos(100);
/// Fraction of the remaining time that passes between two readings: one part in `PARTS`.
const PARTS: u32 = 20;
/// Longest first pause, when the clock was not read yet: most events come before it ends. At most a tenth of the
/// budget, which begins at the first reading of the clock.
const FIRST: Duration = Duration::from_micros(2);

/// State of polling after a look in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Number of looks in vain so far.
    pub looks: u32,
    /// Longest permissible pause.
    pub left: Duration,
}

/// Limits of polling.
#[derive(Debug, Clone, Copy, Default)]
pub struct PollLimits {
    /// Longest time from the first look on. `None`: unlimited.
    pub budget: Option<Duration>,
    /// Moment at which to stop.
    pub deadline: Option<Instant>,
}

/// Polls until `ready` returns true, a limit is reached, or `enough` returns true, which is called whenever the
/// clock is read. Calls `pause` between two looks, which returns whether it, or the look before, took so long
/// that the clock is to be read. Returns whether `ready` did.
#[inline]
pub fn look(
    now: impl Fn() -> Instant,
    limits: PollLimits,
    mut ready: impl FnMut() -> bool,
    mut pause: impl FnMut(Moment) -> bool,
    mut enough: impl FnMut() -> bool,
) -> bool {
    let mut pace = Pace::new(limits);
    let first = limits.budget.map_or(FIRST, |budget| FIRST.min(budget / 10));
    let mut moment = Moment { looks: 0, left: first };
    let mut batch = LOOKS;
    loop {
        let mut looks = 0;
        while looks < batch {
            if ready() {
                return true;
            }
            looks += 1;
            moment.looks = moment.looks.saturating_add(1);
            if pause(moment) {
                break;
            }
        }
        match pace.next(now(), looks) {
            Some((next, left)) if !enough() => (batch, moment.left) = (next, left),
            _ => return false,
        }
    }
}

/// Schedule of the readings of the clock.
struct Pace {
    limits: PollLimits,
    /// Last reading of the clock, and the number of cheap looks before the first reading, until they are
    /// accounted for.
    before: Option<(Instant, u32)>,
    /// End of the budget.
    until: Option<Instant>,
}

impl Pace {
    fn new(limits: PollLimits) -> Pace {
        Pace { limits, before: None, until: None }
    }

    /// Takes a reading of the clock, `looks` looks after the one before. Returns the number of cheap looks until
    /// the next reading and the time left; `None` if no time is left.
    #[inline]
    fn next(&mut self, now: Instant, looks: u32) -> Option<(u32, Duration)> {
        let each = match self.before {
            None => {
                self.until = self.limits.budget.map(|budget| now + budget);
                self.before = Some((now, if looks == LOOKS { LOOKS } else { 0 }));
                CHEAP
            }
            Some((before, untimed)) => {
                let each = now.saturating_duration_since(before) / looks.max(1);
                self.until = self.until.map(|until| until.checked_sub(each * untimed).unwrap_or(now));
                self.before = Some((now, 0));
                each
            }
        };
        let Some(end) = self.until.into_iter().chain(self.limits.deadline).min() else {
            return Some((LOOKS, Duration::MAX));
        };
        let left = end.saturating_duration_since(now);
        if left.is_zero() {
            return None;
        }
        let each = each.as_nanos().max(1);
        let batch = (left.as_nanos() / u128::from(PARTS) / each).clamp(1, u128::from(LOOKS));
        Some((batch as u32, left))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::Cell;

    /// Clock that advances with looks and pauses, and counts its readings.
    struct Clock {
        start: Instant,
        ns: Cell<u64>,
        readings: Cell<u64>,
    }

    impl Clock {
        fn new() -> Clock {
            Clock { start: Instant::now(), ns: Cell::new(0), readings: Cell::new(0) }
        }

        fn pass(&self, ns: u64) {
            self.ns.set(self.ns.get() + ns);
        }

        fn read(&self) -> Instant {
            self.pass(25);
            self.readings.set(self.readings.get() + 1);
            self.start + Duration::from_nanos(self.ns.get())
        }
    }

    /// Way of waiting for memory.
    #[derive(Debug, Clone, Copy)]
    enum Kind {
        /// Looks of this many nanoseconds.
        Polled(u64),
        /// A monitor that waits as long as it may, up to this many nanoseconds.
        Monitored(u64),
        /// Looks of this many nanoseconds, and pauses that grow with them.
        BackingOff(u64),
    }

    impl Kind {
        fn pause(self, clock: &Clock, moment: Moment) -> bool {
            match self {
                Kind::Polled(ns) => clock.pass(ns),
                Kind::Monitored(most) => clock.pass(most.min(moment.left.as_nanos() as u64) + 20),
                Kind::BackingOff(ns) => clock.pass(ns + ns * u64::from(moment.looks / 16).min(8)),
            }
            !matches!(self, Kind::Polled(_))
        }

        /// Returns the nanoseconds of the longest look.
        fn longest_ns(self) -> u64 {
            match self {
                Kind::Polled(ns) => ns,
                Kind::Monitored(_) => 20,
                Kind::BackingOff(ns) => 9 * ns,
            }
        }
    }

    fn kind() -> impl Strategy<Value = Kind> {
        prop_oneof![
            (5u64..120).prop_map(Kind::Polled),
            (1_000u64..100_000).prop_map(Kind::Monitored),
            (100u64..2_000).prop_map(Kind::BackingOff),
        ]
    }

    proptest! {
        /// Checks for any duration of looks and any limit that polling ends at most a tenth too late, plus two looks:
        /// the one before the clock is first read, and the last.
        #[test]
        fn limits_are_kept_within_a_tenth(kind in kind(), limit_ns in 5_000u64..20_000_000, is_budget: bool) {
            let clock = Clock::new();
            let limit = Duration::from_nanos(limit_ns);
            let limits = match is_budget {
                true => PollLimits { budget: Some(limit), deadline: None },
                false => PollLimits { budget: None, deadline: Some(clock.start + limit) },
            };
            let found = look(|| clock.read(), limits, || false, |moment| kind.pause(&clock, moment), || false);
            prop_assert!(!found);
            let (ended, longest) = (clock.ns.get(), kind.longest_ns() + 25);
            prop_assert!(ended <= limit_ns + limit_ns / 10 + 2 * longest, "{} of {}", ended, limit_ns);
            prop_assert!(ended + limit_ns / 10 + longest >= limit_ns, "{} of {}: too early", ended, limit_ns);
        }

        /// Checks that the clock is read once in 32 cheap looks if no limit is near.
        #[test]
        fn cheap_looks_are_not_held_up_by_the_clock(ns in 5u64..120, looks in 1u32..5_000, limited: bool) {
            let clock = Clock::new();
            let budget = limited.then_some(Duration::from_secs(1));
            let mut left = looks;
            let ready = || {
                left -= 1;
                left == 0
            };
            let limits = PollLimits { budget, deadline: None };
            prop_assert!(look(|| clock.read(), limits, ready, |moment| Kind::Polled(ns).pause(&clock, moment), || false));
            prop_assert_eq!(clock.readings.get(), u64::from((looks - 1) / LOOKS));
        }
    }

    /// A budget of 5 us is not exceeded much even where a look waits for a line as long as it may.
    #[test]
    fn five_microseconds_are_five_wherever_lines_are_waited_for() {
        let clock = Clock::new();
        let limits = PollLimits { budget: Some(Duration::from_micros(5)), deadline: None };
        look(
            || clock.read(),
            limits,
            || false,
            |moment| Kind::Monitored(20_000).pause(&clock, moment),
            || false,
        );
        // Two waits and two readings, which take some time themselves.
        assert!(clock.ns.get() <= 5_500 + 90, "{} ns", clock.ns.get());
    }

    #[test]
    fn it_ends_when_it_is_there_and_when_it_is_enough() {
        let clock = Clock::new();
        assert!(look(|| clock.read(), PollLimits::default(), || true, |_| false, || false));
        assert_eq!(clock.readings.get(), 0);
        let mut asked = 0;
        let enough = || {
            asked += 1;
            asked == 3
        };
        assert!(!look(|| clock.read(), PollLimits::default(), || false, |_| false, enough));
        assert_eq!(clock.readings.get(), 3);
    }
}
