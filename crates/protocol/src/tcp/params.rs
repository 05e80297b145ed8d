//! What can be set about TCP.

use super::Timeouts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Which loss-based congestion control.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// RFC 9438, Linux's default.
    #[default]
    Cubic,
    /// RFC 5681 and RFC 6582.
    NewReno,
}

/// How long connections last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Connections {
    /// Each message has a new one.
    #[default]
    Fresh,
    /// A message takes the one between its ends that was last in use; a new one, if all are in use.
    Kept,
}

/// Parameters of TCP without congestion marks.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    pub congestion: Congestion,
    /// Segments that a new stream may send at once. Default 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// Smallest retransmission timeout. Default 200 us: fine-grained timers (Vasudevan et al., SIGCOMM
    /// 2009), as in the evaluation of pFabric (SIGCOMM 2013).
    pub min_rto: Time,
    /// Largest retransmission timeout. Default 60 s (RFC 6298 §2.5).
    pub max_rto: Time,
    /// Each packet of a stream takes the next of equal ways (Dixit et al., INFOCOM 2013) instead of all the same.
    /// Default: all the same, as their hash says (ECMP, RFC 2992).
    pub spraying: bool,
    /// Whether messages share connections, with what these have learned. Default: each has its own.
    #[schemars(extend("x-unhashed" = "default"))]
    pub connections: Connections,
    /// A lost tail is probed for after two round trips, before the timer runs out (RFC 8985 §7), as Linux does. Default:
    /// it waits for the timer.
    #[schemars(extend("x-unhashed" = "default"))]
    pub tail_loss_probe: bool,
}

impl Default for Params {
    fn default() -> Params {
        Params {
            congestion: Congestion::default(),
            initial_window: 10,
            min_rto: Time::from_us(200),
            max_rto: Time::from_us(60_000_000),
            spraying: false,
            connections: Connections::Fresh,
            tail_loss_probe: false,
        }
    }
}

impl Params {
    /// Retransmission timeouts in a network of this unloaded round-trip time.
    pub fn timeouts(&self, rtt: Time) -> Timeouts {
        Timeouts::known(rtt, self.min_rto, self.max_rto).with_probes(self.tail_loss_probe)
    }
}
