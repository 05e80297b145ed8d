//! The sending rate of one flow (DCQCN §3.1, "RP algorithm").

use super::Params;
use unrack_units::Time;

/// Sending rate of one flow. Its timers are applied when the rate is used, so that it needs no wakeup.
#[derive(Debug, Clone)]
pub struct DcqcnRate {
    /// R_C, the current rate. All rates here are in bits per second.
    current_rate: f64,
    /// R_T, the target rate, to which fast recovery returns.
    target_rate: f64,
    /// Rate of the link, at which a flow starts.
    line_rate: f64,
    /// Estimate of congestion (the paper's alpha), in 0..=1.
    alpha: f64,
    /// Timers. `None` if the flow is at line rate and has had no notification since, because then no timer runs.
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

    /// Returns how long after a packet of `bytes` on the wire the next packet may be sent.
    pub fn pace(&self, bytes: u32) -> Time {
        Time::from_ps((f64::from(bytes) * 8e12 / self.current_rate).round() as u64)
    }

    /// Cuts the rate because a notification has come. Eq. 1: R_T <- R_C, R_C <- R_C (1 - alpha / 2),
    /// alpha <- (1 - g) alpha + g. With [`Params::keep_target`], R_T stays if the increase timer has not expired since
    /// the last cut.
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

    /// Records that `bytes` were sent now.
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

    /// Applies the timers that were due until now.
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

    /// Raises both rates. After F rounds, the target also grows, by R_AI (eq. 4) or by R_HAI (hyper increase). In each
    /// round R_C <- (R_T + R_C) / 2 (eq. 3).
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
            // The flow is back in the state of a new one, except for its estimate of congestion.
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
        // Fast recovery: half of the cut is recovered each time.
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
