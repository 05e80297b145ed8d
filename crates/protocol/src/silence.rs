//! Limit on the silence that an end of a transfer endures: one rule for the transports whose papers state none.
//!
//! The rule is TCP's (RFC 1122 §4.2.3.5, R2), for as long as TCP goes on here: [`MOST_TIMEOUTS`] timeouts that double
//! from 200 us on, 13 s. So comparisons of protocols do not depend on how soon each gives up. The papers of pFabric,
//! pHost, NDP, Homa and Fastpass assume peers that are up; RoCE's queue pairs give up after at most seven timeouts
//! (InfiniBand, retry count), which a pause can outlast.
//!
//! Departure: after [`STEADY`] timeouts in a row (pFabric: 1,024) without progress, each is twice the one before, also
//! where the paper has them all alike: a sender that waits for a dead peer sends little, and costs little to simulate.

use crate::tcp::MOST_TIMEOUTS;
use unrack_units::Time;

/// Timeouts in a row that have the length that the protocol gives them.
pub const STEADY: u32 = 64;

/// Least number of retransmissions before an end gives up (RFC 1122 §4.2.3.5, R1: at least three).
const LEAST: u32 = 3;

/// Length of the last timeout: with those before it, each half of the next, 13 s in all.
pub const LONGEST: Time = Time::from_us(200 << MOST_TIMEOUTS);

/// Number of timeouts in a row without progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Silence {
    timeouts: u32,
}

impl Silence {
    /// Ends the silence, because something new has arrived.
    pub fn end(&mut self) {
        self.timeouts = 0;
    }

    /// Returns whether the silence is so long that other transfers go first.
    pub fn is_long(self) -> bool {
        self.timeouts >= STEADY
    }

    /// Returns how long to wait now, if the first `steady` timeouts are all `timeout` and each after those is doubled.
    pub fn timeout(self, timeout: Time, steady: u32) -> Time {
        timeout * (1 << self.timeouts.saturating_sub(steady))
    }

    /// Counts a timeout. Returns how long to wait next; `None` if it is time to give up.
    pub fn handle_timeout(&mut self, timeout: Time, steady: u32) -> Option<Time> {
        if self.timeouts >= steady.max(LEAST) && self.timeout(timeout, steady) >= LONGEST {
            return None;
        }
        self.timeouts += 1;
        Some(self.timeout(timeout, steady))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_timeout_the_end_comes_after_r2(timeout_ns in 1u64..100_000_000_000, doubles: bool) {
            let (timeout, steady) = (Time::from_ns(timeout_ns), if doubles { 0 } else { STEADY });
            let (mut silence, mut waited, mut rounds) = (Silence::default(), timeout, 1);
            while let Some(next) = silence.handle_timeout(timeout, steady) {
                prop_assert!(next == timeout && rounds <= steady || next >= timeout * 2);
                (waited, rounds) = (waited + next, rounds + 1);
            }
            let least = LONGEST + LONGEST.saturating_sub(timeout);
            prop_assert!(waited >= least && rounds > steady.max(LEAST), "{waited} in {rounds}");
            prop_assert!(rounds <= steady + 50);
            prop_assert!(waited < least * 2 + timeout * u64::from(steady.max(LEAST) + 14));
        }
    }

    #[test]
    fn it_is_as_long_as_that_of_tcp() {
        let mut silence = Silence::default();
        let timeouts = (0..).take_while(|_| silence.handle_timeout(Time::from_us(200), 0).is_some()).count();
        assert_eq!(timeouts, MOST_TIMEOUTS as usize);
        silence.end();
        assert_eq!(silence, Silence::default());
    }
}
