//! Parameters of MPTCP.

use crate::tcp::{ConnectionLifetime, Timeouts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Rule by which the congestion window of a subflow grows, depending on the other subflows of its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coupling {
    /// Linked increases algorithm (RFC 6356).
    #[default]
    Lia,
    /// Opportunistic linked increases algorithm (Khalili et al., CoNEXT 2012;
    /// draft-khalili-mptcp-congestion-control-05).
    Olia,
    /// No coupling: each subflow runs Reno as if it were a separate TCP connection. Linux does the same.
    Uncoupled,
}

/// Rule by which the sender chooses the subflow for new data, among the subflows that may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The subflow with the shortest smoothed round-trip time.
    #[default]
    MinRtt,
    /// The subflows in turn (round robin).
    RoundRobin,
}

/// Parameters of MPTCP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Coupling of the congestion windows of a connection's subflows. Default `lia`.
    pub coupling: Coupling,
    /// Choice of the subflow for new data. Default `min-rtt`.
    pub scheduler: Scheduler,
    /// Number of subflows of a connection between racks. Default: the number of NICs of a host (DRack §4.3: one subflow
    /// for each vNIC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subflows: Option<u32>,
    /// Number of segments that a new subflow may send before the first acknowledgement. Default 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// Minimum retransmission timeout. Default 200 us, the same as in the protocol `tcp`.
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
            coupling: Coupling::default(),
            scheduler: Scheduler::default(),
            subflows: None,
            initial_window: 10,
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
}
