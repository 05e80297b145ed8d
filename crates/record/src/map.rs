//! `map.json` of `unrack map`: one program's slowdown over latency, bandwidth and local share.

use serde::{Deserialize, Serialize};

use crate::{Disturbance, Fit, InjectionPoint, Machine, Warning};

/// Slowdown at every latency and bandwidth asked for, for every local share asked for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowdownMap {
    pub version: String,
    pub command: Vec<String>,
    /// Median wall time of the native runs that nothing else disturbed; `None` if they are too few.
    pub native_s: Option<f64>,
    /// Peak anonymous memory of the program's processes together, in a native run.
    pub footprint_bytes: u64,
    /// The pager's own cost per fetch: no smaller delay can be injected. `None` if its measurement was disturbed.
    pub floor_ns: Option<f64>,
    /// What one fetch waits beside the transmission of its page.
    pub latencies_ns: Vec<f64>,
    pub bandwidths_bps: Vec<u64>,
    pub locals: Vec<MapLocal>,
    /// What else the machine did, and which runs were therefore repeated.
    pub disturbance: Disturbance,
    /// What the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
    /// Absent in results of earlier versions.
    pub machine: Option<Machine>,
}

/// One panel of the map: a local share, what was measured there, and what follows from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapLocal {
    /// As asked: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Of a run with no delay injected.
    pub fetches: u64,
    /// Delays with at least one undisturbed run.
    pub points: Vec<InjectionPoint>,
    /// `None` if too few runs were undisturbed.
    pub fit: Option<Fit>,
    /// Reason why nothing is said of this share, if nothing is.
    pub withheld: Option<Warning>,
    /// Run time over native run time: `slowdown[latency][bandwidth]`, in the order of the lists above; `None` if
    /// withheld.
    pub slowdown: Option<Vec<Vec<f64>>>,
    /// Its 95 % intervals.
    pub slowdown_ci95: Option<Vec<Vec<[f64; 2]>>>,
}
