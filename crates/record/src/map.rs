//! `map.json` of `unrack map`: one program's slowdown over latency, bandwidth and local share.

use serde::{Deserialize, Serialize};

use crate::{Fit, InjectionPoint};

/// Slowdown at every latency and bandwidth asked for, for every local share asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowdownMap {
    pub version: String,
    pub command: Vec<String>,
    /// Median wall time of the native runs.
    pub native_s: f64,
    /// Peak anonymous memory of the program's processes together, in a native run.
    pub footprint_bytes: u64,
    /// The pager's own cost per fetch: no smaller delay can be injected.
    pub floor_ns: f64,
    /// What one fetch waits beside the transmission of its page.
    pub latencies_ns: Vec<f64>,
    pub bandwidths_bps: Vec<u64>,
    pub locals: Vec<MapLocal>,
    /// What the reader should check before trusting the result.
    pub warnings: Vec<String>,
}

/// One panel of the map: a local share, what was measured there, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapLocal {
    /// As asked: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Of a run with no delay injected.
    pub fetches: u64,
    pub points: Vec<InjectionPoint>,
    pub fit: Fit,
    /// Run time over native run time: `slowdown[latency][bandwidth]`, in the order of the lists above.
    pub slowdown: Vec<Vec<f64>>,
}
