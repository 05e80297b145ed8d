//! Retransmission timeout of a flow, derived from measured round trips instead of a fixed guess.
//!
//! The rules are those of RFC 6298. A sender measures the round trip of one segment at a time. It chooses the last segment of a group that
//! the receiver acknowledges together, and never a segment that it has sent twice (§3, Karn). A new acknowledgement restarts the timer
//! (§5.3), and a timeout doubles it (§5.5). Each wait is longer by up to an eighth, depending on the flow, so that flows with simultaneous
//! losses do not retransmit simultaneously.

use super::Sender;
use crate::silence::TimeoutCount;
use unrack_units::Time;

/// Retransmission timer of one flow, kept by its source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RetransmissionTimer {
    least: Time,
    /// Smoothed round-trip time, and its variation (§2.3); `None` before the first measurement.
    round_trip: Option<(Time, Time)>,
    /// Segment whose round trip is being measured, and the time at which this segment was sent.
    timed: Option<(u32, Time)>,
    silence: TimeoutCount,
    /// Time since which the timer has been waiting for an acknowledgement.
    since: Time,
    /// Salt of the flow, which determines by how much each of its waits is longer.
    salt: u32,
}

impl RetransmissionTimer {
    /// Creates a timer whose timeout is at least `least`. `salt` should differ between flows, so that they do not retransmit
    /// simultaneously.
    pub fn new(least: Time, salt: u32) -> RetransmissionTimer {
        let (round_trip, timed, silence, since) = (None, None, TimeoutCount::new(salt), Time::ZERO);
        RetransmissionTimer { least, round_trip, timed, silence, since, salt }
    }

    /// Records that a segment was sent, and may choose this segment for the measurement of the round trip. The receiver acknowledges
    /// `ack_every` segments together.
    pub fn sent(&mut self, now: Time, (segment, is_again): (u32, bool), ack_every: u32) {
        match self.timed {
            Some((timed, _)) if timed == segment => self.timed = None,
            None if !is_again && (segment + 1).is_multiple_of(ack_every) => self.timed = Some((segment, now)),
            _ => {}
        }
    }

    /// Handles an acknowledgement of segments that were not acknowledged before. `sender` must already have recorded it.
    pub fn heard(&mut self, now: Time, sender: &Sender) {
        self.silence.end();
        self.since = now;
        if let Some((_, since)) = self.timed.take_if(|(segment, _)| sender.is_acknowledged(*segment)) {
            self.observe(now.saturating_sub(since));
        }
    }

    fn observe(&mut self, took: Time) {
        self.round_trip = Some(match self.round_trip {
            // §2.2.
            None => (took, Time::from_ps(took.as_ps() / 2)),
            // §2.3: alpha = 1/8, beta = 1/4.
            Some((smoothed, variance)) => {
                let apart = smoothed.as_ps().abs_diff(took.as_ps());
                let mean = |old: u64, new: u64, part: u64| Time::from_ps(old - old / part + new / part);
                (mean(smoothed.as_ps(), took.as_ps(), 8), mean(variance.as_ps(), apart, 4))
            }
        });
    }

    /// Starts the wait for an acknowledgement. The sender calls this once it has sent all segments that it may send.
    pub fn begin(&mut self, now: Time) {
        self.since = now;
    }

    /// Returns the time at which the wait ends.
    pub fn until(&self) -> Time {
        let timeout = self.silence.exact(self.timeout(), 0).as_ps();
        let drawn = u64::from((self.salt ^ self.since.as_ns() as u32).wrapping_mul(0x9E37_79B9) >> 24);
        Time::from_ps(self.since.as_ps().saturating_add(timeout).saturating_add(timeout / 2048 * drawn))
    }

    /// Doubles the timeout after a wait without an acknowledgement. Returns `false` after as many timeouts in a row as TCP allows, because
    /// the sender should then give up.
    pub fn run_out(&mut self) -> bool {
        self.silence.handle_timeout(self.timeout(), 0).is_some()
    }

    /// Returns the timeout that applies after a new acknowledgement, before any doubling (§2.4).
    pub fn timeout(&self) -> Time {
        let measured = self.round_trip.map_or(Time::ZERO, |(smoothed, variance)| smoothed + variance * 4);
        measured.max(self.least)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LEAST: Time = Time::from_us(1_000);

    /// Sends a flow of sixteen segments. Their common acknowledgement arrives the time `took` later.
    fn acknowledged_after(patience: &mut RetransmissionTimer, now: Time, took: Time) {
        let mut sender = Sender::new(16);
        for segment in 0..16 {
            patience.sent(now, (segment, false), 16);
            sender.sent(segment);
        }
        sender.acknowledge(16, 0);
        patience.heard(now + took, &sender);
    }

    #[test]
    fn it_follows_round_trips() {
        let mut patience = RetransmissionTimer::new(LEAST, 1);
        patience.begin(Time::ZERO);
        assert!((LEAST..LEAST * 2).contains(&patience.until()));
        // §2.2: R + 4 R / 2.
        acknowledged_after(&mut patience, Time::ZERO, Time::from_us(10_000));
        assert_eq!(patience.timeout(), Time::from_us(30_000));
        for n in 1..200 {
            acknowledged_after(&mut patience, Time::from_us(20_000 * n), Time::from_us(10_000));
        }
        assert!((10_000.0..10_100.0).contains(&patience.timeout().as_us_f64()), "{}", patience.timeout());
        for n in 200..400 {
            acknowledged_after(&mut patience, Time::from_us(20_000 * n), Time::from_us(50));
        }
        assert_eq!(patience.timeout(), LEAST);
    }

    /// Karn's algorithm: the acknowledgement does not show which of two transmissions it answers.
    #[test]
    fn what_was_sent_twice_is_not_timed() {
        let (mut patience, mut sender) = (RetransmissionTimer::new(LEAST, 1), Sender::new(16));
        patience.sent(Time::ZERO, (15, false), 16);
        patience.sent(Time::from_us(5_000), (15, true), 16);
        sender.acknowledge(16, 0);
        patience.heard(Time::from_us(90_000), &sender);
        assert_eq!(patience.timeout(), LEAST);
    }

    proptest! {
        /// Whatever the measured round trips were, an acknowledgement restarts the timer, a timeout doubles it, and after enough timeouts
        /// the sender gives up.
        #[test]
        fn it_ends(salt: u32, took_us in 0u64..10_000_000, now_us in 0u64..1_000_000) {
            let now = Time::from_us(now_us);
            let mut patience = RetransmissionTimer::new(LEAST, salt);
            acknowledged_after(&mut patience, now, Time::from_us(took_us));
            let mut waits = Vec::new();
            for _ in 0..100 {
                let at = Time::from_us(now_us + took_us);
                patience.begin(at);
                waits.push((patience.until() - at).as_ps() as f64);
                if !patience.run_out() {
                    break;
                }
            }
            prop_assert!(waits.len() < 100 && waits[0] >= LEAST.as_ps() as f64);
            let doubled = |pair: &[f64]| (16.0 / 9.0..18.0 / 8.0 + 0.01).contains(&(pair[1] / pair[0]));
            prop_assert!(waits.windows(2).all(doubled), "{waits:?}");
            acknowledged_after(&mut patience, now, Time::from_us(took_us));
            prop_assert!((patience.until() - patience.since).as_ps() as f64 <= waits[1] * 1.2);
        }
    }
}
