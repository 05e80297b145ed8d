//! Waiting: look again for a while, then sleep.
//!
//! Looking costs a core; sleeping costs a wake-up, which is tens of microseconds where a core has to be woken
//! too (HydraRPC §5.3 weighs the same). How long to look is one setting. Where the processor can wait for a cache
//! line (`umwait`, `mwaitx`), and that is of use, looking uses it.
//!
//! | module | idea |
//! |---|---|
//! | [`look`] | looking again and again, by a deadline |
//! | [`pause`] | what to do between two looks |

mod look;
mod pause;

pub use look::{Limits, Moment, look};
pub use pause::Pause;
use unrack_units::nearest;

use std::sync::atomic::{AtomicI8, Ordering};
use std::time::{Duration, Instant};

/// What waiting is to be good at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Looks until it comes: lowest latency, a core for each who waits.
    Spin,
    /// Looks as long as looking has been worth it lately.
    #[default]
    Adaptive,
    /// Sleeps at once: lowest use of the processor.
    Sleep,
}

impl std::str::FromStr for Waiting {
    type Err = UnknownWaiting;

    fn from_str(text: &str) -> Result<Waiting, UnknownWaiting> {
        match text {
            "spin" => Ok(Waiting::Spin),
            "adaptive" => Ok(Waiting::Adaptive),
            "sleep" => Ok(Waiting::Sleep),
            _ => Err(UnknownWaiting(nearest::hint(text, &["spin", "adaptive", "sleep"]))),
        }
    }
}

impl std::fmt::Display for Waiting {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            Waiting::Spin => "spin",
            Waiting::Adaptive => "adaptive",
            Waiting::Sleep => "sleep",
        })
    }
}

#[derive(Debug, thiserror::Error)]
#[error("nobody waits in this way{0}")]
pub struct UnknownWaiting(String);

/// How long to look before sleeping: as long as a wake-up costs, if that has been enough lately, and a little if not.
///
/// Looking as long as a sleep would cost is never worse than twice the best choice; not doing so after several
/// times in vain keeps the cost of rare calls low.
#[derive(Debug)]
pub struct Patience {
    waiting: Waiting,
    /// Above zero if looking was worth it. Threads that share it may lose each other's changes.
    credit: AtomicI8,
    /// How long to look when it was not.
    short: Duration,
}

/// About what it costs to wake a thread on another core (measured: 35 us there and back on two cores).
const WAKE: Duration = Duration::from_micros(50);
/// How much too late a sleep may end: Linux lets timers of a thread be 50 us late to take several together, and the thread
/// has to be woken. Whoever has to be in time sleeps for that much less and looks for the rest.
pub const LATE: Duration = Duration::from_micros(100);
const MOST_CREDIT: i8 = 8;

impl Patience {
    /// `short`: how long to look even if it was in vain lately.
    pub fn new(waiting: Waiting, short: Duration) -> Self {
        Patience { waiting, credit: AtomicI8::new(MOST_CREDIT), short }
    }

    /// `None`: for ever.
    pub fn budget(&self) -> Option<Duration> {
        match self.waiting {
            Waiting::Spin => None,
            Waiting::Sleep => Some(Duration::ZERO),
            Waiting::Adaptive if self.credit.load(Ordering::Relaxed) > 0 => Some(WAKE),
            Waiting::Adaptive => Some(self.short),
        }
    }

    /// It came while we looked, or did not.
    pub fn learn(&self, came: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let learnt = (credit + if came { 2 } else { -1 }).clamp(-MOST_CREDIT, MOST_CREDIT);
        if learnt != credit {
            self.credit.store(learnt, Ordering::Relaxed);
        }
    }

    /// Looks until `ready`, or the budget or the time is over, or `enough`: see [`look()`]. Says whether it is ready.
    #[inline]
    pub fn look(
        &self,
        deadline: Option<Instant>,
        ready: impl FnMut() -> bool,
        pause: impl FnMut(Moment) -> bool,
        enough: impl FnMut() -> bool,
    ) -> bool {
        let limits = Limits { budget: self.budget(), deadline };
        let came = look(Instant::now, limits, ready, pause, enough);
        self.learn(came);
        came
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looking_in_vain_becomes_short_and_success_makes_it_long_again() {
        let short = Duration::from_micros(2);
        let patience = Patience::new(Waiting::Adaptive, short);
        assert_eq!(patience.budget(), Some(WAKE));
        for _ in 0..20 {
            patience.learn(false);
        }
        assert_eq!(patience.budget(), Some(short));
        for _ in 0..5 {
            patience.learn(true);
        }
        assert_eq!(patience.budget(), Some(WAKE));
    }

    #[test]
    fn looking_ends_when_it_is_there_and_when_the_time_is_over() {
        let patience = Patience::new(Waiting::Spin, Duration::ZERO);
        let mut looks = 0;
        let third = || {
            looks += 1;
            looks == 100
        };
        assert!(patience.look(None, third, |_| false, || false));
        let deadline = Instant::now() + Duration::from_millis(1);
        assert!(!patience.look(Some(deadline), || false, |_| false, || false));
        assert!(Instant::now() >= deadline);
        assert!(!patience.look(None, || false, |_| false, || true), "enough");
        assert!(!Patience::new(Waiting::Sleep, Duration::ZERO).look(None, || false, |_| false, || false));
    }
}
