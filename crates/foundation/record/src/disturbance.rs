//! Disturbance of measurements by other work of the machine.

use serde::{Deserialize, Serialize};

use crate::Warning;

/// Other work of the machine, and the runs that it disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Cores that the runs may use.
    pub cores: u32,
    /// Other work before the first run.
    pub before: OtherWork,
    /// Time for which the command waited for other work to end, in seconds.
    #[serde(default)]
    pub waited_s: f64,
    /// Number of runs of the program, including disturbed ones.
    pub runs: u32,
    pub disturbed: Vec<DisturbedRun>,
}

/// Other work over some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherWork {
    /// Cores that other processes kept busy, on average.
    pub others_cores: f64,
    /// Cores that the hypervisor gave to other machines, on average.
    pub steal_cores: f64,
    /// Part of the time in which some task waited for a core (pressure stall information), 0 to 1; `None` where the
    /// kernel does not count it.
    pub waiting: Option<f64>,
    /// Number of other tasks that were running or waiting to, the smaller of before and after.
    pub queue: u32,
}

/// Run that other work disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisturbedRun {
    /// Name of the run, as shown while it ran.
    pub run: String,
    pub wall_s: f64,
    pub why: Warning,
    /// True if an undisturbed run took its place.
    pub repeated: bool,
}
