//! How long an end of a transfer goes on when nothing comes of it: one rule for the transports whose papers do not say.
//!
//! It is TCP's (RFC 1122 §4.2.3.5, R2), for as long as TCP goes on here: [`MOST_TIMEOUTS`] timeouts
//! that double from 200 us on, 13 s. So protocols are compared, not their patience. The papers of pFabric, pHost,
//! NDP, Homa and Fastpass have peers that are there; RoCE's queue pairs give up after at most seven
//! timeouts (InfiniBand, retry count), which a pause can be longer than.
//!
//! Departure: after [`STEADY`] timeouts (pFabric: 1,024) in a row that brought nothing, each is twice the one before, also where the paper has
//! them all alike: who waits for a dead peer sends little, and costs little to simulate.

use crate::tcp::MOST_TIMEOUTS;
use unrack_units::Time;

/// Timeouts in a row that are as the protocol has them.
pub const STEADY: u32 = 64;

/// Retransmissions before anybody gives up (RFC 1122 §4.2.3.5, R1: at least three).
const LEAST: u32 = 3;

/// When a timeout of this length has passed in vain, and those before it that were half of it and so on: 13 s in all.
pub const LONGEST: Time = Time::from_us(200 << MOST_TIMEOUTS);

/// Timeouts in a row of which nothing came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Silence {
    timeouts: u32,
}

impl Silence {
    /// Something new has arrived.
    pub fn end(&mut self) {
        self.timeouts = 0;
    }

    /// So long that those that are heard of go first.
    pub fn is_long(self) -> bool {
        self.timeouts >= STEADY
    }

    /// How long to wait now, if the first `steady` timeouts are all `timeout` and each after those is doubled.
    pub fn timeout(self, timeout: Time, steady: u32) -> Time {
        timeout * (1 << self.timeouts.saturating_sub(steady))
    }

    /// That time has passed. How long to wait next; `None`: give up.
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
