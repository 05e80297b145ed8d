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
mod map;
pub(crate) mod model;
pub(crate) mod native;
pub(crate) mod placed;
mod processes;
mod run;
pub(crate) mod windows;

use crate::failure::Failure;
use placed::Placed;
use std::ffi::OsString;
use std::process::ExitCode;
use unrack_build::build;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_lines_run::{Options, Tools};
use unrack_paging::{CheckedProgram, Input};
use unrack_units::Bytes;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack lines calibrate                               caches and latencies of this machine
  unrack lines run -- python3 job.py                   misses, hot memory, slowdown by latency
  unrack lines run --json run.json -- ./program
  unrack lines run --placement far:[heap] -- ./program   only the heap is far
  unrack lines map -- ./program                        every rule at every share, from one run";

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
    /// Runs a program once under the recorder: slowdown by latency, share of near memory, and rule by which pages come there
    Map(map::Args),
}

/// Runs `unrack lines`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    match args.verb {
        Verb::Calibrate(args) => calibrate::main(&args),
        Verb::Run(args) => run::main(&args),
        Verb::Map(args) => map::main(&args),
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
pub(crate) fn calibrated(say: impl FnOnce(&str)) -> Result<MachineCalibration, Failure> {
    let measured = MachineCalibration::kept().map_or_else(
        || {
            say("measuring this machine's caches for about a quarter of a minute");
            MachineCalibration::measured()
        },
        Ok,
    );
    measured.map_err(|why| Failure::Lacking(why.to_string()))
}

/// Returns the footprint of a program, remembered or from a native run with empty input.
///
/// # Errors
/// If it cannot be run, or ends before anything of it is seen.
pub(crate) fn footprint(command: &[OsString]) -> Result<Bytes, Failure> {
    let mut job = CheckedProgram::prepare(command)?;
    job.input = Input::repeatable()?;
    let footprint = unrack_paging::footprint(&job, Some(&build()))?.footprint.bytes();
    if footprint.get() == 0 {
        let text = "the program ended before its footprint was seen: give it more to do, or give --local as a share with \
                    --placement interleaved or hottest";
        return Err(Failure::Failed(text.into()));
    }
    Ok(footprint)
}

/// Instructions from one window to the next at first: a program of 3 million has the windows that an interval takes. A longer
/// one reaches the limit, where the recorder drops every second window.
const PERIOD: u64 = 100_000;
/// Limit of a recording in bytes: some 800 windows, of which the core model runs about 50 a second.
const LIMIT: u64 = 64 << 20;

/// Returns the options of an instrumented run: the caches are those of this machine, as measured.
pub(crate) fn options(seed: u64, calibration: &MachineCalibration, placed: &Placed) -> Options {
    Options {
        seed,
        period: Some(PERIOD),
        limit: Some(LIMIT),
        processor: calibration.processor(),
        placements: Some(placed.recorded.clone()),
        ..Options::default()
    }
}
