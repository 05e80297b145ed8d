//! What else a machine did while a program was measured on it.

use serde::{Deserialize, Serialize};

use crate::Warning;

/// How busy the machine was with other work, and what became of the runs that this disturbed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Disturbance {
    /// Cores that the runs may use.
    pub cores: u32,
    /// The machine before the first run.
    pub before: OtherWork,
    /// Runs of the program, disturbed ones among them.
    pub runs: u32,
    pub disturbed: Vec<DisturbedRun>,
}

/// Work of others over some time.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct OtherWork {
    /// Cores that other processes kept busy, on average.
    pub others_cores: f64,
    /// Cores that the hypervisor gave to other machines, on average.
    pub steal_cores: f64,
    /// Part of the time in which some task waited for a core (pressure stall information), 0 to 1; `None` where the
    /// kernel does not count it.
    pub waiting: Option<f64>,
    /// Other tasks that were running or waiting to, the fewer of before and after.
    pub queue: u32,
}

/// A run whose time was thrown away.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct DisturbedRun {
    /// As shown while it ran.
    pub run: String,
    pub wall_s: f64,
    pub why: Warning,
    /// True if an undisturbed run took its place.
    pub repeated: bool,
}
