//! Parameters and results of each run of a program.

use serde::{Deserialize, Serialize};
use unrack_record::Runs;
use unrack_units::Bytes;

/// One run of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum MeasurementTask {
    /// A native run. `nth` counts from 1.
    Native { nth: u32 },
    /// A run with this local memory and this delay of each fetch, 0 for no delay. `nth` counts the runs with equal values from 1.
    Remote { local_bytes: u64, delay_ns: f64, nth: u32 },
}

/// Results of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct TaskResult {
    pub wall_s: f64,
    /// Footprint; set by native runs only.
    pub footprint_bytes: u64,
    /// Counts of page transfers and threads in a run with remote memory.
    pub fetches: u64,
    pub write_backs: u64,
    pub threads: u64,
    /// Time that the pager spends on faults that a memory blade would not cause, in seconds, summed over all threads.
    pub overhead_s: f64,
    /// Time by which fetches took longer than their delay, in seconds, summed over all threads.
    pub late_s: f64,
    /// True if the program had more memory local than was allowed.
    pub not_away: bool,
    /// Part of the run's time that other work may have added; 0 if the run was not disturbed.
    #[serde(default)]
    pub lost: f64,
}

/// Cost of a fetch by the pager itself, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PagerCost {
    /// Time of a fetch as the program measures it, without an injected delay.
    pub floor_ns: f64,
    /// Part of `floor_ns` that is missing in the times that the pager measures itself.
    pub unseen_ns: f64,
}

/// Results of earlier runs that a later run depends on.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct KnownResults {
    pub cost: PagerCost,
    pub footprint: Bytes,
    /// Native run time; `None` if other work disturbed all native runs.
    pub native_s: Option<f64>,
    /// Local memory of the run without delay that writes `trace.parquet`.
    pub captured_local: Option<Bytes>,
}

/// Key of the warning that a result is withheld because other work disturbed too many runs.
pub(crate) const DISTURBED: &str = "disturbed";
/// Size of a page.
pub(crate) const PAGE: Bytes = Bytes::new(unrack_basis::PAGE as u64);

/// Returns runs with these times. `seconds` must not be empty.
pub(crate) fn with_median(seconds: Vec<f64>) -> Runs {
    let median_s = unrack_paging::fit::median(&mut seconds.clone());
    Runs { seconds, median_s }
}
