//! Waiting: a thread polls for a while, then sleeps.
//!
//! Polling costs a core. Sleeping costs a wakeup, which takes tens of microseconds if a core has to be woken, too
//! (HydraRPC §5.3 discusses the same trade-off). [`Waiting`] selects how long to poll. If the processor can wait for a
//! cache line (`umwait`, `mwaitx`) and the memory allows it, polling uses that instruction.
//!
//! | module | idea |
//! |---|---|
//! | [`look`] | polling with limits |
//! | [`pause`] | pauses between two polls |

mod look;
mod pause;

pub use look::{Moment, PollLimits, look};
pub use pause::Pause;
use unrack_units::nearest;

use std::sync::atomic::{AtomicI8, Ordering};
use std::time::{Duration, Instant};

/// Trade-off between latency and use of the processor while waiting.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WaitPolicy {
    /// Polls until the event comes. This has the lowest latency, but each waiting thread keeps a core busy.
    Spin,
    /// Polls for as long as polling has paid off recently, and then sleeps.
    #[default]
    Adaptive,
    /// Sleeps at once, which uses the processor least.
    Sleep,
}

impl std::str::FromStr for WaitPolicy {
    type Err = UnknownWaiting;

    fn from_str(text: &str) -> Result<WaitPolicy, UnknownWaiting> {
        match text {
            "spin" => Ok(WaitPolicy::Spin),
            "adaptive" => Ok(WaitPolicy::Adaptive),
            "sleep" => Ok(WaitPolicy::Sleep),
            _ => Err(UnknownWaiting(nearest::hint(text, &["spin", "adaptive", "sleep"]))),
        }
    }
}

impl std::fmt::Display for WaitPolicy {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(match self {
            WaitPolicy::Spin => "spin",
            WaitPolicy::Adaptive => "adaptive",
            WaitPolicy::Sleep => "sleep",
        })
    }
}

/// Error for a name that is not one of [`Waiting`]. It suggests the nearest name.
#[derive(Debug, thiserror::Error)]
#[error("unknown way of waiting{0}")]
pub struct UnknownWaiting(String);

/// Policy of how long a thread polls before it sleeps: as long as a wakeup costs if polling has paid off recently, and
/// otherwise for a short time.
///
/// Polling for as long as a sleep would cost is never worse than twice the best choice. If polling was in vain several
/// times, the thread polls only briefly, which keeps the cost of rare calls low.
#[derive(Debug)]
pub struct PollTime {
    waiting: WaitPolicy,
    /// Credit, which is positive if polling paid off recently. Threads that share it may overwrite each other's
    /// changes.
    credit: AtomicI8,
    /// Time to poll while the credit is not positive.
    short: Duration,
}

/// Approximate cost of waking a thread on another core (measured: 35 us for a round trip between two cores).
const WAKE: Duration = Duration::from_micros(50);
/// Maximum by which a sleep may end too late. Linux may delay a thread's timers by 50 us to coalesce several of them, and
/// then the thread has to be woken. Code that must be on time therefore sleeps for this much less and polls for the
/// rest.
pub const LATE: Duration = Duration::from_micros(100);
const MOST_CREDIT: i8 = 8;

/// Shortest and longest sleep of a thread that waits for a peer on another host.
const NAPS: [Duration; 2] = [Duration::from_micros(50), Duration::from_millis(1)];
/// Ratio of the time waited so far to the length of the next nap.
const NAP_PART: u32 = 8;

/// Time within which an event must come for polling to pay off although a nap would have found the event, too. A nap
/// takes about 150 us, including the wakeup.
const SOON: Duration = Duration::from_micros(250);

/// Returns whether it would have been better to poll for an event that came during a nap, `waited` after the wait
/// began.
pub fn came_soon(waited: Duration) -> bool {
    waited < SOON
}

/// Returns how long to sleep before the next poll for an event of a peer on another host, after `waited` without an
/// event. Short sleeps replace polling (HydraRPC §5.3), which would keep a processor busy. A nap is an eighth of the
/// time waited so far, but at least 50 us and at most 1 ms. Therefore an event after the first 400 us is found at most
/// an eighth later, plus the wakeup. Returns `None` if the thread should sleep until the peer rings, which is possible
/// only if the peer `rings`. Because a ring passes two managers, short naps come first in this case, too.
pub fn nap(waited: Duration, rings: bool) -> Option<Duration> {
    let is_over = rings && waited >= NAPS[1];
    (!is_over).then(|| (waited / NAP_PART).clamp(NAPS[0], NAPS[1]))
}

impl PollTime {
    /// Makes the state of one place where threads wait. `short` is the time to poll even if polling was in vain
    /// recently.
    pub fn new(waiting: WaitPolicy, short: Duration) -> Self {
        PollTime { waiting, credit: AtomicI8::new(MOST_CREDIT), short }
    }

    /// Returns the time to poll; `None` means without a limit.
    pub fn budget(&self) -> Option<Duration> {
        match self.waiting {
            WaitPolicy::Spin => None,
            WaitPolicy::Sleep => Some(Duration::ZERO),
            WaitPolicy::Adaptive if self.credit.load(Ordering::Relaxed) > 0 => Some(WAKE),
            WaitPolicy::Adaptive => Some(self.short),
        }
    }

    /// Records whether the event came while polling.
    pub fn learn(&self, came: bool) {
        let credit = self.credit.load(Ordering::Relaxed);
        let learnt = (credit + if came { 2 } else { -1 }).clamp(-MOST_CREDIT, MOST_CREDIT);
        if learnt != credit {
            self.credit.store(learnt, Ordering::Relaxed);
        }
    }

    /// Polls until `ready` returns true, the budget or the deadline is over, or `enough` returns true; see [`look()`].
    /// Returns whether `ready` did.
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
        let patience = PollTime::new(WaitPolicy::Adaptive, short);
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
        let patience = PollTime::new(WaitPolicy::Spin, Duration::ZERO);
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
        assert!(!PollTime::new(WaitPolicy::Sleep, Duration::ZERO).look(None, || false, |_| false, || false));
    }
}
