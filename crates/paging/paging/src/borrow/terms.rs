//! Parameters and result of borrowing a process's memory.

use super::RunningProgram;
use crate::calibrate::Calibration;
use crate::delay::FetchDelay;
use crate::local::LocalMemory;
use crate::measure::Tally;
use crate::program_end::ProgramEnd;
use std::time::Duration;
use unrack_record::Warning;
use unrack_units::Bytes;

/// Key of the warning that processes which the program had started before the loan keep their memory.
pub const LEFT_OUT: &str = "left-out";

/// Parameters of borrowing a process's memory.
pub struct BorrowSetup<'a> {
    pub program: &'a RunningProgram,
    /// Whether to take memory also from the processes that the program has started before.
    pub with_children: bool,
    /// Local memory of the process and of the processes that it forks, in total.
    pub local: Bytes,
    /// Memory that the process has now.
    pub footprint: Bytes,
    pub delay: &'a FetchDelay,
    pub calibration: Calibration,
    /// Seed of the random draws, if the delay is drawn.
    pub seed: u64,
    /// Time after which all memory is given back; `None` if it is given back only on a signal.
    pub time: Option<Duration>,
}

/// Result of borrowing a process's memory.
#[derive(Debug, Clone)]
pub struct BorrowReport {
    /// How the program ended, if it ended and the status is known.
    pub status: Option<ProgramEnd>,
    /// Whether the program ended before its memory was given back.
    pub has_ended: bool,
    pub wall_s: f64,
    /// Time until local memory had shrunk to the requested size; `None` if it never did.
    pub taken_s: Option<f64>,
    pub tally: Tally,
    pub local: LocalMemory,
    /// Warnings that readers should see before they trust the figures.
    pub warnings: Vec<Warning>,
}
