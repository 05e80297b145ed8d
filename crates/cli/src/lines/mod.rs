//! `unrack lines`: a program's loads and stores, and the machine that they are measured on.
//!
//! ```text
//! calibration ------------+
//!                         v
//! instrumented run -> windows -> cycles by latency --------------> delay / native run time -> slowdown
//!                         |                                          ^
//!                         +-> requests -> a fabric -> latency of each
//! ```
//! `unrack compare --access lines` takes the same steps, and simulates fabrics after them.

pub(crate) mod answer;
mod calibrate;
pub(crate) mod closed_loop;
pub(crate) mod estimate;
pub(crate) mod instrumented;
pub(crate) mod machine;
pub(crate) mod model;
pub(crate) mod native;
pub(crate) mod placed;
mod processes;
mod run;
pub(crate) mod windows;

use crate::failure::Failure;
use std::process::ExitCode;
use unrack_lines_run::Tools;
use unrack_lines_run::calibrate::Calibration;

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

/// Finds QEMU and the recorder, before any time is spent.
///
/// # Errors
/// If one is lacking: with what to install.
pub(crate) fn recorder() -> Result<Tools, Failure> {
    Ok(Tools::find()?)
}

/// Returns what is known of this machine, or measures it, which is said through `say`.
///
/// # Errors
/// If it cannot be measured.
pub(crate) fn calibrated(say: impl FnOnce(&str)) -> Result<Calibration, Failure> {
    let measured = Calibration::kept().map_or_else(
        || {
            say("measuring this machine's caches for about a quarter of a minute");
            Calibration::measured()
        },
        Ok,
    );
    measured.map_err(|why| Failure::Lacking(why.to_string()))
}

/// Returns the size of the last level that a program gets on this machine, in bytes: in a virtual machine others have a part.
pub(crate) fn last_level(calibration: &Calibration) -> Option<u64> {
    let last = calibration.levels.iter().find(|level| level.level == 3)?;
    Some(last.effective_bytes.min(last.described_bytes))
}
