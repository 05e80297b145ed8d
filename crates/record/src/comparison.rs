//! `summary.json` of `unrack compare`: what one program would suffer on each fabric.

use serde::{Deserialize, Serialize};

/// The whole result. Times are seconds, nanoseconds or microseconds as the field's ending says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub version: String,
    pub command: Vec<String>,
    pub seed: u64,
    /// As asked: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Peak anonymous memory of the program's processes together, in a native run.
    pub footprint_bytes: u64,
    pub native: Runs,
    pub injection: Injection,
    pub capture: Capture,
    pub fabrics: Vec<FabricResult>,
    pub requirements: Vec<Requirement>,
    /// What the reader should check before trusting the result.
    pub warnings: Vec<String>,
}

/// Wall times of repeated runs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    pub seconds: Vec<f64>,
    pub median_s: f64,
}

/// Runs at several injected latencies, and the straight line through them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    pub points: Vec<InjectionPoint>,
    pub fit: Fit,
    /// The pager's own cost per fetch: no smaller delay can be injected.
    pub floor_ns: f64,
    pub bandwidth_bps: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectionPoint {
    /// Whole delay of one fetch alone: latency plus transmission of the page.
    pub delay_ns: f64,
    pub runs: Runs,
    pub fetches: u64,
    pub write_backs: u64,
}

/// Run time = `intercept_s` + `waits` x delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    pub intercept_s: f64,
    /// Fetches on the critical path.
    pub waits: f64,
    pub waits_ci95: [f64; 2],
    pub r2: f64,
    /// Largest distance of a point from the line, over the line's value there.
    pub worst_residual: f64,
}

/// The captured run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    pub fetches: u64,
    pub write_backs: u64,
    pub threads: u64,
    pub run_s: f64,
}

/// One row of the table.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FabricResult {
    pub fabric: String,
    /// Of fetches; ideal is what no fabric can beat, the same for all.
    pub completion_over_ideal: Spread,
    /// Microseconds from a fetch's submission to its completion.
    pub fetch_us: Spread,
    /// Run time over native run time: 1.0 is no loss. By the injected runs' fit.
    pub slowdown: f64,
    pub slowdown_ci95: [f64; 2],
    /// The same by closed-loop replay of the captured trace: the independent road.
    pub slowdown_replay: Option<f64>,
    /// The simulation's `summary.json`, as it stands.
    pub simulation: serde_json::Value,
}

/// A distribution in brief.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    pub count: u64,
}

/// "For 5 % slowdown you need at most x us per fetch, or at least y % local."
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// Allowed loss: 0.05 is 5 %.
    pub loss: f64,
    /// Largest time per fetch that keeps it; `None`: no time is small enough, or any is.
    pub max_fetch_us: Option<f64>,
    /// Smallest local share that keeps it at `at_fetch_us`; `None` when not measured.
    pub min_local: Option<f64>,
    pub at_fetch_us: Option<f64>,
}
