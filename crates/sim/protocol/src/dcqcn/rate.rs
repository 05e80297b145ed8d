//! Sending rate of one DCQCN flow (DCQCN §3.1, "RP algorithm").

use super::Params;
use unrack_units::Time;

/// Sending rate of one flow, adapted to congestion notifications. Expired timers take effect when the rate is next
/// used, for example to send a packet, so that the driver needs no wakeups for them.
#[derive(Debug, Clone)]
pub struct DcqcnRate {
    /// R_C, the current rate. All rates in this struct are in bits per second.
    current_rate: f64,
    /// R_T, the target rate, which the current rate approaches during fast recovery.
    target_rate: f64,
    /// Rate of the sender's link, at which a flow starts. It is the upper bound of the other two rates.
    line_rate: f64,
    /// Estimate of congestion (the paper's alpha), in 0..=1. A cut reduces the current rate by the share alpha / 2.
    alpha: f64,
    /// Timers and counters since the last cut. `None` if the flow sends at line rate and has received no notification
    /// since it reached that rate, because no timer runs in that state.
    clocks: Option<Clocks>,
}

#[derive(Debug, Clone)]
struct Clocks {
    alpha_due: Time,
    increase_due: Time,
    /// Bytes left until the next increase of the byte counter.
    bytes_left: u64,
    /// T, the number of times that the increase timer has expired since the last cut.
    by_time: u32,
    /// BC, the number of times that the byte counter has run out since the last cut.
    by_bytes: u32,
}

impl DcqcnRate {
    /// Creates the rate of a flow, which starts at line rate (§3.1).
    pub fn new(line: unrack_units::Rate) -> DcqcnRate {
        let line_rate = line.as_bps() as f64;
        DcqcnRate { current_rate: line_rate, target_rate: line_rate, line_rate, alpha: 1.0, clocks: None }
    }

    /// Returns the current rate in bits per second.
    pub fn bps(&self) -> f64 {
        self.current_rate
    }

    /// Returns the time between the start of a packet with `bytes` on the wire and the start of the next packet, at the
    /// current rate.
    pub fn pace(&self, bytes: u32) -> Time {
        Time::from_ps((f64::from(bytes) * 8e12 / self.current_rate).round() as u64)
    }

    /// Cuts the rate because a congestion notification has arrived. Eq. 1: R_T <- R_C, R_C <- R_C (1 - alpha / 2),
    /// alpha <- (1 - g) alpha + g. With [`Params::keep_target`], R_T does not change if the increase timer has not
    /// expired since the previous cut.
    pub fn handle_notification(&mut self, params: &Params, now: Time) {
        self.advance(params, now);
        let has_increased = self.clocks.as_ref().is_none_or(|clocks| clocks.by_time > 0);
        if has_increased || !params.keep_target {
            self.target_rate = self.current_rate;
        }
        let least = params.additive_increase.as_bps() as f64;
        self.current_rate = (self.current_rate * (1.0 - self.alpha / 2.0)).max(least);
        let g = params.gain.get();
        self.alpha = (1.0 - g) * self.alpha + g;
        self.clocks = Some(Clocks {
            alpha_due: now + params.alpha_timer,
            increase_due: now + params.increase_timer,
            bytes_left: params.byte_counter.get(),
            by_time: 0,
            by_bytes: 0,
        });
    }

    /// Records that the sender has sent a packet of `bytes` now. This increases the rate if the byte counter runs out.
    pub fn handle_sent(&mut self, params: &Params, now: Time, bytes: u32) {
        self.advance(params, now);
        let Some(clocks) = &mut self.clocks else { return };
        match clocks.bytes_left.checked_sub(u64::from(bytes)) {
            Some(left) if left > 0 => clocks.bytes_left = left,
            _ => {
                clocks.bytes_left = params.byte_counter.get();
                clocks.by_bytes += 1;
                self.increase(params);
            }
        }
    }

