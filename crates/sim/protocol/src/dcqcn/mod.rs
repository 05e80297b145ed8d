//! DCQCN: congestion control for RoCEv2 (Zhu et al., SIGCOMM 2015), over links that pause (priority flow
//! control, IEEE 802.1Q clause 36).
//!
//! A switch marks packets at random if they find a long queue ([`Params::marks`]). The receiver answers marks with
//! congestion notifications, at most one per interval. [`DcqcnRate`] is the sender's reaction (§3.1, fig. 7). After a
//! loss, the sender repeats all packets from the first missing one on ([`Sender`]; go-back-N, as in RoCE's transport).

mod rate;
mod reliable;

pub use rate::DcqcnRate;
pub use reliable::{Receiver, Reply, Sender};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Fraction, Time};

/// Parameters of DCQCN (§3.1 and fig. 14, the values of the deployment).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Queue length below which no packet is marked. Default 5 KB.
    pub k_min: Bytes,
    /// Queue length above which every packet is marked. Default 200 KB.
    pub k_max: Bytes,
    /// Probability of a mark at `k_max`. Default 1 %.
    pub p_max: Fraction,
    /// Least time between two notifications of one flow. Default 50 us.
    pub notification_interval: Time,
    /// Time without notification after which the estimate of congestion decays. Default 55 us.
    pub alpha_timer: Time,
    /// Time between two increases. Default 55 us.
    pub increase_timer: Time,
    /// Bytes between two increases. Default 10 MB.
    pub byte_counter: Bytes,
    /// Weight of a new sample in the estimate of congestion. Default 1/256.
    pub gain: Fraction,
    /// Number of increases that each recover half of the cut, before the target grows. Default 5.
    pub fast_recovery: u32,
    /// Whether a cut leaves the target rate unchanged if the increase timer has not expired since the last cut. NICs
    /// have a setting for this (`clamp_tgt_rate`), and the simulator of HPCC's authors has it on. Default `false`:
    /// every cut lowers the target to the rate before the cut (eq. 1).
    #[schemars(extend("x-unhashed" = "default"))]
    pub keep_target: bool,
    /// Growth of the target in one increase. Default 40 Mb/s.
    pub additive_increase: unrack_units::Rate,
    /// Growth of the target in one increase if no notification has come for a long time. Default 400 Mb/s, ten times
    /// `additive_increase`.
    pub hyper_increase: unrack_units::Rate,
    /// Silence after which all unacknowledged segments are sent again. Default: 500 us or, if that is longer, a round
    /// trip plus the time that a node's link takes for a full port's buffer from every node. That much data may wait
    /// for one receiver, and because links pause instead of dropping, a longer wait loses nothing.
    pub rto: Option<Time>,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            k_min: Bytes::new(5_000),
            k_max: Bytes::new(200_000),
            p_max: Fraction::new(0.01).expect("a fraction"),
            notification_interval: Time::from_us(50),
            alpha_timer: Time::from_us(55),
            increase_timer: Time::from_us(55),
            byte_counter: Bytes::new(10_000_000),
            gain: Fraction::new(1.0 / 256.0).expect("a fraction"),
            fast_recovery: 5,
            keep_target: false,
            additive_increase: unrack_units::Rate::from_bps(40_000_000),
            hyper_increase: unrack_units::Rate::from_bps(400_000_000),
            rto: None,
        }
    }
}

/// Lower bound of the default of [`Params::rto`].
pub const LEAST_RTO: Time = Time::from_us(500);

impl Params {
    /// Returns whether a packet that finds `queue` bytes is marked. `draw` is uniform in 0..1.
    pub fn marks(&self, queue: u64, draw: f64) -> bool {
        let (low, high) = (self.k_min.get(), self.k_max.get());
        if queue <= low {
            return false;
        }
        if queue > high {
            return true;
        }
        let share = (queue - low) as f64 / (high - low) as f64;
        draw < share * self.p_max.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_grow_with_the_queue() {
        let params = Params::default();
        assert!(!params.marks(5_000, 0.0) && params.marks(200_001, 0.999));
        assert!(params.marks(102_500, 0.0049) && !params.marks(102_500, 0.0051));
    }
}
