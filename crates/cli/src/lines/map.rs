//! `unrack lines map`: slowdown over latency, share of near memory and placement, from one instrumented run.

use super::placed::Placed;
use super::recorder;
use super::run::{Question, answer};
use crate::failure::{Failure, say};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `unrack lines map`. The program's input is empty, since it runs twice.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let tools = recorder()?;
    let calibration = super::calibrated(say)?;
    say("measuring the footprint");
    let placed = Placed::map(super::footprint(&args.command)?)?;
    say("instrumented run");
    let question = Question { command: &args.command, seed: args.seed, json: args.json.as_deref() };
    answer(&question, &placed, &tools, &calibration)
}
