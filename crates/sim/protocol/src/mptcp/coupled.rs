//! Coupled congestion control of the subflows of one connection. If all its subflows share a bottleneck link, they
//! together take no more of the link's rate than one TCP connection would. The coupling also moves traffic away from
//! congested paths.
//!
//! Slow start and the reaction to loss are the same as in TCP (RFC 6356 §3). In congestion avoidance, the growth of a
//! subflow's window depends on all subflows of the connection ([`increase`]).

use super::Coupling;
use crate::tcp::{Acked, CongestionControl, IdlePeriod, Outstanding};
use unrack_units::Time;

/// Congestion control of one subflow. The congestion window is in segments.
#[derive(Debug, Clone)]
pub struct Coupled {
    cwnd: f64,
    /// Slow-start threshold, in segments.
    ssthresh: f64,
    /// Number of the segment up to which all segments must be acknowledged before the window may be cut again.
    cut_until: u32,
    /// Growth of the window, in segments, for each segment that is acknowledged in congestion avoidance.
    increase: f64,
    /// Smoothed round-trip time (rtt_i of RFC 6356, SRTT of RFC 6298), in seconds; 0 before the first sample.
    rtt: f64,
    /// Number of segments acknowledged between the last two losses: l_1r of OLIA §2.2. `l_2` is the number of segments
    /// acknowledged since the last loss: l_2r.
    l_1: f64,
    l_2: f64,
}

/// Minimum congestion window after a cut, in segments (RFC 5681 §3.1 eq. 4).
const MIN_WINDOW: f64 = 2.0;
/// Minimum congestion window, in segments, after an acknowledgement. The window may shrink without a loss, because
/// OLIA's increase may be negative.
const LEAST: f64 = 1.0;

impl Coupled {
    /// Creates the congestion control of a new subflow.
    pub fn new(initial_window: u32) -> Coupled {
        Coupled {
            cwnd: f64::from(initial_window.max(1)),
            ssthresh: f64::INFINITY,
            cut_until: 0,
            increase: 0.0,
            rtt: 0.0,
            l_1: 0.0,
            l_2: 0.0,
        }
    }

    /// Returns the smoothed round-trip time of the subflow in seconds, or 0 before the first sample.
    pub fn rtt(&self) -> f64 {
        self.rtt
    }

    /// Returns whether the subflow is in slow start, in which its window grows by one segment per acknowledged segment
    /// instead of by the coupled increase.
    pub(super) fn is_in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    pub(super) fn set_increase(&mut self, increase: f64) {
        self.increase = increase;
    }

    /// Updates the smoothed round-trip time with the sample `rtt` (RFC 6298 §2.3). The first sample becomes the
    /// smoothed time.
    fn sample(&mut self, rtt: Time) {
        let rtt = rtt.as_ps() as f64 * 1e-12;
        self.rtt = if self.rtt == 0.0 { rtt } else { 0.875 * self.rtt + 0.125 * rtt };
    }

    /// Returns l_r of OLIA §2.2: the number of segments acknowledged between the last two losses, or since the last
    /// loss if that number is larger.
    fn l(&self) -> f64 {
        self.l_1.max(self.l_2)
    }

    fn cut(&mut self, lost: Outstanding) -> bool {
        if lost.una < self.cut_until {
            return false;
        }
        // RFC 6356 §3: the window decreases as in TCP.
        self.ssthresh = (f64::from(lost.flight()) / 2.0).max(MIN_WINDOW);
        self.cut_until = lost.next;
        self.l_1 = std::mem::take(&mut self.l_2);
        true
    }
}

impl CongestionControl for Coupled {
    fn cwnd(&self) -> u32 {
        self.cwnd as u32
    }

    fn handle_ack(&mut self, ack: &Acked) {
        let delivered = f64::from(ack.delivered);
        self.l_2 += delivered;
        self.sample(ack.rtt);
        if !ack.may_grow {
            return;
        }
        let grown = if self.is_in_slow_start() { 1.0 } else { self.increase };
        self.cwnd = (self.cwnd + grown * delivered).max(LEAST);
    }

    fn handle_loss(&mut self, lost: Outstanding) {
        if self.cut(lost) {
            self.cwnd = self.ssthresh;
        }
    }

    fn handle_timeout(&mut self, lost: Outstanding) {
        self.cut(lost);
        // RFC 5681 §3.1: the loss window is one segment.
        self.cwnd = 1.0;
    }

    fn resume(&mut self, pause: &IdlePeriod) {
        self.cut_until = 0;
        pause.shrink(&mut self.cwnd, &mut self.ssthresh);
    }
}

/// Returns the number of segments by which the window of the subflow `of` grows for each segment that is acknowledged
/// in congestion avoidance. `all` are the subflows of the connection, including `of`.
pub(super) fn increase<'a>(
    coupling: Coupling,
    all: impl Iterator<Item = &'a Coupled> + Clone,
    of: &Coupled,
) -> f64 {
    // Subflows without a sample of the round-trip time are left out of the sums.
    let known = || all.clone().filter(|one| one.rtt > 0.0);
    if of.rtt == 0.0 || coupling == Coupling::Uncoupled {
        return 1.0 / of.cwnd;
    }
    // (sum_p w_p / rtt_p)^2
    let rate: f64 = known().map(|one| one.cwnd / one.rtt).sum::<f64>().powi(2);
    match coupling {
        Coupling::Lia => {
            let total: f64 = known().map(|one| one.cwnd).sum();
            let best = known().map(|one| one.cwnd / one.rtt.powi(2)).fold(0.0, f64::max);
            // RFC 6356 §3, eq. 2: alpha = cwnd_total max(cwnd_i / rtt_i^2) / (sum cwnd_i / rtt_i)^2
            let alpha = total * best / rate;
            // eq. 1: min(alpha / cwnd_total, 1 / cwnd_i) for each acknowledged segment
            (alpha / total).min(1.0 / of.cwnd)
        }
        // OLIA §2.1: w_r / rtt_r^2 / (sum w_p / rtt_p)^2 + alpha_r / w_r
        _ => of.cwnd / of.rtt.powi(2) / rate + olia_alpha(known(), of) / of.cwnd,
    }
}

