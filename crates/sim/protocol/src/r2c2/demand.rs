//! Demand of a flow (§3.3.2, eq. 1): the rate that the flow could use. Its source estimates the demand from the flow's sending rate and
//! from the bytes that wait at the source.

use super::rates::UNLIMITED;
use unrack_units::{Bytes, Time};

/// Demand of one flow, as its sender sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Demand {
    /// Weight of a new observation in the moving average of the demand.
    gain: f64,
    kbps: Option<f64>,
    /// Demand that the source announced to other nodes last, or [`UNLIMITED`] if it has announced none.
    told_kbps: u32,
}

impl Demand {
    /// Creates the demand estimate of a new flow. `gain`, above 0 and at most 1, is the weight of a new observation in the moving average.
    pub fn new(gain: f64) -> Demand {
        Demand { gain, kbps: None, told_kbps: UNLIMITED }
    }

    /// Updates the demand after a period in which the flow sent `sent` bytes; `waiting` bytes were left to send at the end of the period.
    /// Returns the demand that the source should announce, if any. That is a demand below the flow's allocated rate that differs from the
    /// last announcement, or [`UNLIMITED`] if the announced demand no longer limits the flow.
    ///
    /// Departure: in the paper, r is the rate allocated to the flow, so that the estimated demand could never be below the allocation. Here
    /// r is the rate at which the flow actually sent, which equals the allocation whenever bytes wait.
    pub fn observe(
        &mut self,
        sent: Bytes,
        waiting: Bytes,
        period: Time,
        allocation_kbps: u32,
    ) -> Option<u32> {
        // Eq. 1: d[i + 1] = r[i] + q[i] / T.
        let kbps = (sent.get() + waiting.get()) as f64 * 8e9 / period.as_ps() as f64;
        let smoothed = self.kbps.map_or(kbps, |before| before + self.gain * (kbps - before));
        self.kbps = Some(smoothed);
        let demand = smoothed.min(f64::from(UNLIMITED - 1)) as u32;
        let is_below = demand < allocation_kbps - allocation_kbps / TOLERANCE;
        // A flow that was limited to its announced demand and has bytes waiting wants more.
        let is_above = self.told_kbps < UNLIMITED && demand > self.told_kbps + self.told_kbps / TOLERANCE;
        let tell = if is_below {
            demand
        } else if is_above && waiting > Bytes::ZERO {
            UNLIMITED
        } else {
            return None;
        };
        let is_new = tell.abs_diff(self.told_kbps) > self.told_kbps / TOLERANCE;
        is_new.then(|| {
            self.told_kbps = tell;
            tell
        })
    }
}

/// Reciprocal of the relative change of a demand that is worth a broadcast: smaller changes than a sixteenth are not announced.
const TOLERANCE: u32 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD: Time = Time::from_us(500);

    /// Returns the bytes that a flow sends in one period at the allocated rate `kbps`, if its program supplies 1 Gb/s.
    fn sent(kbps: u32) -> Bytes {
        Bytes::new(u64::from(kbps.min(1_000_000)) * 500 / 8_000)
    }

    #[test]
    fn who_cannot_use_its_rate_says_so_once() {
        let mut demand = Demand::new(0.5);
        let told = demand.observe(sent(4_000_000), Bytes::ZERO, PERIOD, 4_000_000);
        assert_eq!(told, Some(1_000_000));
        for _ in 0..10 {
            assert_eq!(demand.observe(sent(1_000_000), Bytes::ZERO, PERIOD, 1_000_000), None);
        }
        // The host supplies more than the flow's allocation, so the flow is no longer limited by its host.
        let mut told = None;
        for _ in 0..10 {
            told = told.or(demand.observe(sent(1_000_000), Bytes::new(60_000), PERIOD, 1_000_000));
        }
        assert_eq!(told, Some(UNLIMITED));
    }

    #[test]
    fn who_uses_its_rate_says_nothing() {
        let mut demand = Demand::new(0.1);
        for waiting in [0, 1_000_000, 3_000] {
            assert_eq!(demand.observe(sent(900_000), Bytes::new(waiting), PERIOD, 900_000), None);
        }
    }
}
