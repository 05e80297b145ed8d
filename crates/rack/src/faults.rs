//! What fails, and when: written before the run.

mod outage;

pub use outage::Outage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Faults of a run; none unless the scenario says so.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    pub failures: Vec<Failure>,
    pub bit_errors: BitErrors,
}

impl Faults {
    pub fn is_empty(&self) -> bool {
        self.failures.is_empty() && self.bit_errors == BitErrors::default()
    }
}

/// A link or switch that is down for a while: one of `[[failures]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Failure {
    /// The link of this node. On a `drack`, that of the NIC of this number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Every link of this switch. On a star, switch 0; in a leaf-spine network, leaves come first, then
    /// spines; in a fat tree edge, aggregation (both by pod), core. On a `drack`, the CXL switches of racks,
    /// aggregation, core. In a torus, mesh or graph, each node is a switch of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<u32>,
    /// The link between these switches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<(u32, u32)>,
    /// Time at which it goes down.
    pub from: Time,
    /// Time at which it is back. Default: it stays down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Time from when it goes down until it does so again, and so on. Default: it goes down once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Time>,
    /// Time after it went down, or came back, when packets take other ways, or this one again. Default: they never
    /// do, since how fast networks learn of it differs from microseconds to seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_after: Option<Time>,
}

/// Probability that a bit is flipped on its way over a link.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BitErrors {
    /// Of the links of nodes. Default 0. (Ethernet at 100 Gb/s is to stay below 1e-12: IEEE 802.3 §80.)
    pub link: f64,
    /// Of the links between switches. Default 0.
    pub core_link: f64,
}
