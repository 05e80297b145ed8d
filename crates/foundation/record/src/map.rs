//! Result of `unrack map`, `map.json`: the slowdown of one program over latency, bandwidth and local share.

use serde::{Deserialize, Serialize};

use crate::{Disturbance, Fit, InjectionPoint, Machine, Warning};

/// Slowdown at every requested latency and bandwidth, for every requested local share.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlowdownMap {
    pub version: String,
    pub command: Vec<String>,
    /// Median wall-clock time of the undisturbed native runs; `None` if there are too few.
    pub native_s: Option<f64>,
    /// Peak anonymous memory of all processes of the program together, in a native run.
    pub footprint_bytes: u64,
    /// The pager's own cost per fetch. No smaller delay can be injected. `None` if the measurement of the cost was disturbed.
    pub floor_ns: Option<f64>,
    /// Latencies: the time for which one fetch waits, without the transmission of its page.
    pub latencies_ns: Vec<f64>,
    pub bandwidths_bps: Vec<u64>,
    pub locals: Vec<MapLocal>,
    /// Other work on the machine, and the runs that were repeated because of it.
    pub disturbance: Disturbance,
    /// Warnings that the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
    /// Build and machine; absent in results of earlier versions.
    pub machine: Option<Machine>,
}

/// Panel of the map: one local share, its measurements, and the resulting slowdowns.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct MapLocal {
    /// Share of local memory as given: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Number of fetches in a run without injected delay.
    pub fetches: u64,
    /// Delays with at least one undisturbed run.
    pub points: Vec<InjectionPoint>,
    /// Line through the points; `None` if too few runs were undisturbed.
    pub fit: Option<Fit>,
    /// Reason why no slowdown is given for this share, if none is.
    pub withheld: Option<Warning>,
    /// Reason why the numbers of this share are rough: other work disturbed the runs, but they are used nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rough: Option<Warning>,
    /// Run time divided by native run time: `slowdown[latency][bandwidth]`, in the order of `latencies_ns` and `bandwidths_bps`; `None` if
    /// withheld.
    pub slowdown: Option<Vec<Vec<f64>>>,
    /// 95 % intervals of `slowdown`.
    pub slowdown_ci95: Option<Vec<Vec<[f64; 2]>>>,
}
