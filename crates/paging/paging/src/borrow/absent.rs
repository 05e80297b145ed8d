//! Stand-in for machines on which the agent does not exist.

use super::{BorrowReport, BorrowSetup};
use crate::PagingError;
use crate::footprint::Footprint;
use unrack_units::Bytes;

/// A running process that was found fit to lend its memory. On this machine no value of this type can exist.
#[derive(Debug, Clone)]
pub enum RunningProgram {}

impl RunningProgram {
    /// Always returns an error, because memory can be taken from running processes on x86-64 only.
    pub fn find(_: u32) -> Result<RunningProgram, PagingError> {
        Err(PagingError::Lacking("memory can be taken from processes that run already on x86-64 only".into()))
    }

    /// Returns the memory of the process.
    pub fn footprint(&self, _: bool) -> Result<Footprint, PagingError> {
        match *self {}
    }

    /// Checks nothing.
    pub fn check_headroom(&self, _: Bytes, _: Bytes) -> Result<(), PagingError> {
        match *self {}
    }

    /// Returns the command of the process.
    pub fn words(&self) -> &[String] {
        match *self {}
    }

    /// Returns the name and the number of the process.
    pub fn title(&self) -> String {
        match *self {}
    }
}

/// Never called, because no [`RunningProgram`] exists on this machine.
pub fn borrow(setup: &BorrowSetup) -> Result<BorrowReport, PagingError> {
    match *setup.program {}
}
