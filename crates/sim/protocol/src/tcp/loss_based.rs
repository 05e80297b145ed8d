//! Loss-based congestion controls: NewReno and CUBIC.
//!
//! The two algorithms share slow start and the reaction to losses. They differ in how the congestion window grows after a loss, and in how
//! much a loss reduces it.

use super::{Acked, Congestion, CongestionControl, IdlePeriod, Outstanding, Params};
use unrack_units::Time;

/// Congestion control of one stream.
#[derive(Debug, Clone)]
pub struct LossBased {
    /// Congestion window, in segments.
    cwnd: f64,
    /// Slow-start threshold, in segments.
    ssthresh: f64,
    /// The window may be cut again only once all segments with numbers below this one are acknowledged.
    cut_until: u32,
    growth: Growth,
}

/// Rule by which the congestion window grows in congestion avoidance.
#[derive(Debug, Clone)]
enum Growth {
    /// One segment per window.
    Linear,
    Cubic(Cubic),
}

/// State of CUBIC since the last reduction of the window (RFC 9438 §4).
#[derive(Debug, Clone, Default)]
struct Cubic {
    /// W_max, the congestion window to which CUBIC's curve returns, in segments; 0 before the first loss.
    w_max: f64,
    /// Window before the last cut, in segments.
    cwnd_prior: f64,
    /// W_est, the window that Reno would have, in segments.
    w_est: f64,
    /// Start of the current period of growth, and K, the number of seconds from then until the window is back at `w_max`.
    epoch: Option<(Time, f64)>,
}

/// CUBIC's constant C, in segments per cubic second. The next constant is the factor by which a loss reduces the window (RFC 9438 §4.1).
const C: f64 = 0.4;
const BETA: f64 = 0.7;
/// Minimum slow-start threshold after a loss, in segments (RFC 5681 §3.1 eq. 4).
const MIN_WINDOW: f64 = 2.0;

impl LossBased {
    /// Creates the congestion control of a new stream.
    pub fn new(params: &Params) -> LossBased {
        LossBased {
            cwnd: f64::from(params.initial_window.max(1)),
            ssthresh: f64::INFINITY,
            cut_until: 0,
            growth: match params.congestion {
                Congestion::NewReno => Growth::Linear,
                Congestion::Cubic => Growth::Cubic(Cubic::default()),
            },
        }
    }

    fn factor(&self) -> f64 {
        match self.growth {
            Growth::Linear => 0.5,
            Growth::Cubic(_) => BETA,
        }
    }

    /// Sets ssthresh, the slow-start threshold, to a fraction of the segments in flight, at most once per window (RFC 5681 §3.1 eq. 4, RFC
    /// 9438 §4.6). Returns whether it did so.
    fn cut_ssthresh(&mut self, lost: Outstanding) -> bool {
        if lost.una < self.cut_until {
            return false;
        }
        self.ssthresh = (f64::from(lost.flight()) * self.factor()).max(MIN_WINDOW);
        self.cut_until = lost.next;
        if let Growth::Cubic(cubic) = &mut self.growth {
            cubic.congested(self.cwnd);
        }
        true
    }
}

impl Cubic {
    /// Records a reduction of the window. A stream that loses a segment before its window is back at the former size aims at a smaller
    /// window than before, to leave capacity to other streams (fast convergence, RFC 9438 §4.7).
    fn congested(&mut self, cwnd: f64) {
        self.w_max = if cwnd < self.w_max { cwnd * (1.0 + BETA) / 2.0 } else { cwnd };
        self.cwnd_prior = cwnd;
        self.epoch = None;
    }

    /// Returns the new congestion window after `delivered` more segments have been acknowledged (RFC 9438 §4.2 to §4.5).
    fn grown(&mut self, cwnd: f64, delivered: f64, now: Time, rtt: Time) -> f64 {
        let seconds = |time: Time| time.as_ps() as f64 * 1e-12;
        let (begin, k) = *self.epoch.get_or_insert_with(|| {
            self.w_max = self.w_max.max(cwnd);
            self.w_est = cwnd;
            (now, ((self.w_max - cwnd) / C).cbrt())
        });
        let w_cubic = |t: f64| C * (t - k).powi(3) + self.w_max;
        // §4.3: W_est grows as fast as Reno's window on average. It grows by less than 1 segment per window, because CUBIC reduces the
        // window less than Reno does.
        let alpha = if self.w_est >= self.cwnd_prior { 1.0 } else { 3.0 * (1.0 - BETA) / (1.0 + BETA) };
        self.w_est += alpha * delivered / cwnd;
        let elapsed = seconds(now - begin);
        if w_cubic(elapsed) < self.w_est {
            return cwnd.max(self.w_est);
        }
        let target = w_cubic(elapsed + seconds(rtt)).clamp(cwnd, 1.5 * cwnd);
        cwnd + (target - cwnd) * delivered / cwnd
    }
}

impl CongestionControl for LossBased {
    fn cwnd(&self) -> u32 {
        self.cwnd as u32
    }

    fn handle_ack(&mut self, ack: &Acked) {
        if !ack.may_grow {
            return;
        }
        let delivered = f64::from(ack.delivered);
        // RFC 3465 §2.1: count segments acknowledged, not acknowledgements.
        if self.cwnd < self.ssthresh {
            self.cwnd += delivered;
            return;
        }
        self.cwnd = match &mut self.growth {
            Growth::Linear => self.cwnd + delivered / self.cwnd,
            Growth::Cubic(cubic) => cubic.grown(self.cwnd, delivered, ack.now, ack.rtt),
        };
    }

