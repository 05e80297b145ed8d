//! Polling until a condition holds, without missing a deadline.
//!
//! A poll of coherent memory takes some tens of nanoseconds, and reading the clock takes about as long. Therefore the
//! clock is not read after each of these cheap polls, but often enough that no limit is exceeded by more than a tenth.
//! It is read after each poll that takes long, for example one that waits for a line or flushes one.

use std::time::{Duration, Instant};

/// Maximum cheap polls between two readings of the clock; they take a microsecond or two.
const LOOKS: u32 = 32;
/// Assumed duration of a cheap poll before any was timed.
const CHEAP: Duration = Duration::from_nanos(100);
/// Between two readings of the clock, one part in `PARTS` of the remaining time passes.
const PARTS: u32 = 20;
/// Longest first pause, while the clock was not read yet. Most events come before it ends. It is at most a tenth of the
/// budget, because the budget begins only at the first reading of the clock.
const FIRST: Duration = Duration::from_micros(2);

/// State of polling after a poll in vain.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Moment {
    /// Number of polls in vain so far.
    pub looks: u32,
    /// Longest permissible pause.
    pub left: Duration,
}

/// Limits of polling.
#[derive(Debug, Clone, Copy, Default)]
pub struct PollLimits {
    /// Longest time from the first poll on. `None` means without a limit.
    pub budget: Option<Duration>,
    /// Time at which to stop. `None` means without a limit.
    pub deadline: Option<Instant>,
}

/// Polls until `ready` returns true, a limit is reached, or `enough` returns true. Returns whether `ready` did.
/// `enough` is called whenever the clock is read. `pause` is called between two polls; it returns whether the pause, or
/// the poll before it, took so long that the clock has to be read.
#[inline]
pub fn look(
    now: impl Fn() -> Instant,
    limits: PollLimits,
    mut ready: impl FnMut() -> bool,
    mut pause: impl FnMut(Moment) -> bool,
    mut enough: impl FnMut() -> bool,
) -> bool {
    let mut pace = ClockSchedule::new(limits);
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
struct ClockSchedule {
    limits: PollLimits,
    /// Last reading of the clock, with the number of cheap polls before the first reading. The number is zero once the
    /// time of these polls is subtracted from the budget.
    before: Option<(Instant, u32)>,
    /// Time when the budget ends.
    until: Option<Instant>,
}

impl ClockSchedule {
    fn new(limits: PollLimits) -> ClockSchedule {
        ClockSchedule { limits, before: None, until: None }
    }

    /// Takes a reading of the clock, `looks` polls after the one before. Returns the number of cheap polls until the
    /// next reading and the time that is left; `None` if no time is left.
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

    /// Clock that advances with polls and pauses, and counts its readings.
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
        /// Polls that take this many nanoseconds.
        Polled(u64),
        /// A monitor that waits as long as it may, up to this many nanoseconds.
        Monitored(u64),
        /// Polls that take this many nanoseconds, with pauses that grow with the number of polls.
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

        /// Returns the duration of the longest poll in nanoseconds.
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
        /// Checks for any duration of polls and any limit that polling ends at most a tenth too late, plus two polls:
        /// the one before the clock is first read, and the last one.
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

        /// Checks that the clock is read only once in 32 cheap polls if no limit is near.
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

    /// A budget of 5 us is not exceeded much even if a poll waits for a line for as long as it may.
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
        // There are two waits and two readings of the clock, which also take some time.
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
