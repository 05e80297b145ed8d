//! Parameters of MPTCP.

use crate::tcp::{ConnectionLifetime, Timeouts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Coupling of the subflows' congestion windows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coupling {
    /// Linked increases (RFC 6356).
    #[default]
    Lia,
    /// Opportunistic linked increases (Khalili et al., CoNEXT 2012; draft-khalili-mptcp-congestion-control-05).
    Olia,
    /// Uncoupled: each subflow runs Reno as if it were a separate connection. Linux does the same.
    Uncoupled,
}

/// Choice of the subflow that takes new data, among those that may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The subflow with the shortest round trip first.
    #[default]
    MinRtt,
    /// The subflows in turn.
    RoundRobin,
}

/// Parameters of MPTCP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// Coupling of the subflows' windows. Default `lia`.
    pub coupling: Coupling,
    /// Scheduler of new data. Default `min-rtt`.
    pub scheduler: Scheduler,
    /// Subflows of a connection between racks. Default: the number of NICs of a host (DRack §4.3: one subflow for each
    /// vNIC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subflows: Option<u32>,
    /// Segments that a new subflow may send at once. Default 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// Smallest retransmission timeout. Default 200 us, as `tcp`'s.
    pub min_rto: Time,
    /// Largest retransmission timeout. Default 60 s (RFC 6298 §2.5).
    pub max_rto: Time,
    /// Whether messages share connections, and with them the learned state of a connection. Default: each message
    /// opens a connection.
    #[schemars(extend("x-unhashed" = "default"))]
    pub connections: ConnectionLifetime,
    /// Whether a lost tail is probed for after two round trips, before the retransmission timer expires (RFC 8985 §7),
    /// as Linux does. Default: a lost tail waits for the timer.
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
    /// Returns the retransmission timeouts for a network with this unloaded round-trip time.
    pub fn timeouts(&self, rtt: Time) -> Timeouts {
        Timeouts::known(rtt, self.min_rto, self.max_rto).with_probes(self.tail_loss_probe)
    }
}
