//! One token bucket a flow, at its sender (§3.5).

use unrack_units::Time;

/// Lets a flow send at its rate, and no more than `depth` bytes ahead of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TokenBucket {
    kbps: u32,
    depth: u32,
    /// When what was sent is paid for, at this rate.
    paid: Time,
}

impl TokenBucket {
    /// A full bucket.
    pub fn new(kbps: u32, depth: u32) -> TokenBucket {
        TokenBucket { kbps, depth, paid: Time::ZERO }
    }

    pub fn kbps(&self) -> u32 {
        self.kbps
    }

    /// From now on it holds so much.
    pub fn set_depth(&mut self, depth: u32) {
        self.depth = depth;
    }

    /// When so many bytes may be sent; `None`: never at this rate. More than the bucket holds may be sent when it is
    /// full.
    pub fn ready_at(&self, bytes: u32) -> Option<Time> {
        let credit = self.time_of(self.depth.saturating_sub(bytes))?;
        Some(self.paid.saturating_sub(credit))
    }

    /// So many bytes are sent.
    pub fn take(&mut self, now: Time, bytes: u32) {
        if let Some(time) = self.time_of(bytes) {
            self.paid = self.paid.max(now) + time;
        }
    }

    /// From now on at this rate. What was sent and is not paid for is paid at the new rate.
    pub fn set_rate(&mut self, now: Time, kbps: u32) {
        let debt = u128::from(self.paid.saturating_sub(now).as_ps()) * u128::from(self.kbps);
        self.kbps = kbps;
        if kbps > 0 {
            self.paid = now + Time::from_ps(debt.div_ceil(u128::from(kbps)).min(MOST_DEBT) as u64);
        }
    }

    fn time_of(&self, bytes: u32) -> Option<Time> {
        // 1 Kb/s is a bit in 10^9 ps.
        let ps = (u64::from(bytes) * 8_000_000_000).checked_div(u64::from(self.kbps))?;
        Some(Time::from_ps(ps))
    }
}

/// A day: no rate that is paid at lets it come to that.
const MOST_DEBT: u128 = 86_400_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// In any interval, no more than the rate allows and the bucket holds, however the rate changes.
        #[test]
        fn no_more_leaves_than_comes_in(steps in prop::collection::vec((1u32..2_000, 1_000u32..10_000_000, 0u64..3_000_000), 1..80)) {
            const DEPTH: u32 = 3_000;
            let mut bucket = TokenBucket::new(1_000_000, DEPTH);
            let (mut now, mut sent) = (Time::ZERO, 0f64);
            // What may have left by now at the most.
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