    /// Applies the effects of all timers that have expired until now: alpha decays, and the rate increases.
    pub fn advance(&mut self, params: &Params, now: Time) {
        while let Some(clocks) = &mut self.clocks
            && clocks.alpha_due.min(clocks.increase_due) <= now
        {
            if clocks.alpha_due <= clocks.increase_due {
                // Eq. 2: alpha <- (1 - g) alpha.
                clocks.alpha_due += params.alpha_timer;
                self.alpha *= 1.0 - params.gain.get();
            } else {
                clocks.increase_due += params.increase_timer;
                clocks.by_time += 1;
                self.increase(params);
            }
        }
    }

    /// Performs one increase of the rate. First, the target rate R_T grows if the increase timer or the byte counter
    /// has expired more than F times ([`Params::fast_recovery`]) since the last cut. R_T grows by R_AI (eq. 4) if only
    /// one of the two has expired more than F times, and otherwise by a multiple of R_HAI (hyper increase). Then R_C <-
    /// (R_T + R_C) / 2 (eq. 3).
    fn increase(&mut self, params: &Params) {
        let Some(Clocks { by_time, by_bytes, .. }) = self.clocks else { return };
        let (most, least) = (by_time.max(by_bytes), by_time.min(by_bytes));
        if least > params.fast_recovery {
            let steps = f64::from(least - params.fast_recovery);
            self.target_rate += steps * params.hyper_increase.as_bps() as f64;
        } else if most > params.fast_recovery {
            self.target_rate += params.additive_increase.as_bps() as f64;
        }
        self.target_rate = self.target_rate.min(self.line_rate);
        self.current_rate = f64::midpoint(self.target_rate, self.current_rate);
        if self.current_rate > 0.999_999 * self.line_rate {
            // The flow sends at line rate again, in the same state as a new flow except for its estimate of congestion.
            self.current_rate = self.line_rate;
            self.clocks = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> unrack_units::Rate {
        unrack_units::Rate::from_gbps(40)
    }

    #[test]
    fn a_notification_halves_it_and_time_brings_it_back() {
        let params = Params::default();
        let mut rate = DcqcnRate::new(line());
        assert_eq!(rate.pace(1000), Time::from_ns(200));
        rate.handle_notification(&params, Time::from_us(100));
        assert_eq!(rate.bps(), 20e9);
        // Fast recovery: each increase recovers half of the remaining cut.
        rate.advance(&params, Time::from_us(100 + 55));
        assert_eq!(rate.bps(), 30e9);
        rate.advance(&params, Time::from_us(100 + 3 * 55));
        assert_eq!(rate.bps(), 37.5e9);
        rate.advance(&params, Time::from_us(10_000));
        assert_eq!(rate.bps(), 40e9);
        assert!(rate.clocks.is_none() && rate.alpha < 1.0);
    }

    #[test]
    fn after_fast_recovery_the_target_grows() {
        let params = Params::default();
        let mut rate = DcqcnRate::new(line());
        for _ in 0..3 {
            rate.handle_notification(&params, Time::ZERO);
        }
        let (target, current) = (rate.target_rate, rate.current_rate);
        rate.advance(&params, Time::from_us(55 * 5));
        assert_eq!(rate.target_rate, target);
        assert!((rate.current_rate - (target - (target - current) / 32.0)).abs() < 1.0);
        rate.advance(&params, Time::from_us(55 * 6));
        assert_eq!(rate.target_rate, target + 40e6);
    }

    #[test]
    fn a_target_that_is_kept_is_that_before_the_first_of_several_cuts() {
        let params = Params { keep_target: true, ..Params::default() };
        let mut rate = DcqcnRate::new(line());
        for us in [0, 50, 100] {
            rate.handle_notification(&params, Time::from_us(us));
        }
        assert_eq!(rate.target_rate, 40e9);
        rate.advance(&params, Time::from_us(100 + 55));
        let regained = rate.bps();
        assert!(regained > 20e9, "halfway to the target");
        rate.handle_notification(&params, Time::from_us(160));
        assert_eq!(rate.target_rate, regained);
    }

    #[test]
    fn bytes_count_as_time_does() {
        let params = Params { byte_counter: unrack_units::Bytes::new(3000), ..Params::default() };
        let mut rate = DcqcnRate::new(line());
        rate.handle_notification(&params, Time::ZERO);
        (0..3).for_each(|_| rate.handle_sent(&params, Time::from_us(1), 1000));
        assert_eq!(rate.bps(), 30e9);
    }
}
