//! Result of `unrack compare`, `summary.json`: the slowdown of one program on each fabric.

use serde::{Deserialize, Serialize};

use crate::{Disturbance, Machine, Warning};

/// Whole result. Times are in seconds, nanoseconds or microseconds, as the end of the field's name says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub version: String,
    pub command: Vec<String>,
    pub seed: u64,
    /// Local share as given: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Peak anonymous memory of the program's processes together, in a native run.
    pub footprint_bytes: u64,
    /// Native runs without disturbance, or all if the result is rough; `None` if they are too few.
    pub native: Option<Runs>,
    pub injection: Injection,
    /// Captured run; `None` if there was no time for it.
    pub capture: Option<Capture>,
    pub fabrics: Vec<FabricResult>,
    pub requirements: Vec<Requirement>,
    /// Other work of the machine, and the runs that were therefore repeated.
    pub disturbance: Disturbance,
    /// Reason why numbers that depend on this machine are rough: other work disturbed the runs, which are used all the same.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rough: Option<Warning>,
    /// Points that the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
    /// Build and machine; absent in results of earlier versions.
    pub machine: Option<Machine>,
}

/// Wall times of repeated runs without disturbance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    pub seconds: Vec<f64>,
    pub median_s: f64,
}

/// Runs at several injected latencies, and the straight line through them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    /// Delays with at least one undisturbed run.
    pub points: Vec<InjectionPoint>,
    /// Line through the points; `None` if too few runs were undisturbed.
    pub fit: Option<Fit>,
    /// Reason why nothing is concluded from the runs, if nothing is.
    pub withheld: Option<Warning>,
    /// The pager's own cost per fetch: no smaller delay can be injected. `None` if its measurement was disturbed.
    pub floor_ns: Option<f64>,
    pub bandwidth_bps: u64,
    /// Time that the bits of a page alone take at that rate, over no distance: no fetch is faster.
    pub page_us: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectionPoint {
    /// Whole delay of one fetch alone: latency plus transmission of the page.
    pub delay_ns: f64,
    pub runs: Runs,
    pub fetches: u64,
    pub write_backs: u64,
}

/// Fitted line: run time = `intercept_s` + `waits` x delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    pub intercept_s: f64,
    /// Fetches on the critical path.
    pub waits: f64,
    pub waits_ci95: [f64; 2],
    /// Waits in each second of native run time: slowdown = 1 + `waits_per_s` x delay in seconds.
    pub waits_per_s: f64,
    /// Interval of `waits_per_s` that also includes the scatter of the native runs.
    pub waits_per_s_ci95: [f64; 2],
    /// Part of the variance of run times that the line explains, 0 to 1.
    pub r2: f64,
    /// Largest distance of a point from the line, over the line's value there.
    pub worst_residual: f64,
}

/// Captured run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Capture {
    pub fetches: u64,
    pub write_backs: u64,
    pub threads: u64,
    pub run_s: f64,
}

/// Row of the table. Numbers that would rest on disturbed or too uncertain runs are `None`: see `withheld`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FabricResult {
    pub fabric: String,
    /// Completion time of fetches over their ideal; the ideal is what no fabric can beat, the same for all.
    pub completion_over_ideal: Option<DistributionSummary>,
    /// Microseconds from a fetch's submission to its completion.
    pub fetch_us: Option<DistributionSummary>,
    /// Run time over native run time, by the fit of the injected runs: 1.0 is no loss.
    pub slowdown: Option<f64>,
    pub slowdown_ci95: Option<[f64; 2]>,
    /// Run time over native run time, by closed-loop replay of the captured trace: an independent method.
    pub slowdown_replay: Option<f64>,
    /// Reason why numbers above are missing.
    pub withheld: Option<Warning>,
    /// Simulation's `summary.json`, unchanged; null if it was not run.
    pub simulation: serde_json::Value,
}

/// Summary of a distribution.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct DistributionSummary {
    pub mean: f64,
    pub p50: f64,
    pub p95: f64,
    pub p99: f64,
    pub p999: f64,
    pub max: f64,
    pub count: u64,
}

/// Requirement: "For 5 % slowdown you need at most x us per fetch, or at least y % local."
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// Allowed loss: 0.05 is 5 %.
    pub loss: f64,
    /// Largest time per fetch that keeps it, in microseconds.
    pub max_fetch_us: Stated,
    /// Smallest local share that keeps it at `at_fetch_us`, 0 to 1; `None` if the share asked for does.
    pub min_local: Option<Stated>,
    pub at_fetch_us: Option<f64>,
    /// True if a link of the rate asked for can bring a page within `max_fetch_us`: its bits alone, over no distance,
    /// take no longer. `None` if that cannot be told.
    pub feasible: Option<bool>,
    /// Smallest rate at which it would be feasible, if it is not. `None` beyond any known link.
    pub feasible_rate_bps: Option<u64>,
}

/// Number with its 95 % interval, or the reason why none is given.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StatedFields", into = "StatedFields")]
pub enum Stated {
    Known(Interval),
    Withheld { withheld: Warning },
}

/// Fields of a [`Stated`] in JSON: the first three, or the last.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct StatedFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    low: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    high: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    withheld: Option<Warning>,
}

impl TryFrom<StatedFields> for Stated {
    type Error = &'static str;

    fn try_from(fields: StatedFields) -> Result<Stated, &'static str> {
        let StatedFields { value, low, high, withheld } = fields;
        match (low, withheld) {
            (Some(low), _) => Ok(Stated::Known(Interval { value, low, high })),
            (None, Some(withheld)) => Ok(Stated::Withheld { withheld }),
            (None, None) => Err("a number has either `low` or `withheld` with a reason"),
        }
    }
}

impl From<Stated> for StatedFields {
    fn from(stated: Stated) -> StatedFields {
        match stated {
            Stated::Known(Interval { value, low, high }) => {
                StatedFields { value, low: Some(low), high, withheld: None }
            }
            Stated::Withheld { withheld } => {
                StatedFields { withheld: Some(withheld), ..StatedFields::default() }
            }
        }
    }
}

impl Stated {
    /// Withholds a number, with the reason.
    pub fn withheld(why: Warning) -> Stated {
        Stated::Withheld { withheld: why }
    }

    /// Returns the number with its interval, if it is given.
    pub fn known(&self) -> Option<&Interval> {
        match self {
            Stated::Known(interval) => Some(interval),
            Stated::Withheld { .. } => None,
        }
    }

    /// Returns the reason, if no number is given.
    pub fn reason(&self) -> Option<&Warning> {
        match self {
            Stated::Known(_) => None,
            Stated::Withheld { withheld } => Some(withheld),
        }
    }
}

/// Estimate with its 95 % interval. Without `value` and `high`, only `low` is known: the quantity may be at least that
/// large.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub value: Option<f64>,
    pub low: f64,
    pub high: Option<f64>,
}
