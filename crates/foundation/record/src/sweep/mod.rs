//! Result of `unrack sweep`, `sweep.json` and `sweep.parquet`: one row for each point of a grid of scenarios.

mod axis;
mod columns;

use serde::{Deserialize, Serialize};
use unrack_units::Warning;

/// A grid of scenarios with its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sweep {
    pub version: String,
    /// Scenario keys whose values differ between points.
    pub keys: Vec<String>,
    /// Points in grid order: the last key varies faster than the other keys, and the seed fastest of all.
    pub points: Vec<SweepPoint>,
}

/// One scenario of the grid, with its results.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SweepPoint {
    /// Values of [`Sweep::keys`] as given, in the same order.
    pub values: Vec<String>,
    /// Hash of the scenario and of the files that it names. Empty in sweeps of versions that had no such hash.
    #[serde(default)]
    pub scenario_hash: String,
    #[serde(flatten)]
    pub figures: Figures,
    /// Settings that never acted at this point. Empty if all did, in sweeps of versions without notes, and in tables.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<Warning>,
}

/// Figures of one simulation. They depend only on the scenario and the build.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Figures {
    pub fabric: String,
    pub seed: u64,
    pub nodes: u64,
    pub messages: u64,
    pub completed: u64,
    pub dropped_packets: u64,
    /// Packets that were trimmed to their header. Missing in sweeps of versions that counted them as dropped.
    #[serde(default)]
    pub trimmed_packets: u64,
    /// Completion time divided by that of the same message alone on the same fabric; `None` if no message was counted.
    pub slowdown_mean: Option<f64>,
    pub slowdown_p50: Option<f64>,
    pub slowdown_p99: Option<f64>,
    pub slowdown_p999: Option<f64>,
    pub slowdown_max: Option<f64>,
    pub completion_mean_ns: Option<f64>,
    pub completion_p99_ns: Option<f64>,
    /// Payload of all messages divided by the time from the first submission to the last completion.
    pub throughput_gbps: f64,
    /// Bytes that data packets found waiting ahead of them at switch ports.
    pub queue_mean_bytes: f64,
    pub queue_p99_bytes: u64,
    pub queue_max_bytes: u64,
    pub sim_time_ns: f64,
    pub events: u64,
    pub packet_hops: u64,
}