    fn handle_loss(&mut self, lost: Outstanding) {
        if self.cut_ssthresh(lost) {
            self.cwnd = self.ssthresh;
        }
    }

    fn handle_timeout(&mut self, lost: Outstanding) {
        self.cut_ssthresh(lost);
        // RFC 5681 §3.1: the loss window is one segment.
        self.cwnd = 1.0;
    }

    fn resume(&mut self, pause: &IdlePeriod) {
        self.cut_until = 0;
        // RFC 9438 §5.8: the time in which the connection sent nothing does not count as time of growth.
        if let Growth::Cubic(Cubic { epoch: Some((begin, _)), .. }) = &mut self.growth {
            *begin = (*begin + pause.time).min(pause.now);
        }
        pause.shrink(&mut self.cwnd, &mut self.ssthresh);
    }
}

#[cfg(test)]
mod tests {
    use super::super::pair::{Link, Pair};
    use super::super::{Receiver, Sender};
    use super::*;
    use proptest::prelude::*;

    fn params(congestion: Congestion) -> Params {
        Params { congestion, max_rto: Time::from_us(3_000), ..Params::default() }
    }

    fn pair(params: &Params, segments: u32, link: Link, seed: u64) -> Pair<LossBased> {
        let sender = Sender::new(LossBased::new(params), params.timeouts(Time::from_us(2)), segments);
        Pair::new(sender, Receiver::new(1, Time::from_us(100)), link, seed)
    }

    /// Returns a congestion control that is in congestion avoidance after a loss at a window of `most` segments.
    fn after_a_loss(congestion: Congestion, most: u32) -> LossBased {
        let mut control = LossBased::new(&Params { initial_window: most, ..params(congestion) });
        control.handle_loss(Outstanding { una: 0, next: most });
        control
    }

    fn acked(control: &mut LossBased, delivered: u32, now: Time) {
        let (una, next, rtt) = (u32::MAX - 1, u32::MAX, Time::from_us(100));
        control.handle_ack(&Acked { delivered, marked: false, una, next, may_grow: true, now, rtt });
    }

    #[test]
    fn a_loss_cuts_once_a_window() {
        for (congestion, left) in [(Congestion::NewReno, 50), (Congestion::Cubic, 70)] {
            let mut control = after_a_loss(congestion, 100);
            assert_eq!(control.cwnd(), left);
            control.handle_loss(Outstanding { una: 99, next: 150 });
            assert_eq!(control.cwnd(), left, "the same window");
            control.handle_timeout(Outstanding { una: 100, next: 150 });
            assert_eq!(control.cwnd(), 1);
        }
    }

    #[test]
    fn new_reno_grows_by_one_a_round_trip() {
        let mut control = after_a_loss(Congestion::NewReno, 100);
        (0..50).for_each(|_| acked(&mut control, 1, Time::from_us(1)));
        assert_eq!(control.cwnd(), 50);
        (0..2).for_each(|_| acked(&mut control, 1, Time::from_us(1)));
        assert_eq!(control.cwnd(), 51);
    }

    #[test]
    fn cubic_is_back_where_it_was_after_k_seconds_and_flat_there() {
        // K = cbrt(W_max (1 - beta) / C) = cbrt(10000 * 0.3 / 0.4) = 19.57 s.
        let mut control = after_a_loss(Congestion::Cubic, 10_000);
        let (mut now, step) = (Time::ZERO, Time::from_us(100_000));
        let mut at = |seconds: u64, control: &mut LossBased| {
            while now < Time::from_us(seconds * 1_000_000) {
                now += step;
                // One window per 100 ms: Reno is slower than the cubic here.
                acked(control, control.cwnd(), now);
            }
            control.cwnd()
        };
        // W(t) = 0.4 (t - K)^3 + W_max, one round trip ahead.
        let cubic = |t: f64| 0.4 * (t - 7500f64.cbrt()).powi(3) + 10_000.0;
        for seconds in [5, 10, 19, 20, 25] {
            let (window, expected) = (f64::from(at(seconds, &mut control)), cubic(seconds as f64 + 0.1));
            assert!((window - expected).abs() < 0.01 * expected, "{seconds} s: {window}, {expected}");
        }
    }

    #[test]
    fn cubic_keeps_up_with_reno_where_round_trips_are_short() {
        let mut control = after_a_loss(Congestion::Cubic, 100);
        // In 200 round trips of 100 us the cubic curve has hardly moved, while Reno has gained 0.53 segments per
        // window.
        for n in 0..200u64 {
            let window = control.cwnd();
            acked(&mut control, window, Time::from_us(100 * n));
        }
        let gained = control.cwnd() - 70;
        assert!((100..=200).contains(&gained), "{gained}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn everything_arrives_once_in_order(
            cubic: bool, tail_loss_probe: bool, segments in 1u32..400, drop_data in 0u64..500, drop_ack in 0u64..500,
            jitter_ns in 0u64..5_000, seed: u64,
        ) {
            let congestion = if cubic { Congestion::Cubic } else { Congestion::NewReno };
            let link = Link { drop_data, drop_ack, jitter: Time::from_ns(jitter_ns), ..Link::default() };
            let params = Params { tail_loss_probe, ..params(congestion) };
            let mut pair = pair(&params, segments, link, seed);
            prop_assert!(pair.run().is_some(), "the sender waits for nothing");
            prop_assert!(pair.sender.is_done());
            prop_assert!(pair.handed_on == segments || pair.sender.has_given_up());
        }
    }
}
