//! Stand-in for machines on which there is no agent.

use super::{BorrowReport, BorrowSetup};
use crate::PagingError;
use crate::footprint::Footprint;
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

/// Returns nothing: there is no such program.
pub fn borrow(setup: &BorrowSetup) -> Result<BorrowReport, PagingError> {
    match *setup.program {}
}