/// Returns alpha_r of OLIA §2.2 for the subflow `of`. It reduces the windows of the subflows with the largest windows,
/// and enlarges those of the best other subflows, where the best subflows have the largest l_r^2 / rtt_r.
fn olia_alpha<'a>(all: impl Iterator<Item = &'a Coupled> + Clone, of: &Coupled) -> f64 {
    let quality = |one: &Coupled| one.l().powi(2) / one.rtt;
    let (best, most) =
        all.clone().fold((0.0f64, 0.0f64), |(best, most), one| (best.max(quality(one)), most.max(one.cwnd)));
    let is_best = |one: &Coupled| quality(one) >= best;
    let is_most = |one: &Coupled| one.cwnd >= most;
    let count = |of: &dyn Fn(&Coupled) -> bool| all.clone().filter(|one| of(one)).count() as f64;
    // Number of best subflows whose windows are not the largest: the size of "collected_paths" of OLIA §2.2.
    let collected = count(&|one| is_best(one) && !is_most(one));
    let paths = all.clone().count() as f64;
    if collected == 0.0 {
        0.0
    } else if is_best(of) && !is_most(of) {
        1.0 / paths / collected
    } else if is_most(of) {
        -1.0 / paths / count(&is_most)
    } else {
        0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subflow(cwnd: f64, rtt: f64, l_2: f64) -> Coupled {
        Coupled { cwnd, rtt, l_2, ssthresh: 1.0, ..Coupled::new(10) }
    }

    fn of(coupling: Coupling, all: &[Coupled], n: usize) -> f64 {
        increase(coupling, all.iter(), &all[n])
    }

    #[test]
    fn one_subflow_is_reno() {
        let one = [subflow(20.0, 1e-4, 100.0)];
        for coupling in [Coupling::Lia, Coupling::Olia, Coupling::Uncoupled] {
            assert!((of(coupling, &one, 0) - 1.0 / 20.0).abs() < 1e-12, "{coupling:?}");
        }
    }

    #[test]
    fn equal_subflows_grow_together_as_one() {
        // n subflows have the same window w and the same round-trip time r: alpha = n w (w/r^2) / (n w/r)^2 = 1/n, so
        // that in one round trip each window grows by w alpha / (n w) = 1/n^2. OLIA grows by w (w/r^2) / (n w/r)^2,
        // which is the same.
        for coupling in [Coupling::Lia, Coupling::Olia] {
            let all: Vec<_> = (0..4).map(|_| subflow(10.0, 1e-4, 50.0)).collect();
            let in_a_round_trip = of(coupling, &all, 2) * 10.0;
            assert!((in_a_round_trip - 1.0 / 16.0).abs() < 1e-12, "{coupling:?}: {in_a_round_trip}");
        }
    }

    #[test]
    fn linked_increases_by_hand() {
        // The windows are 10 and 30, and the round-trip times 1 and 3. The total window is 40, the largest cwnd_i /
        // rtt_i^2 is 10/1, and the square of the sum is (10 + 10)^2 = 400, so that alpha = 1.
        let all = [subflow(10.0, 1.0, 0.0), subflow(30.0, 3.0, 0.0)];
        assert!((of(Coupling::Lia, &all, 0) - 1.0 / 40.0).abs() < 1e-12);
        assert!((of(Coupling::Lia, &all, 1) - 1.0 / 40.0).abs() < 1e-12);
        // The increase is never larger than that of a single TCP, 1 / cwnd_i.
        let all = [subflow(1000.0, 0.1, 0.0), subflow(1.0, 0.01, 0.0)];
        assert!((0..2).all(|n| of(Coupling::Lia, &all, n) <= 1.0 / all[n].cwnd));
    }

    #[test]
    fn opportunism_moves_window_to_the_best_path() {
        // The first subflow has by far the largest l_r^2 / rtt_r, because it loses fewer segments. The second subflow
        // has the larger window.
        let all = [subflow(10.0, 1.0, 1000.0), subflow(30.0, 1.0, 10.0)];
        // 10 / 40^2 + (1/2) / 10;  30 / 40^2 - (1/2) / 30.
        assert!((of(Coupling::Olia, &all, 0) - (10.0 / 1600.0 + 0.05)).abs() < 1e-12);
        assert!((of(Coupling::Olia, &all, 1) - (30.0 / 1600.0 - 1.0 / 60.0)).abs() < 1e-12);
    }

    #[test]
    fn a_loss_halves_once_for_a_window() {
        let mut control = Coupled::new(40);
        control.handle_loss(Outstanding { una: 0, next: 40 });
        assert_eq!(control.cwnd(), 20);
        control.handle_loss(Outstanding { una: 10, next: 50 });
        assert_eq!(control.cwnd(), 20, "the same window");
        control.handle_timeout(Outstanding { una: 40, next: 60 });
        assert_eq!(control.cwnd(), 1);
    }
}
