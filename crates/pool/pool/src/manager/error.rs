//! Reasons why a manager cannot start.

use crate::{PAGE, SECTION};
use std::path::PathBuf;
use unrack_units::{Bytes, Share};

/// Returns a valid size of queue areas to suggest instead of an invalid one.
fn queue_meant(size: Bytes) -> Bytes {
    size.in_whole(Bytes::new(PAGE)).min(Bytes::new(SECTION))
}

/// Reason why a manager cannot start.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen at {}: {error}", path.display())]
    Listen { path: PathBuf, error: std::io::Error },
    #[error("{} is served by another manager: use it, or give another --socket", .0.display())]
    Served(PathBuf),
    #[error("a capacity of {0} is not a whole number of 2 MiB sections; did you mean `{meant}`?", meant = .0.in_whole(Bytes::new(SECTION)))]
    Capacity(Bytes),
    #[error("queue areas of {0} are not whole pages of 4 KiB, at most 2 MiB; did you mean `{meant}`?", meant = queue_meant(*.0))]
    QueueBytes(Bytes),
    #[error("a region of 0 sections is too small: give at least 1")]
    Region,
    #[error(
        "--per-client {0} is too little: give at least 4MiB, for a section to lease and one with queue areas"
    )]
    PerClient(Share),
    #[error(
        "a pool of {backing} must be for one user: {why}, which kills any process that touches it next; give \
         `--backing memfd`, or `--permissions 600`"
    )]
    OneUser { backing: String, why: &'static str },
    #[error("--backing {}: {why}", path.display())]
    Folder { path: PathBuf, why: String },
    #[error("--capacity {capacity} is more than {free}, the free part of {of}: give less")]
    NoRoom { capacity: Bytes, free: Bytes, of: &'static str },
    #[error("cannot keep the ledger {}: {error}", path.display())]
    Ledger { path: PathBuf, error: std::io::Error },
    #[error("programs still use the pool of {}, which has another capacity, kind of memory or size of queue areas: \
    give the same options, or stop the programs first", .0.display())]
    OtherPool(PathBuf),
    #[error("cannot use {}: {error}", path.display())]
    Device { path: PathBuf, error: std::io::Error },
    #[error("the devices cannot be used: {0}")]
    Devices(String),
    #[error("{} cannot be used: {why}", path.display())]
    Unusable { path: PathBuf, why: crate::hosts::Unusable },
    #[error(transparent)]
    Host(#[from] crate::hosts::CannotJoin),
    #[error(
        "this host was declared ended (`unrack pool fence`): its programs were ended, since others may have their memory"
    )]
    Fenced,
    #[error("this machine cannot serve the pool: {0}")]
    Lacking(String),
    #[error("cannot serve the pool: {0}")]
    System(#[from] std::io::Error),
}
