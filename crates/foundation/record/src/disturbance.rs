//! Disturbance of measurements by other work on the machine.

use serde::{Deserialize, Serialize};

use crate::Warning;

/// Other work on the machine, and the runs that it disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Number of cores that the runs may use.
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

/// Amount of other work during some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherWork {
    /// Number of cores that other processes kept busy, on average.
    pub others_cores: f64,
    /// Number of cores that the hypervisor gave to other virtual machines, on average.
    pub steal_cores: f64,
    /// Fraction of the time in which at least one task waited for a core (pressure stall information), 0 to 1; `None` if the kernel does
    /// not count it.
    pub waiting: Option<f64>,
    /// Number of other tasks that ran or waited to run: the smaller of the values before and after.
    pub queue: u32,
}

/// A run that other work disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisturbedRun {
    /// Name of the run, as shown while it ran.
    pub run: String,
    pub wall_s: f64,
    pub why: Warning,
    /// True if an undisturbed run replaced this one.
    pub repeated: bool,
}
