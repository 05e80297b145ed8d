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
use placed::Placed;
use std::process::ExitCode;
use unrack_lines_run::calibrate::Calibration;
use unrack_lines_run::{Options, Tools};

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

/// Instructions from one window to the next at first: a program of 3 million has the windows that an interval takes. A longer
/// one reaches the limit, where the recorder drops every second window.
const PERIOD: u64 = 100_000;
/// Limit of a recording in bytes: some 800 windows, of which the core model runs about 50 a second.
const LIMIT: u64 = 64 << 20;

/// Returns the options of an instrumented run: a last level of the size that a program gets on this machine, since in a virtual
/// machine others have a part.
pub(crate) fn options(seed: u64, calibration: &Calibration, placed: &Placed) -> Options {
    let last = calibration.levels.iter().find(|level| level.level == 3);
    Options {
        seed,
        period: Some(PERIOD),
        limit: Some(LIMIT),
        last_level: last.map(|last| last.effective_bytes.min(last.described_bytes)),
        placements: Some(placed.recorded.clone()),
        ..Options::default()
    }
}
