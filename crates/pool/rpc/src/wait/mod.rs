//! Waiting: poll for a while, then sleep.
//!
//! Polling costs a core; sleeping costs a wake-up, which is tens of microseconds if a core has to be woken too
//! (HydraRPC §5.3 weighs the same). One setting says how long to poll. Where the processor can wait for a cache
//! line (`umwait`, `mwaitx`), and that is of use, polling uses it.
//!
//! | module | idea |
//! |---|---|
//! | [`look`] | polling, with limits |
//! | [`pause`] | pauses between two looks |

mod look;
mod pause;

pub use look::{Moment, PollLimits, look};
pub use pause::Pause;
use unrack_units::nearest;

use std::sync::atomic::{AtomicI8, Ordering};
use std::time::{Duration, Instant};

/// Trade-off between latency and use of the processor while waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Waiting {
    /// Polls until the event: lowest latency, one busy core per waiting thread.
    Spin,
    /// Polls for as long as polling has paid off lately.
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

/// Error for a name that is no [`Waiting`], with a hint at the nearest one.
#[derive(Debug, thiserror::Error)]
#[error("unknown way of waiting{0}")]
pub struct UnknownWaiting(String);

/// Time to poll before sleeping: as long as a wake-up costs if polling has paid off lately, and a little
/// otherwise.
///
/// Polling as long as a sleep would cost is never worse than twice the best choice; not polling after several
/// times in vain keeps the cost of rare calls low.
#[derive(Debug)]
pub struct Patience {
    waiting: Waiting,
    /// Credit, positive if polling paid off lately. Threads that share it may lose each other's changes.
    credit: AtomicI8,
    /// Time to poll when it did not.
    short: Duration,
}

/// Approximate cost of waking a thread on another core (measured: 35 us there and back on two cores).
const WAKE: Duration = Duration::from_micros(50);
/// Most by which a sleep may end too late: Linux lets timers of a thread be 50 us late to coalesce several, and
/// the thread has to be woken. Code that has to be in time sleeps for that much less and polls for the rest.
pub const LATE: Duration = Duration::from_micros(100);
const MOST_CREDIT: i8 = 8;

/// Shortest and longest time for which a thread sleeps that waits for a peer on another host.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];
/// Ratio of the time waited so far to the next nap.
const NAP_PART: u32 = 8;

/// Time within which something has to come for polling to pay off although a nap would have found it, too: a nap takes
/// some 150 us with what waking costs.
const SOON: Duration = Duration::from_micros(250);

/// Returns whether something that came in a nap, after `waited`, would have been better polled for.
pub fn came_soon(waited: Duration) -> bool {
    waited < SOON
}

/// Returns the time to sleep before the next look for something of a peer on another host, after `waited` without
/// anything (HydraRPC §5.3: polling, without a processor that does nothing else). So it is found at most an eighth
/// later, besides what waking takes. `None`: the peer `rings`, and is waited for. A ring passes two managers, so short
/// naps come first.
pub fn nap(waited: Duration, rings: bool) -> Option<Duration> {
    let is_over = rings && waited >= NAPS[1];
    (!is_over).then(|| (waited / NAP_PART).clamp(NAPS[0], NAPS[1]))
}

impl Patience {
    /// Makes the state of one waiting place. `short`: time to poll even if it was in vain lately.
    pub fn new(waiting: Waiting, short: Duration) -> Self {
        Patience { waiting, credit: AtomicI8::new(MOST_CREDIT), short }
    }

    /// Returns the time to poll; `None`: unlimited.
    pub fn budget(&self) -> Option<Duration> {
        match self.waiting {
            Waiting::Spin => None,
            Waiting::Sleep => Some(Duration::ZERO),
            Waiting::Adaptive if self.credit.load(Ordering::Relaxed) > 0 => Some(WAKE),
            Waiting::Adaptive => Some(self.short),
        }
    }

    /// Learns whether the event came while polling.
    pub fn learn(&self, came: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let learnt = (credit + if came { 2 } else { -1 }).clamp(-MOST_CREDIT, MOST_CREDIT);
        if learnt != credit {
            self.credit.store(learnt, Ordering::Relaxed);
        }
    }

    /// Polls until `ready`, the budget or deadline is over, or `enough`: see [`look()`]. Returns whether it is
    /// ready.
    #[inline]
    pub fn look(
        &self,
        deadline: Option<Instant>,
        ready: impl FnMut() -> bool,
        pause: impl FnMut(Moment) -> bool,
        enough: impl FnMut() -> bool,
    ) -> bool {
        let limits = PollLimits { budget: self.budget(), deadline };
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
