//! Result of `unrack compare`, `summary.json`: the slowdown of one program on each fabric.

use serde::{Deserialize, Serialize};

use crate::{Disturbance, Machine, Warning};

/// The whole result. The end of a field's name gives the unit of a time: seconds, nanoseconds or microseconds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    pub version: String,
    pub command: Vec<String>,
    pub seed: u64,
    /// Share of local memory as given: `25%` or `64MiB`.
    pub local: String,
    pub local_bytes: u64,
    /// Peak anonymous memory of all processes of the program together, in a native run.
    pub footprint_bytes: u64,
    /// Native runs without disturbance, or all native runs if the result is rough; `None` if there are too few.
    pub native: Option<Runs>,
    pub injection: Injection,
    /// The captured run; `None` if there was no time for one.
    pub capture: Option<CapturedRun>,
    pub fabrics: Vec<FabricResult>,
    pub requirements: Vec<Requirement>,
    /// Other work on the machine, and the runs that were repeated because of it.
    pub disturbance: Disturbance,
    /// Reason why the numbers that depend on this machine are rough: other work disturbed the runs, but they are used nevertheless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rough: Option<Warning>,
    /// Warnings that the reader should check before trusting the result.
    pub warnings: Vec<Warning>,
    /// Build and machine; absent in results of earlier versions.
    pub machine: Option<Machine>,
}

/// Wall-clock times of repeated runs without disturbance.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Runs {
    pub seconds: Vec<f64>,
    pub median_s: f64,
}

/// Runs at several injected latencies, and the straight line fitted to them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Injection {
    /// Delays with at least one undisturbed run.
    pub points: Vec<InjectionPoint>,
    /// Line through the points; `None` if too few runs were undisturbed.
    pub fit: Option<Fit>,
    /// Reason why no conclusion is drawn from the runs, if none is.
    pub withheld: Option<Warning>,
    /// The pager's own cost per fetch. No smaller delay can be injected. `None` if the measurement of the cost was disturbed.
    pub floor_ns: Option<f64>,
    pub bandwidth_bps: u64,
    /// Transmission time of a page at that rate, in microseconds. No fetch is faster, even over zero distance.
    pub page_us: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct InjectionPoint {
    /// Total delay of a single fetch: latency plus transmission of the page.
    pub delay_ns: f64,
    pub runs: Runs,
    pub fetches: u64,
    pub write_backs: u64,
}

/// Fitted line: run time = `intercept_s` + `waits` x delay.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    pub intercept_s: f64,
    /// Number of fetches on the critical path.
    pub waits: f64,
    pub waits_ci95: [f64; 2],
    /// Waits per second of native run time: slowdown = 1 + `waits_per_s` x delay in seconds.
    pub waits_per_s: f64,
    /// Interval of `waits_per_s`, which also includes the scatter of the native runs.
    pub waits_per_s_ci95: [f64; 2],
    /// Fraction of the variance of run times that the line explains, 0 to 1.
    pub r2: f64,
    /// Largest distance of a point from the line, divided by the line's value there.
    pub worst_residual: f64,
}

/// Counts and times of the captured run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct CapturedRun {
    pub fetches: u64,
    pub write_backs: u64,
    pub threads: u64,
    pub run_s: f64,
}

/// Row of the table of fabrics. Numbers that would depend on disturbed or too uncertain runs are `None`: see `withheld`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FabricResult {
    pub fabric: String,
    /// Completion time of fetches divided by their ideal time. No fabric can be faster than the ideal, which is the same for all fabrics.
    pub completion_over_ideal: Option<DistributionSummary>,
    /// Microseconds from the submission of a fetch to its completion.
    pub fetch_us: Option<DistributionSummary>,
    /// Run time divided by native run time, computed from the fit of the injected runs; 1.0 means no loss.
    pub slowdown: Option<f64>,
    pub slowdown_ci95: Option<[f64; 2]>,
    /// Run time divided by native run time, by closed-loop replay of the captured trace, which is an independent method.
    pub slowdown_replay: Option<f64>,
    /// Reason why numbers above are missing.
    pub withheld: Option<Warning>,
    /// The simulation's `summary.json`, unchanged; null if no simulation was run.
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

/// Requirement of the form: "For 5 % slowdown you need at most x us per fetch, or at least y % local."
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Requirement {
    /// Allowed loss: 0.05 means 5 %.
    pub loss: f64,
    /// Longest time per fetch that keeps the loss, in microseconds.
    pub max_fetch_us: Stated,
    /// Smallest local share that keeps the loss at `at_fetch_us`, 0 to 1; `None` if the requested share keeps it.
    pub min_local: Option<Stated>,
    pub at_fetch_us: Option<f64>,
    /// True if a link of the requested rate can transmit a page within `max_fetch_us`, over zero distance. `None` if that cannot be
    /// decided.
    pub feasible: Option<bool>,
    /// Smallest rate at which the requirement would be feasible, if it is not. `None` if no known link is fast enough.
    pub feasible_rate_bps: Option<u64>,
}

/// A number with its 95 % interval, or the reason why the number is withheld.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(try_from = "StatedFields", into = "StatedFields")]
pub enum Stated {
    Known(Interval),
    Withheld { withheld: Warning },
}

/// JSON fields of a [`Stated`]: either the first three, or the last.
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
    /// Makes a withheld number, with the reason.
    pub fn withheld(why: Warning) -> Stated {
        Stated::Withheld { withheld: why }
    }

    /// Returns the number with its interval, if it is not withheld.
    pub fn known(&self) -> Option<&Interval> {
        match self {
            Stated::Known(interval) => Some(interval),
            Stated::Withheld { .. } => None,
        }
    }

    /// Returns the reason, if the number is withheld.
    pub fn reason(&self) -> Option<&Warning> {
        match self {
            Stated::Known(_) => None,
            Stated::Withheld { withheld } => Some(withheld),
        }
    }
}

/// Estimate with its 95 % interval. Without `value` and `high`, only the lower bound `low` is known.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    pub value: Option<f64>,
    pub low: f64,
    pub high: Option<f64>,
}
