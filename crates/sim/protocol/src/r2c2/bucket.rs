//! Token bucket of one flow, at its sender (§3.5).

use unrack_units::Time;

/// Token bucket that limits a flow to an average rate of `kbps` Kb/s, and allows bursts of up to `depth` bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    kbps: u32,
    depth: u32,
    /// Time at which the bucket will have earned, at the current rate, the tokens for all bytes that the flow has sent so far.
    paid: Time,
}

impl TokenBucket {
    /// Creates a full bucket.
    pub fn new(kbps: u32, depth: u32) -> TokenBucket {
        TokenBucket { kbps, depth, paid: Time::ZERO }
    }

    /// Returns the rate in Kb/s.
    pub fn kbps(&self) -> u32 {
        self.kbps
    }

    /// Sets the depth of the bucket, in bytes.
    pub fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// Returns the earliest time at which the flow may send `bytes` bytes, or `None` if the rate is 0, so that it never may. A full bucket
    /// admits even a packet that is larger than the bucket's depth.
    pub fn ready_at(&self, bytes: u32) -> Option<Time> {
        let credit = self.time_of(self.depth.saturating_sub(bytes))?;
        Some(self.paid.saturating_sub(credit))
    }

    /// Takes the tokens for `bytes` bytes, which the flow sends now.
    pub fn take(&mut self, now: Time, bytes: u32) {
        if let Some(time) = self.time_of(bytes) {
            self.paid = self.paid.max(now) + time;
        }
    }

    /// Sets the rate from now on. Tokens that the flow still owes for bytes already sent are earned at the new rate.
    pub fn set_rate(&mut self, now: Time, kbps: u32) {
        let debt = u128::from(self.paid.saturating_sub(now).as_ps()) * u128::from(self.kbps);
        self.kbps = kbps;
        if kbps > 0 {
            self.paid = now + Time::from_ps(debt.div_ceil(u128::from(kbps)).min(MOST_DEBT) as u64);
        }
    }

    fn time_of(&self, bytes: u32) -> Option<Time> {
        // 1 Kb/s is one bit per 10^9 ps.
        let ps = (u64::from(bytes) * 8_000_000_000).checked_div(u64::from(self.kbps))?;
        Some(Time::from_ps(ps))
    }
}

/// Maximum time, in ps, that the bucket needs to earn the tokens that a flow owes: one day, which is never reached at the rates in use.
const MOST_DEBT: u128 = 86_400_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// However the rate of a flow changes, the flow sends in any interval at most the bytes that its rate allows plus the depth of its
        /// bucket.
        #[test]
        fn no_more_leaves_than_comes_in(steps in prop::collection::vec((1u32..2_000, 1_000u32..10_000_000, 0u64..3_000_000), 1..80)) {
            const DEPTH: u32 = 3_000;
            let mut bucket = TokenBucket::new(1_000_000, DEPTH);
            let (mut now, mut sent) = (Time::ZERO, 0f64);
            // Maximum number of bytes that may have left by now.
            let mut allowed = f64::from(DEPTH);
            for (bytes, kbps, idle) in steps {
                let at = bucket.ready_at(bytes).unwrap().max(now + Time::from_ps(idle));
                allowed = (allowed + (at - now).as_ps() as f64 * f64::from(bucket.kbps()) / 8e9).min(sent + f64::from(DEPTH));
                now = at;
                bucket.take(now, bytes);
                sent += f64::from(bytes);
                prop_assert!(sent <= allowed + 2.0, "{sent} of {allowed}");
                bucket.set_rate(now, kbps);
            }
        }
    }

    #[test]
    fn what_it_holds_may_be_sent_ahead() {
        let mut bucket = TokenBucket::new(8_000_000, 1_000);
        bucket.take(Time::ZERO, 1_000);
        assert_eq!(bucket.ready_at(1_000), Some(Time::from_us(1)));
        bucket.set_depth(1_400);
        assert_eq!(bucket.ready_at(1_000), Some(Time::from_ns(600)));
        bucket.set_depth(1_000);
        assert_eq!(bucket.ready_at(1_000), Some(Time::from_us(1)));
    }

    #[test]
    fn a_rate_of_nothing_sends_nothing() {
        let mut bucket = TokenBucket::new(0, 1_500);
        assert_eq!(bucket.ready_at(64), None);
        bucket.set_rate(Time::from_us(3), 8_000_000);
        assert_eq!(bucket.ready_at(1_500), Some(Time::from_us(3)));
        bucket.take(Time::from_us(3), 1_500);
        assert_eq!(bucket.ready_at(1_500), Some(Time::from_ns(4_500)));
    }
}
