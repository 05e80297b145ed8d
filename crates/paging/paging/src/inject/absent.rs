//! Stand-in for machines on which there is no agent.

use crate::PagingError;
use crate::trace::{Next, Stop, StopHandler};
use std::path::Path;

fn lacking<T>() -> Result<T, PagingError> {
    Err(PagingError::Lacking("programs into which nothing can be preloaded need x86-64".into()))
}

/// Handler of stops of which there is none.
pub(crate) enum Injector {}

impl Injector {
    /// Returns an error.
    pub(crate) fn new(_: &Path) -> Result<Injector, PagingError> {
        lacking()
    }

    /// Returns an error.
    pub(crate) fn attach(_: &Path, _: u32) -> Result<(), PagingError> {
        lacking()
    }
}

impl StopHandler for Injector {
    fn stopped(&mut self, _: u32, _: Stop) -> Next {
        match *self {}
    }
}

/// Door of which there is none.
pub(crate) enum Reception {}

impl Reception {
    /// Returns an error.
    pub(crate) fn open(_: &Path) -> Result<Reception, PagingError> {
        lacking()
    }
}
