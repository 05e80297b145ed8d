//! Parameters of TCP.

use super::Timeouts;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Loss-based congestion controls.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Congestion {
    /// CUBIC: RFC 9438, Linux's default.
    #[default]
    Cubic,
    /// NewReno: RFC 5681 and RFC 6582.
    NewReno,
}

/// Lifetime of connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum ConnectionLifetime {
    /// A new connection for each message.
    #[default]
    Fresh,
    /// Each message uses the most recently used idle connection between its two nodes, or a new connection if none is idle.
    Kept,
}

/// Parameters of TCP without congestion marks.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Congestion control. Default CUBIC.
    pub congestion: Congestion,
    /// Initial window: number of segments that a new connection may send at once. Default 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// Minimum retransmission timeout. Default 200 us: fine-grained timers (Vasudevan et al., SIGCOMM 2009), as in the evaluation of
    /// pFabric (SIGCOMM 2013).
    pub min_rto: Time,
    /// Maximum retransmission timeout. Default 60 s (RFC 6298 §2.5).
    pub max_rto: Time,
    /// Whether successive packets of a stream take the paths of equal cost in turn (Dixit et al., INFOCOM 2013). Default: all packets of a
    /// stream take the same path, which a hash selects (ECMP, RFC 2992).
    pub spraying: bool,
    /// Whether a message reuses the connection of an earlier message, with its congestion window and round-trip estimate. Default: each
    /// message opens a new connection.
    #[schemars(extend("x-unhashed" = "default"))]
    pub connections: ConnectionLifetime,
    /// Whether a sender without a new acknowledgement sends a tail loss probe after two round trips, before the retransmission timer
    /// expires (RFC 8985 §7), as Linux does. Default: no probes, so that the loss of the last segments of a stream is noticed only when the
    /// timer expires.
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
            connections: ConnectionLifetime::Fresh,
            tail_loss_probe: false,
        }
    }
}

impl Params {
    /// Returns the bounds and the initial value of the retransmission timeout for a network whose unloaded round-trip time is `rtt`.
    pub fn timeouts(&self, rtt: Time) -> Timeouts {
        Timeouts::known(rtt, self.min_rto, self.max_rto).with_probes(self.tail_loss_probe)
    }
}
