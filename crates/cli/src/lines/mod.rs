//! `unrack lines`: a program's loads and stores, and the machine that they are measured on.
//!
//! ```text
//! native runs ------------------------------------------------+
//! calibration ----------------------------------------+       |
//! instrumented run -> windows -> cycles by latency -> delay -> slowdown
//! ```
//! `unrack compare --access lines` takes the same steps, and simulates fabrics after them.

pub(crate) mod answer;
mod calibrate;
pub(crate) mod instrumented;
pub(crate) mod model;
pub(crate) mod native;
mod processes;
mod run;
pub(crate) mod sample;

use crate::failure::Failure;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack lines calibrate                               caches and latencies of this machine
  unrack lines run -- python3 job.py                   misses, hot memory, slowdown by latency
  unrack lines run --json run.json -- ./program";

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Measures caches, latencies and bandwidths of this machine, and keeps them until it restarts
    Calibrate(calibrate::Args),
    /// Runs a program once under the recorder: misses, hot memory, and slowdown by latency of far memory
    Run(run::Args),
}

/// Runs `unrack lines`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Calibrate(args) => calibrate::main(&args),
        Verb::Run(args) => run::main(&args),
    }
}

pub(crate) fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}
