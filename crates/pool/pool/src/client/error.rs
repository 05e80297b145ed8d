//! Reasons why requests to the pool fail.

use crate::wire::{Denied, MOST_PASSED};
use std::path::PathBuf;
use std::time::Duration;

/// Reason why a request to the pool failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("no manager serves the pool at {}: start one with `unrack pool serve --socket {}`", .0.display(), .0.display())]
    NoManager(PathBuf),
    #[error("cannot connect to the pool at {}: {error}", path.display())]
    Connect { path: PathBuf, error: std::io::Error },
    #[error("the socket at {} does not speak the pool's protocol: name the socket of a pool", .0.display())]
    NotAPool(PathBuf),
    #[error(transparent)]
    Denied(#[from] Denied),
    #[error("the manager of the pool is gone, and no other has taken over")]
    ManagerGone,
    #[error("this program serves {0:?} already: use another name")]
    Registered(String),
    #[error("cannot start a manager of the pool, `{program} pool serve`: {error}")]
    Start { program: String, error: std::io::Error },
    #[error("cannot send to the manager of the pool: {0}")]
    Send(std::io::Error),
    #[error("no answer within {0:?}")]
    TimedOut(Duration),
    #[error("the manager of the pool at {} does not answer within {after:?}: it is stopped, or has no processor", path.display())]
    Silent { path: PathBuf, after: Duration },
    #[error(transparent)]
    Untrusted(#[from] crate::socket::Untrusted),
    #[error(
        "this connection was made before a fork, by the parent process: a child by fork must connect for itself"
    )]
    Forked,
    #[error("cannot map the pool's memory: {0}")]
    Map(std::io::Error),
    #[error("at most {MOST_PASSED} descriptors can be passed beside a greeting")]
    Descriptors,
}
