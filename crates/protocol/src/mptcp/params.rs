//! What can be set about MPTCP.

use crate::tcp::{Connections, Timeouts};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// How the windows of subflows depend on each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Coupling {
    /// Linked increases (RFC 6356).
    #[default]
    Lia,
    /// Opportunistic linked increases (Khalili et al., CoNEXT 2012; draft-khalili-mptcp-congestion-control-05).
    Olia,
    /// Not at all: Reno each, as if they were connections of their own. So does Linux.
    Uncoupled,
}

/// Which subflow takes new data, of those that may send.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize, JsonSchema, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The one of the shortest round trip.
    #[default]
    MinRtt,
    /// Each in turn.
    RoundRobin,
}

/// Parameters of MPTCP.
#[derive(Debug, Clone, PartialEq, Deserialize, JsonSchema, Serialize)]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    pub coupling: Coupling,
    pub scheduler: Scheduler,
    /// Subflows of a connection between racks. Default: as many as a host has NICs (DRack §4.3: one for each vNIC).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subflows: Option<u32>,
    /// Segments that a new subflow may send at once. Default 10 (RFC 6928 §2).
    pub initial_window: u32,
    /// Smallest retransmission timeout. Default 200 us, as `tcp`'s.
    pub min_rto: Time,
    /// Largest retransmission timeout. Default 60 s (RFC 6298 §2.5).
    pub max_rto: Time,
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
            coupling: Coupling::default(),
            scheduler: Scheduler::default(),
            subflows: None,
            initial_window: 10,
            min_rto: Time::from_us(200),
            max_rto: Time::from_us(60_000_000),
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
