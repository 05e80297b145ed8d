//! State of a connection between one stream and the next.

use super::rto::Rto;
use super::{CongestionControl, IdlePeriod, Sender};
use unrack_units::Time;

/// State of an idle connection between two streams: its congestion control and its round-trip estimate.
#[derive(Debug, Clone)]
pub struct Resting<C> {
    pub(super) control: C,
    pub(super) rto: Rto,
    pub(super) initial_window: u32,
    pub(super) last_sent: Time,
}

impl<C: CongestionControl> Resting<C> {
    /// Creates the sender of the next stream on the connection. If the connection has sent nothing for a while, the congestion window
    /// shrinks ([`IdlePeriod::shrink`]).
    pub fn resume(mut self, now: Time, segments: u32) -> Sender<C> {
        let time = now - self.last_sent;
        let timeouts = time.as_ps().saturating_sub(1) / self.rto.timeout().as_ps();
        let timeouts = u32::try_from(timeouts).unwrap_or(u32::MAX);
        self.control.resume(&IdlePeriod { now, time, timeouts, initial_window: self.initial_window });
        Sender::resumed(self, segments)
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::{Link, Pair};
    use super::super::{Acked, Congestion, LossBased, Outstanding, Params, Receiver};
    use super::*;
    use proptest::prelude::*;

    fn pause(now: Time, time: Time, timeouts: u32) -> IdlePeriod {
        IdlePeriod { now, time, timeouts, initial_window: 10 }
    }

    #[test]
    fn a_window_is_halved_for_each_timeout_and_slow_start_leads_back() {
        for (timeouts, left, back) in [(0, 100.0, 50.0), (1, 50.0, 75.0), (3, 12.5, 75.0), (9, 10.0, 75.0)] {
            let (mut cwnd, mut ssthresh) = (100.0, 50.0);
            pause(Time::ZERO, Time::ZERO, timeouts).shrink(&mut cwnd, &mut ssthresh);
            assert_eq!((cwnd, ssthresh), (left, back));
        }
        // A window below the initial one stays as it is, and a slow-start threshold that was never cut stays infinite.
        let (mut cwnd, mut ssthresh) = (4.0, f64::INFINITY);
        pause(Time::ZERO, Time::ZERO, 2).shrink(&mut cwnd, &mut ssthresh);
        assert_eq!((cwnd, ssthresh), (4.0, f64::INFINITY));
    }

    /// Returns the congestion window of CUBIC after a loss at a window of 10,000 segments and `seconds` seconds of growth. After the first
    /// second, the connection pauses for the time `paused`.
    fn cubic(seconds: u64, paused: Time) -> u32 {
        let params = Params { congestion: Congestion::Cubic, initial_window: 10_000, ..Params::default() };
        let mut control = LossBased::new(&params);
        control.handle_loss(Outstanding { una: 0, next: 10_000 });
        let mut later = Time::ZERO;
        for tenth in 0..seconds * 10 {
            let now = Time::from_us(tenth * 100_000) + later;
            let (una, next, rtt) = (u32::MAX - 1, u32::MAX, Time::from_us(100));
            let delivered = control.cwnd();
            control.handle_ack(&Acked { delivered, marked: false, una, next, may_grow: true, now, rtt });
            if tenth == 10 && paused > Time::ZERO {
                later = paused;
                control.resume(&pause(now + paused, paused, 0));
            }
        }
        control.cwnd()
    }

    #[test]
    fn cubic_does_not_grow_by_a_pause() {
        assert_eq!(cubic(5, Time::from_us(8_000_000)), cubic(5, Time::ZERO));
        assert!(cubic(13, Time::ZERO) > cubic(5, Time::ZERO));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]
        #[test]
        fn stream_after_stream_arrives(
            cubic: bool, streams in prop::collection::vec((1u32..200, 0u64..3_000), 1..6), drop_data in 0u64..300,
            drop_ack in 0u64..300, seed: u64,
        ) {
            let congestion = if cubic { Congestion::Cubic } else { Congestion::NewReno };
            let params = Params { congestion, max_rto: Time::from_us(3_000), ..Params::default() };
            let mut sender = Sender::new(LossBased::new(&params), params.timeouts(Time::from_us(2)), 0);
            let mut now = Time::ZERO;
            for (n, (segments, pause)) in streams.into_iter().enumerate() {
                now += Time::from_us(pause);
                let before = (sender.control().cwnd(), sender.rest().last_sent);
                let resumed = sender.rest().resume(now, segments);
                let soon = now - before.1 <= params.min_rto;
                prop_assert!(!soon || resumed.control().cwnd() == before.0);
                let link = Link { drop_data, drop_ack, ..Link::default() };
                let mut pair = Pair::new(resumed, Receiver::new(1, Time::ZERO), link, seed.wrapping_add(n as u64));
                pair.now = now;
                prop_assert!(pair.run().is_some(), "the sender waits for nothing");
                if pair.sender.has_given_up() {
                    break;
                }
                prop_assert_eq!(pair.handed_on, segments);
                (sender, now) = (pair.sender, pair.now);
            }
        }
    }
}
