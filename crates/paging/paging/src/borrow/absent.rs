//! Stand-in for machines on which there is no agent.

use crate::PagingError;
use crate::calibrate::Calibration;
use crate::delay::Delay;
use crate::footprint::Footprint;
use crate::job::ProgramEnd;
use crate::local::LocalMemory;
use crate::measure::Tally;
use std::time::Duration;
use unrack_record::Warning;
use unrack_units::Bytes;

/// A process found fit to lend its memory, of which there is none.
#[derive(Debug, Clone)]
pub enum RunningProgram {}

impl RunningProgram {
    /// Returns an error.
    pub fn find(_: u32) -> Result<RunningProgram, PagingError> {
        Err(PagingError::Lacking("memory can be taken from processes that run already on x86-64 only".into()))
    }

    /// Returns its memory.
    pub fn footprint(&self, _: bool) -> Result<Footprint, PagingError> {
        match *self {}
    }

    /// Checks nothing.
    pub fn check_headroom(&self, _: Bytes, _: Bytes) -> Result<(), PagingError> {
        match *self {}
    }

    /// Returns its command.
    pub fn words(&self) -> &[String] {
        match *self {}
    }

    /// Returns its name and number.
    pub fn title(&self) -> String {
        match *self {}
    }
}

/// Parameters of a loan.
pub struct BorrowSetup<'a> {
    pub program: &'a RunningProgram,
    pub with_children: bool,
    pub local: Bytes,
    pub footprint: Bytes,
    pub delay: &'a Delay,
    pub calibration: Calibration,
    pub seed: u64,
    pub time: Option<Duration>,
}

/// Result of a loan.
#[derive(Debug, Clone)]
pub struct BorrowReport {
    pub status: Option<ProgramEnd>,
    pub has_ended: bool,
    pub wall_s: f64,
    pub taken_s: Option<f64>,
    pub tally: Tally,
    pub local: LocalMemory,
    pub warnings: Vec<Warning>,
}

/// Key of a warning that never comes.
pub const LEFT_OUT: &str = "left-out";

/// Returns nothing: there is no such program.
pub fn borrow(setup: &BorrowSetup) -> Result<BorrowReport, PagingError> {
    match *setup.program {}
}
