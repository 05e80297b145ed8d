//! Failures and bit errors of a run, as a scenario describes them.

mod outage;

pub use outage::Outage;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unrack_units::Time;

/// Faults of a run; none by default.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Faults {
    pub failures: Vec<ScheduledFailure>,
    pub bit_errors: BitErrors,
}

impl Faults {
    /// Returns whether the run has no faults.
    pub fn is_empty(&self) -> bool {
        self.failures.is_empty() && self.bit_errors == BitErrors::default()
    }
}

/// Failure of a link or switch for a while: one entry of `[[failures]]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduledFailure {
    /// Node whose link fails. On a `drack`, the number of the NIC whose link fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<u32>,
    /// Switch whose links all fail. On a star, it is switch 0. In a leaf-spine network, leaves are numbered first, then
    /// spines; in a fat tree, edge and aggregation switches (each by pod), then core switches; on a `drack`, the CXL
    /// switches of racks, then aggregation, then core switches. In a torus, mesh or graph, each node counts as a
    /// switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub switch: Option<u32>,
    /// The two switches between which the link fails.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub between: Option<(u32, u32)>,
    /// Time at which it goes down.
    pub from: Time,
    /// Time at which it comes back up. Default: it stays down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Period with which the failure repeats, from the start of one outage to the start of the next. Default: it fails
    /// once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub every: Option<Time>,
    /// Time after each failure or recovery until packets are rerouted. Default: packets are never rerouted, because the
    /// time that real networks need to detect a failure ranges from microseconds to seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detected_after: Option<Time>,
}

/// Probability of a bit error on a link.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct BitErrors {
    /// Probability of an error per bit on links of nodes. Default 0. For comparison: Ethernet at 100 Gb/s must stay
    /// below 1e-12 (IEEE 802.3 §80).
    pub link: f64,
    /// Probability of an error per bit on links between switches. Default 0.
    pub core_link: f64,
}
