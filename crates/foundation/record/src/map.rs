//! Result of `unrack map`, `map.json`: one program's slowdown over latency, bandwidth and local share.

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
    /// Latencies: the time that one fetch waits besides the transmission of its page.
    pub latencies_ns: Vec<f64>,
    pub bandwidths_bps: Vec<u64>,
    pub locals: Vec<MapLocal>,
    /// Other work of the machine, and the runs that were therefore repeated.
    pub disturbance: Disturbance,
    /// Points that the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
    /// Build and machine; absent in results of earlier versions.
    pub machine: Option<Machine>,
}

/// Panel of the map: a local share, its measurements, and the resulting slowdowns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapLocal {
    /// Local share as given: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Number of fetches of a run with no delay injected.
    pub fetches: u64,
    /// Delays with at least one undisturbed run.
    pub points: Vec<InjectionPoint>,
    /// Line through the points; `None` if too few runs were undisturbed.
    pub fit: Option<Fit>,
    /// Reason why no slowdown is given for this share, if so.
    pub withheld: Option<Warning>,
    /// Reason why the numbers of this share are rough: other work disturbed the runs, which are used all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rough: Option<Warning>,
    /// Run time over native run time: `slowdown[latency][bandwidth]`, in the order of the lists above; `None` if
    /// withheld.
    pub slowdown: Option<Vec<Vec<f64>>>,
    /// 95 % intervals of `slowdown`.
    pub slowdown_ci95: Option<Vec<Vec<[f64; 2]>>>,
}
