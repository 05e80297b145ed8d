//! Retransmission timeout of RFC 6298.

use super::Timeouts;
use crate::silence::longer;
use unrack_units::Time;

#[derive(Debug, Clone)]
pub(super) struct Rto {
    /// SRTT and RTTVAR, the smoothed round-trip time and its variation, in ps; `None` before the first sample.
    smoothed: Option<(u64, u64)>,
    base: Time,
    backoff: u32,
    /// Number of all timeouts so far, including those before the latest sample.
    ever: u32,
    min: Time,
    max: Time,
    probes: bool,
    salt: u32,
}

impl Rto {
    pub(super) fn new(timeouts: Timeouts) -> Rto {
        let Timeouts { first, min, max, probes, salt } = timeouts;
        Rto { smoothed: None, base: first, backoff: 0, ever: 0, min, max, probes, salt }
    }

    /// Updates the estimate with a sample of the round-trip time (RFC 6298 §2.2 and §2.3). A sample also ends the back-off (§5.7).
    pub(super) fn sample(&mut self, rtt: Time) {
        let rtt = rtt.as_ps();
        let (srtt, rttvar) = match self.smoothed {
            None => (rtt, rtt / 2),
            // RTTVAR <- 3/4 RTTVAR + 1/4 |SRTT - R'|;  SRTT <- 7/8 SRTT + 1/8 R'
            Some((srtt, rttvar)) => ((7 * srtt + rtt) / 8, (3 * rttvar + srtt.abs_diff(rtt)) / 4),
        };
        self.smoothed = Some((srtt, rttvar));
        self.base = Time::from_ps(srtt + 4 * rttvar).clamp(self.min, self.max);
        self.backoff = 0;
    }

    /// Doubles the timeout: RFC 6298 §5.5.
    pub(super) fn back_off(&mut self) {
        self.backoff = (self.backoff + 1).min(32);
        self.ever = self.ever.wrapping_add(1);
    }

    /// Returns the number of timeouts in a row.
    pub(super) fn timeouts(&self) -> u32 {
        self.backoff
    }

    /// Returns how long the sender waits for an acknowledgement before it sends a tail loss probe (RFC 8985 §7.2). Returns `None` if probes
    /// are off, or before the first sample.
    // Departure: the RFC waits longer if a single segment is in flight, because its acknowledgement may be delayed. Here receivers do not
    // delay it.
    pub(super) fn probe_timeout(&self) -> Option<Time> {
        let (srtt, _) = self.smoothed.filter(|_| self.probes)?;
        Some(Time::from_ps(2 * srtt))
    }

    /// Returns the current retransmission timeout. It is doubled for each timeout in a row (§5.5). After the first timeout, it is also
    /// longer by a random extra of up to a half.
    // Departure: the RFC has no random extra. Without it, all retries of a sender whose timeout is at its minimum might fall into the
    // outages of a link that fails periodically with the same period.
    pub(super) fn timeout(&self) -> Time {
        let ps = u128::from(self.base.as_ps()) << self.backoff;
        let exact = Time::from_ps(u64::try_from(ps).unwrap_or(u64::MAX)).min(self.max);
        longer(exact, self.salt, if self.backoff > 0 { self.ever } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rto() -> Rto {
        Rto::new(Timeouts::known(Time::from_us(2), Time::from_us(200), Time::from_us(10_000)))
    }

    #[test]
    fn follows_the_round_trip_time() {
        let mut rto = rto();
        rto.sample(Time::from_us(400));
        assert_eq!(rto.timeout(), Time::from_us(400 + 4 * 200));
        for _ in 0..200 {
            rto.sample(Time::from_us(400));
        }
        assert!(rto.timeout() < Time::from_us(401), "{}", rto.timeout());
    }

    #[test]
    fn stays_within_its_bounds_and_doubles() {
        let mut rto = rto();
        rto.sample(Time::from_us(2));
        assert_eq!(rto.timeout(), Time::from_us(200));
        let doubled: Vec<u64> = (0..8)
            .map(|_| {
                rto.back_off();
                rto.timeout().as_ns() / 1000
            })
            .collect();
        // Each wait is longer by up to a half.
        let exact = [400, 800, 1600, 3200, 6400, 10_000, 10_000, 10_000];
        let are_longer =
            doubled.iter().zip(exact).all(|(wait, exact)| (exact..=exact * 3 / 2).contains(wait));
        assert!(are_longer, "{doubled:?}");
        rto.sample(Time::from_us(2));
        assert_eq!(rto.timeout(), Time::from_us(200));
    }
}
