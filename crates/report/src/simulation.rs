//! `summary.json` of `unrack sim`, as far as a report shows it.

use std::collections::BTreeMap;

use serde::Deserialize;
use unrack_record::Spread;

/// What every simulation says of itself. Fields it may lack are shown when present.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct Simulation {
    pub fabric: String,
    pub nodes: u64,
    pub messages: u64,
    pub completed: u64,
    #[serde(default)]
    pub dropped: u64,
    /// Completion time over ideal.
    pub slowdown: Spread,
    pub completion_ns: Spread,
    #[serde(default)]
    pub by_kind: BTreeMap<String, serde_json::Value>,
    pub throughput_gbps: Option<f64>,
    pub sim_time_ns: Option<f64>,
    pub wall_s: Option<f64>,
    pub packet_hops_per_s: Option<f64>,
    pub seed: Option<u64>,
    pub version: Option<String>,
}

impl Simulation {
    /// Kinds of messages with their slowdowns, where the summary has them.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = (&str, Spread)> {
        let spread =
            |value: &serde_json::Value| Spread::deserialize(value.get("slowdown").unwrap_or(value)).ok();
        self.by_kind.iter().filter_map(move |(kind, value)| Some((kind.as_str(), spread(value)?)))
    }
}
