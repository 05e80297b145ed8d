//! `unrack lines calibrate`: caches, latencies and bandwidths of this machine.

use crate::failure::{CommandFailure, say};
use crate::stdout::{print, print_json};
use std::process::ExitCode;
use unrack_lines_run::calibrate::MachineCalibration;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print JSON instead of the table
    #[arg(long)]
    json: bool,
    /// Use the measurement that was kept since this machine started, if there is one
    #[arg(long)]
    kept: bool,
}

/// Runs `unrack lines calibrate`.
pub(crate) fn main(args: &Args) -> Result<ExitCode, CommandFailure> {
    let kept = if args.kept { MachineCalibration::kept() } else { None };
    let calibration = match kept {
        Some(kept) => kept,
        None => {
            say("measuring this machine for about a quarter of a minute");
            unrack_compare::measure_machine()?
        }
    };
    match args.json {
        true => print_json(&calibration)?,
        false => print(&calibration.to_string())?,
    }
    Ok(ExitCode::SUCCESS)
}
