//! DCQCN: congestion control for RoCEv2 (Zhu et al., SIGCOMM 2015). A switch pauses the links that lead to it instead
//! of dropping packets (priority flow control, IEEE 802.1Q clause 36).
//!
//! A switch marks an arriving packet with a probability that grows with the length of the queue ([`Params::marks`]).
//! The receiver answers marked packets of a flow with congestion notifications to the sender, at most one per interval.
//! The sender adapts the rate of the flow to these notifications ([`DcqcnRate`]; §3.1, fig. 7). After a loss, the
//! sender sends all packets again from the first missing one on ([`Sender`]; go-back-N, as in RoCE's transport).

mod rate;
mod reliable;

pub use rate::DcqcnRate;
pub use reliable::{Receiver, Reply, Sender};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Fraction, Time};

/// Parameters of DCQCN. The defaults are the values of the paper's deployment (§3.1 and fig. 14).
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Maximum queue length at which a switch marks no packet. Default 5 KB.
    pub k_min: Bytes,
    /// Queue length above which a switch marks every packet. Default 200 KB.
    pub k_max: Bytes,
    /// Probability that a switch marks a packet that finds a queue of `k_max`. Default 1 %.
    pub p_max: Fraction,
    /// Minimum time between two congestion notifications that a receiver sends for one flow. Default 50 us.
    pub notification_interval: Time,
    /// Time without a congestion notification after which the sender lowers its estimate of congestion (the paper's
    /// alpha). Default 55 us.
    pub alpha_timer: Time,
    /// Time between two increases of a sender's rate by its timer. Default 55 us.
    pub increase_timer: Time,
    /// Number of sent bytes between two increases of a sender's rate by its byte counter. Default 10 MB.
    pub byte_counter: Bytes,
    /// Weight of a new sample in the sender's estimate of congestion (the paper's g). Default 1/256.
    pub gain: Fraction,
    /// Number of increases that follow a cut of the rate before the target rate grows. Increases by the timer and by the byte counter are
    /// counted separately. Until then, each increase halves the distance from the current rate to the target rate. Default 5.
    pub fast_recovery: u32,
    /// Whether a cut of the sending rate leaves the target rate unchanged if the increase timer has not expired since
    /// the previous cut. NICs have a setting for this (`clamp_tgt_rate`), and the simulator of the authors of HPCC
    /// turns it on. Default `false`: every cut sets the target rate to the sending rate before the cut (eq. 1).
    #[schemars(extend("x-unhashed" = "default"))]
    pub keep_target: bool,
    /// Growth of the target rate in one increase after fast recovery. Default 40 Mb/s.
    pub additive_increase: unrack_units::Rate,
    /// Growth of the target rate in the first increase after the timer and the byte counter have both expired more than
    /// `fast_recovery` times since the last congestion notification. Later increases add a larger multiple of this
    /// rate. Default 400 Mb/s, ten times `additive_increase`.
    pub hyper_increase: unrack_units::Rate,
    /// Time without a reply from the receiver after which the sender sends all unacknowledged segments again. Default:
    /// the longer of two times. One is 500 us. The other is a round trip plus the time in which a node's link sends as
    /// many full port buffers as there are nodes. This much data may wait in the network for one receiver. A timeout of
    /// this length does no harm, because links pause instead of dropping packets.
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

/// Lower bound of the default retransmission timeout: see [`Params::rto`].
pub const LEAST_RTO: Time = Time::from_us(500);

impl Params {
    /// Returns whether a switch marks a packet that finds `queue` bytes in its queue. `draw` is a random number,
    /// uniform in 0..1.
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
