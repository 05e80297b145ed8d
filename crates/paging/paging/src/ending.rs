//! Forced end of a run whose program does not end although it was asked to.

use crate::say;
use crate::signals::EndRequests;
use std::time::{Duration, Instant};

/// Time that a program has to end by itself after SIGINT or SIGTERM. It suffices to save a cache of some hundred MiB, and is short enough
/// that a user at a terminal does not think that the program hangs. A program that is blocked in a page fault cannot react to a signal,
/// however long it has.
const GRACE: Duration = Duration::from_secs(5);
/// Time within which a program may end before a message is printed.
const QUIET: Duration = Duration::from_secs(1);
/// Signals that arrive within this time count as one request, because `timeout` and shells signal a process and then its process group.
const APART: Duration = Duration::from_millis(500);

/// State of the requests to end the program.
#[derive(Default)]
pub(crate) struct EndingState {
    asked: Option<(EndRequests, Instant)>,
    is_urgent: bool,
    is_told: bool,
}

impl EndingState {
    /// Returns the signal that asked for the end if the program must be killed now: because its grace period is over, or because the user
    /// asked again.
    pub(crate) fn due(&mut self, asked: EndRequests, now: Instant) -> Option<i32> {
        if asked.times == 0 {
            return None;
        }
        let (first, since) = *self.asked.get_or_insert((asked, now));
        self.is_urgent |= asked.times > first.times && now >= since + APART;
        if self.is_urgent || now >= since + GRACE {
            return Some(asked.signal);
        }
        if now < since + APART {
            self.asked = Some((asked, since));
        }
        if now >= since + QUIET && !self.is_told {
            self.is_told = true;
            let left = (GRACE - QUIET).as_secs();
            say(&format!(
                "the program was signalled to end; it will be killed in {left} s, or at once on another signal"
            ));
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the time (ms) at which the program is killed if signals arrive at the given times (ms).
    fn killed_at(signals: &[u64]) -> Option<u64> {
        let (mut ending, begin) = (EndingState::default(), Instant::now());
        (0..20_000).step_by(10).find(|ms| {
            let times = signals.iter().filter(|at| *at <= ms).count() as u32;
            ending.due(EndRequests { times, signal: 15 }, begin + Duration::from_millis(*ms)).is_some()
        })
    }

    #[test]
    fn a_program_has_its_time_unless_it_is_asked_again() {
        assert_eq!(killed_at(&[]), None);
        assert_eq!(killed_at(&[1000]), Some(6000));
        assert_eq!(killed_at(&[1000, 3000]), Some(3000));
        assert_eq!(killed_at(&[0, 100, 490]), Some(5000), "one request that came thrice");
        assert_eq!(killed_at(&[0, 100, 700]), Some(700));
    }
}
