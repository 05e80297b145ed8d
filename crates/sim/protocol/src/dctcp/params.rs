//! Parameters of DCTCP.

use crate::tcp::{ConnectionLifetime, Timeouts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::{Bytes, Fraction, Rate, Time};

/// Parameters of DCTCP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Number of segments that a new stream may send before the first acknowledgement. Default 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// Weight g of a new observation in alpha, the estimated share of marked segments. Default 1/16 (DCTCP §3.4; RFC
    /// 8257 §4.2).
    pub gain: Fraction,
    /// Initial alpha, the estimated share of marked segments, of a new stream. Default 1, so that the first mark halves
    /// the window (RFC 8257 §4.2 calls this the conservative choice; Linux makes it too).
    pub initial_alpha: Fraction,
    /// Marking threshold K: a switch marks a packet that finds more bytes than this in its queue. Default: the
    /// smallest number of full packets above C x RTT / 7 in this network (DCTCP §3.4 eq. 13).
    pub mark_threshold: Option<Bytes>,
    /// Minimum retransmission timeout. Default 200 us: fine-grained timers (Vasudevan et al., SIGCOMM 2009), as in the
    /// evaluation of pFabric (SIGCOMM 2013).
    pub min_rto: Time,
    /// Maximum retransmission timeout. Default 60 s (RFC 6298 §2.5).
    pub max_rto: Time,
    /// Whether a message reuses an idle connection between its nodes, with the state that the connection has learned,
    /// such as its congestion window. Default: each message opens a new connection.
    #[schemars(extend("x-unhashed" = "default"))]
    pub connections: ConnectionLifetime,
    /// Whether the sender sends a probe if no acknowledgement has arrived for two round trips (RFC 8985 §7, as in
    /// Linux). The probe detects the loss of the last segments before the retransmission timer expires. Default: no
    /// probe, so that the loss of the last segments is detected by the retransmission timer.
    #[schemars(extend("x-unhashed" = "default"))]
    pub tail_loss_probe: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            initial_window: 10,
            gain: Fraction::new(1.0 / 16.0).expect("1/16 is a fraction"),
            initial_alpha: Fraction::new(1.0).expect("1 is a fraction"),
            mark_threshold: None,
            min_rto: Time::from_us(200),
            max_rto: Time::from_us(60_000_000),
            connections: ConnectionLifetime::Fresh,
            tail_loss_probe: false,
        }
    }
}

impl Params {
    /// Returns the retransmission timeouts for a network in which `rtt` is the unloaded round-trip time.
    pub fn timeouts(&self, rtt: Time) -> Timeouts {
        Timeouts::known(rtt, self.min_rto, self.max_rto).with_probes(self.tail_loss_probe)
    }

    /// Returns the marking threshold K: `mark_threshold` if it is set, otherwise that of [`marking_guideline`].
    pub fn threshold(&self, rate: Rate, rtt: Time, full_packet: Bytes) -> Bytes {
        self.mark_threshold.unwrap_or_else(|| marking_guideline(rate, rtt, full_packet))
    }
}

/// Returns the marking threshold K of DCTCP §3.4 eq. 13. K is the smallest whole number of full packets, in bytes, that
/// is more than C x RTT / 7, where C is the rate of the link.
///
/// At 10 Gbps and a round-trip time of 100 us, K is 12 packets, as in the paper. (The paper nevertheless uses 65
/// packets, in order to absorb the bursts of 30 to 40 packets that segmentation offload produces on its hosts.)
pub fn marking_guideline(rate: Rate, rtt: Time, full_packet: Bytes) -> Bytes {
    let bits = u128::from(rate.as_bps()) * u128::from(rtt.as_ps()) / 1_000_000_000_000;
    let packets = bits as u64 / (7 * 8 * full_packet.get()) + 1;
    Bytes::new(packets * full_packet.get())
}
