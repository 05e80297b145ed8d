//! Runs of one program: what is asked of each, and what came of it.

use serde::{Deserialize, Serialize};
use unrack_record::Runs;
use unrack_units::Bytes;

/// One run of a measurement.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Task {
    /// A native run, counted from 1.
    Native { nth: u32 },
    /// A run with this local memory and delay of each fetch (0: none); runs with the same values count from 1.
    Remote { local_bytes: u64, delay_ns: f64, nth: u32 },
}

/// Results of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Done {
    pub wall_s: f64,
    /// Footprint, of a native run only.
    pub footprint_bytes: u64,
    /// Counts of a run with remote memory.
    pub fetches: u64,
    pub write_backs: u64,
    pub threads: u64,
    /// Time in seconds of the pager on faults that a memory blade would not cause, of all threads.
    pub overhead_s: f64,
    /// Time in seconds that fetches took longer than their delay, of all threads.
    pub late_s: f64,
    /// True if more than its local memory was local.
    pub not_away: bool,
    /// Part of its time that other work may have added; 0 if it was not disturbed.
    #[serde(default)]
    pub lost: f64,
}

/// Cost of a fetch by the pager itself, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct PagerCost {
    /// Time of a fetch as the program sees it, with no delay injected.
    pub floor_ns: f64,
    /// Part of it that is missing in the pager's own account.
    pub unseen_ns: f64,
}

/// Results of earlier runs that a run needs.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub(crate) struct Known {
    pub cost: PagerCost,
    pub footprint: Bytes,
    /// Native run time; `None` if other work disturbed all native runs.
    pub native_s: Option<f64>,
    /// Local memory of the run without delay that writes `trace.parquet`.
    pub captured_local: Option<Bytes>,
}

/// Key of what is withheld because other work disturbed too many runs.
pub(crate) const DISTURBED: &str = "disturbed";
/// Size of a page.
pub(crate) const PAGE: Bytes = Bytes::new(unrack_basis::PAGE as u64);

/// Returns runs of these times, which must not be empty.
pub(crate) fn with_median(seconds: Vec<f64>) -> Runs {
    let median_s = unrack_paging::fit::median(&mut seconds.clone());
    Runs { seconds, median_s }
}
