//! Parameters and result of a loan.

use super::RunningProgram;
use crate::calibrate::Calibration;
use crate::delay::Delay;
use crate::local::LocalMemory;
use crate::measure::Tally;
use crate::program_end::ProgramEnd;
use std::time::Duration;
use unrack_record::Warning;
use unrack_units::Bytes;

/// Key of the warning that processes keep their memory which the program had started before.
pub const LEFT_OUT: &str = "left-out";

/// Parameters of a loan.
pub struct BorrowSetup<'a> {
    pub program: &'a RunningProgram,
    /// Processes that it has started before are taken, too.
    pub with_children: bool,
    /// Local memory of the process and of those that it forks, together.
    pub local: Bytes,
    /// Memory that it has now.
    pub footprint: Bytes,
    pub delay: &'a Delay,
    pub calibration: Calibration,
    /// Seed of the draws, if the delay is drawn.
    pub seed: u64,
    /// Time after which all is given back; `None`: when a signal asks for it.
    pub time: Option<Duration>,
}

/// Result of a loan.
#[derive(Debug, Clone)]
pub struct BorrowReport {
    /// End of the program, if it came and can be known.
    pub status: Option<ProgramEnd>,
    /// The program ended before its memory was given back.
    pub has_ended: bool,
    pub wall_s: f64,
    /// Time until so little was local as was asked for; `None`: it never was.
    pub taken_s: Option<f64>,
    pub tally: Tally,
    pub local: LocalMemory,
    /// Facts that readers should know before trusting the figures.
    pub warnings: Vec<Warning>,
}
