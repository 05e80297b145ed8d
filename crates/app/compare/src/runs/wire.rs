//! Messages between a process that asks a question and the command that makes its runs. Each message is one JSON value on one line.

use super::maker::{Made, MeasuredCost, RunOrder};
use crate::error::Error;
use crate::load::HostLoad;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::time::{Duration, Instant};

/// Request to the command.
#[derive(Serialize, Deserialize)]
pub(super) enum Request {
    /// Prepares the program; each word of its command line is sent as bytes. This request comes first, and exactly once.
    Prepare {
        version: String,
        command: Vec<Vec<u8>>,
    },
    Look,
    MeasureCost {
        left_s: Option<f64>,
    },
    Make {
        order: RunOrder,
        left_s: Option<f64>,
    },
}

/// Answer to one request.
#[derive(Serialize, Deserialize)]
pub(super) enum Reply {
    Prepared(PreparedProgram),
    Load(HostLoad),
    Cost(Option<MeasuredCost>),
    Made(Option<Made>),
    Failed(Error),
}

/// Description of the program, as the command found it.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PreparedProgram {
    pub words: Vec<String>,
    pub identity: Option<String>,
    pub is_repeatable: bool,
}

impl Request {
    /// Returns the request that prepares a command.
    pub(super) fn prepare(command: &[OsString]) -> Request {
        let command = command.iter().map(|word| word.as_bytes().to_vec()).collect();
        Request::Prepare { version: env!("CARGO_PKG_VERSION").into(), command }
    }
}

/// Returns the words of a command.
pub(super) fn words(command: Vec<Vec<u8>>) -> Vec<OsString> {
    command.into_iter().map(OsString::from_vec).collect()
}

/// Returns the seconds until this time.
pub(super) fn left_s(until: Option<Instant>) -> Option<f64> {
    until.map(|until| until.saturating_duration_since(Instant::now()).as_secs_f64())
}

/// Returns the time that is `left_s` seconds from now.
pub(super) fn until(left_s: Option<f64>) -> Option<Instant> {
    let left = Duration::try_from_secs_f64(left_s?).ok()?;
    Instant::now().checked_add(left)
}
