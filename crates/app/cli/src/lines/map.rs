//! `unrack lines map`: slowdown over latency, share of local memory and placement, from one instrumented run.

use super::written::write;
use crate::failure::CommandFailure;
use crate::steps::{SaidSteps, asking};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_compare::{AskedPlacements, LinesQuestion};

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
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let question = LinesQuestion {
        command: args.command,
        placements: AskedPlacements::All,
        seed: args.seed,
        once: false,
    };
    write(&question.ask(asking(&SaidSteps))?, args.json.as_deref())
}
