//! `unrack lines`: a program's loads and stores, and the machine that they are measured on.
//!
//! ```text
//! calibration ------------+
//!                         v
//! native run, instrumented run -> windows -> cycles by latency --> delay / native run time -> slowdown
//!                         |                                          ^
//!                         +-> requests -> a fabric -> latency of each
//! ```
//! `unrack compare --access lines` takes the same steps, and simulates fabrics after them.

pub(crate) mod answer;
mod by_thread;
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
pub(crate) mod threads;
pub(crate) mod windows;

use crate::failure::Failure;
use crate::runs::quiet;
use answer::Native;
use placed::Placed;
use std::ffi::OsString;
use std::process::ExitCode;
use unrack_build::build;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_lines_run::{Options, Tools};
use unrack_paging::{CheckedProgram, Input, MachineCounters, MachineLoad};
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
    /// Runs a program natively and once under the recorder: misses, hot memory, and slowdown by latency of far memory
    Run(run::Args),
    /// Runs a program natively and once under the recorder: slowdown by latency, share of near memory, and rule by which pages come there
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
    match MachineCalibration::kept() {
        Some(kept) if kept.disturbance.is_none() || quiet::look().disturbance().is_some() => Ok(kept),
        kept => {
            let again = if kept.is_some() { " again, which other work had disturbed," } else { "" };
            say(&format!("measuring this machine's caches{again} for about a quarter of a minute"));
            measured()
        }
    }
}

/// Measures this machine, and keeps the result, with a mark if other work disturbed it.
///
/// # Errors
/// If it cannot be measured.
pub(crate) fn measured() -> Result<MachineCalibration, Failure> {
    let before = MachineCounters::now();
    let calibration = MachineCalibration::measured().map_err(|why| Failure::Lacking(why.to_string()))?;
    let disturbance = MachineLoad::between(&before, &MachineCounters::now()).disturbance();
    let disturbance = disturbance.map(|why| why.to_string());
    let calibration = MachineCalibration { disturbance, ..calibration };
    calibration.keep();
    Ok(calibration)
}

/// Runs a command natively, with its output discarded, so that what the model says of it can be compared with its native times.
///
/// # Errors
/// If it cannot be run, or fails.
pub(crate) fn natively(command: &[OsString], input: &Input) -> Result<Native, Failure> {
    let mut runs = Vec::new();
    for _ in 0..NATIVE_RUNS {
        let run = native::run(command, input, None, None)?;
        let is_calm = run.disturbance.is_none();
        runs.push(run);
        if is_calm {
            break;
        }
    }
    Ok(Native::from_runs(runs))
}

/// Native runs of `lines run` and `lines map` at most, until one is undisturbed.
const NATIVE_RUNS: u32 = 2;

/// Returns the footprint of a program, remembered or from a native run.
///
/// # Errors
/// If it cannot be run, or ends before anything of it is seen.
pub(crate) fn footprint(command: &[OsString], input: &Input) -> Result<Bytes, Failure> {
    let mut job = CheckedProgram::prepare(command)?;
    job.input = input.clone();
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
