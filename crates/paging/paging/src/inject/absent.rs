//! Stand-in for machines on which the agent does not exist.

use crate::PagingError;
use crate::trace::{Next, Stop, StopHandler};
use std::path::Path;

fn lacking<T>() -> Result<T, PagingError> {
    Err(PagingError::Lacking("programs into which nothing can be preloaded need x86-64".into()))
}

/// Handler of stops. On this machine no value of this type can exist.
pub(crate) enum Injector {}

impl Injector {
    /// Always returns an error, because the agent needs x86-64.
    pub(crate) fn new(_: &Path) -> Result<Injector, PagingError> {
        lacking()
    }

    /// Always returns an error, because the agent needs x86-64.
    pub(crate) fn attach(_: &Path, _: u32) -> Result<(), PagingError> {
        lacking()
    }
}

impl StopHandler for Injector {
    fn stopped(&mut self, _: u32, _: Stop) -> Next {
        match *self {}
    }
}

/// Socket at which processes ask to be traced. On this machine no value of this type can exist.
pub(crate) enum Reception {}

impl Reception {
    /// Always returns an error, because the agent needs x86-64.
    pub(crate) fn open(_: &Path) -> Result<Reception, PagingError> {
        lacking()
    }
}
