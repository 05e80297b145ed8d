//! `unrack lines map`: slowdown over latency, share of near memory and placement, from one instrumented run.

use super::placed::Placed;
use super::recorder;
use super::run::{Question, answer};
use crate::failure::{Failure, say};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_paging::Input;

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

/// Runs `unrack lines map`. The program runs several times, each time with the same input.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let tools = recorder()?;
    let calibration = super::calibrated(say)?;
    say("measuring the footprint");
    let input = Input::repeatable()?;
    let placed = Placed::map(super::footprint(&args.command, &input)?)?;
    say("native run, whose output is discarded");
    let native = Some(super::natively(&args.command, &input)?);
    say("instrumented run");
    let json = args.json.as_deref();
    let question = Question { command: &args.command, seed: args.seed, json, native, input };
    answer(question, &placed, &tools, &calibration)
}
