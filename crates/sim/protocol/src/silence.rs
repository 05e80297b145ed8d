//! Rule for how long one end of a transfer waits for a silent peer before it gives up. The transports whose papers give no such limit share
//! this rule.
//!
//! The limit is that of TCP (RFC 1122 §4.2.3.5, R2) as this crate implements it: [`MOST_TIMEOUTS`] timeouts, of which the first is 200 us
//! long and each later one twice as long as the one before, 13 s in total. Because all transports share the limit, comparisons of protocols
//! do not depend on how soon each of them gives up. The papers of pFabric, pHost, NDP, Homa and Fastpass assume peers that are up. RoCE's
//! queue pairs give up after at most seven timeouts (InfiniBand, retry count), which together may be shorter than a time for which a link
//! is paused.
//!
//! Departure: once an end has run into a timeout, each of its further timeouts is longer by a random extra of up to a half ([`longer`]).
//! The papers have no such extra; on real hosts, schedulers and coarse clocks have the same effect. Without the extra, retries would follow
//! each other at whole multiples of one time. If a link fails periodically with this period, all retries might then fall into its outages.
//!
//! Departure: after [`STEADY`] timeouts in a row without progress (1,024 in pFabric), each timeout is twice the one before, even where the
//! paper has constant timeouts. A sender that waits for a dead peer then sends few packets, and is therefore cheap to simulate.

use unrack_units::Time;

/// Number of timeouts in a row after which TCP closes a connection (RFC 1122 §4.2.3.5: R2). The value is that of Linux's `tcp_retries2`.
pub const MOST_TIMEOUTS: u32 = 15;

/// Number of timeouts in a row that have the protocol's normal length. After these, each timeout is twice the one before.
pub const STEADY: u32 = 64;

/// Minimum number of retransmissions before an end gives up (RFC 1122 §4.2.3.5, R1: at least three).
const LEAST: u32 = 3;

/// Length of the last timeout before an end gives up. Each earlier timeout is half of the next one, so that all timeouts together take 13
/// s.
pub const LONGEST: Time = Time::from_us(200 << MOST_TIMEOUTS);

/// Count of timeouts in a row, without progress in between, at one end of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeoutCount {
    timeouts: u32,
    /// Number of all timeouts so far, including those before the latest progress.
    ever: u32,
    /// Number that identifies this end of a transfer and seeds its random extra waits.
    salt: u32,
}

impl TimeoutCount {
    /// Creates the count of an end of a transfer that has not run into a timeout yet. `salt` should differ between ends, so that their
    /// retries are not simultaneous.
    pub fn new(salt: u32) -> TimeoutCount {
        TimeoutCount { timeouts: 0, ever: 0, salt }
    }

    /// Resets the count of timeouts in a row, because something new has arrived from the peer.
    pub fn end(&mut self) {
        self.timeouts = 0;
    }

    /// Returns whether the peer has been silent for so many timeouts that other transfers should take precedence over this one.
    pub fn is_long(self) -> bool {
        self.timeouts >= STEADY
    }

    /// Returns the length of the next timeout. The first `steady` timeouts in a row are all `timeout` long, and each later one is twice the
    /// one before. Every timeout except the very first is longer by a random extra.
    pub fn timeout(self, timeout: Time, steady: u32) -> Time {
        longer(self.exact(timeout, steady), self.salt, self.ever)
    }

    /// Returns the length of the next timeout without the random extra, for ends that add the extra themselves.
    pub fn exact(self, timeout: Time, steady: u32) -> Time {
        timeout * (1 << self.timeouts.saturating_sub(steady))
    }

    /// Counts a timeout. Returns the length of the next timeout, or `None` if this end of the transfer should give up.
    pub fn handle_timeout(&mut self, timeout: Time, steady: u32) -> Option<Time> {
        if self.timeouts >= steady.max(LEAST) && self.exact(timeout, steady) >= LONGEST {
            return None;
        }
        self.timeouts += 1;
        self.ever = self.ever.wrapping_add(1);
        Some(self.timeout(timeout, steady))
    }
}

/// Returns `wait` plus a random extra of up to half of `wait`. The extra is computed from the salt of an end of a transfer and from `nth`,
/// the number of the timeout. The first timeout, `nth` 0, gets no extra.
pub fn longer(wait: Time, salt: u32, nth: u32) -> Time {
    if nth == 0 {
        return wait;
    }
    // Finalizer of SplitMix64, applied to both numbers.
    let mut drawn = ((u64::from(salt) << 32) | u64::from(nth)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB) >> 32;
    let extra = (u128::from(wait.as_ps()) * u128::from(drawn)) >> 33;
    Time::from_ps(wait.as_ps().saturating_add(extra as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn whatever_the_timeout_the_end_comes_after_r2(
            timeout_ns in 1u64..100_000_000_000, doubles: bool, salt: u32,
        ) {
            let (timeout, steady) = (Time::from_ns(timeout_ns), if doubles { 0 } else { STEADY });
            let (mut silence, mut waited, mut rounds) = (TimeoutCount::new(salt), timeout, 1);
            while let Some(next) = silence.handle_timeout(timeout, steady) {
                let steady_wait = next >= timeout && next.as_ps() <= timeout.as_ps() * 3 / 2;
                prop_assert!(steady_wait && rounds <= steady || next >= timeout * 2);
                (waited, rounds) = (waited + next, rounds + 1);
            }
            let least = LONGEST + LONGEST.saturating_sub(timeout);
            prop_assert!(waited >= least && rounds > steady.max(LEAST), "{waited} in {rounds}");
            prop_assert!(rounds <= steady + 50);
            prop_assert!(waited < least * 3 + timeout * 2 * u64::from(steady.max(LEAST) + 14));
        }
    }

    #[test]
    fn it_is_as_long_as_that_of_tcp() {
        let mut silence = TimeoutCount::new(0);
        let timeouts = (0..).take_while(|_| silence.handle_timeout(Time::from_us(200), 0).is_some()).count();
        assert_eq!(timeouts, MOST_TIMEOUTS as usize);
    }

    /// If an end retried at exact multiples of 1 ms, all of its retries would be lost on a link that is down in the first tenth of each
    /// millisecond.
    #[test]
    fn retries_leave_the_phase_of_a_link_that_flaps() {
        let period = Time::from_us(1_000);
        for (salt, steady) in (0..200).flat_map(|salt| [(salt, 0), (salt, STEADY)]) {
            let (mut silence, mut at) = (TimeoutCount::new(salt), Time::from_us(20) + period);
            let is_down = |at: Time| at.as_ps() % period.as_ps() < period.as_ps() / 10;
            let mut tries = 0;
            while is_down(at) {
                at += silence.handle_timeout(period, steady).unwrap();
                tries += 1;
            }
            assert!(tries <= 8, "{salt}: {tries}");
        }
    }

    #[test]
    fn the_first_timeout_is_exact_and_others_differ_between_ends_also_after_progress() {
        let timeout = Time::from_us(200);
        let second = |salt| {
            let mut silence = TimeoutCount::new(salt);
            assert_eq!(silence.timeout(timeout, STEADY), timeout);
            silence.handle_timeout(timeout, STEADY);
            silence.end();
            silence.timeout(timeout, STEADY)
        };
        let waits: std::collections::BTreeSet<Time> = (0..100).map(second).collect();
        assert!(waits.len() > 90 && waits.iter().all(|wait| (timeout..=timeout * 2).contains(wait)));
    }
}
