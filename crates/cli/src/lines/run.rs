//! `unrack lines run`: one instrumented run of a program.

use super::answer::Basis;
use super::instrumented::Instrumented;
use super::model;
use crate::failure::Failure;
use crate::provenance::build;
use crate::stdout::print;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_lines_run::calibrate::Calibration;
use unrack_record::{Access, LinesSummary, Started, write_json};

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

/// Runs `unrack lines run`. The program has this process's input and output; what is said of it follows on standard
/// output.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let started = Started::now(build());
    let instrumented = Instrumented::run(&args.command, args.seed, None)?;
    let calibration = Calibration::kept_or_measured().map_err(|why| Failure::Lacking(why.to_string()))?;
    let cycles = model::cycles();
    let basis = Basis {
        instrumented: &instrumented,
        calibration: &calibration,
        native: None,
        local: "0%".into(),
        placement: "all-far".into(),
        cycles,
    };
    let summary = LinesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        seed: args.seed,
        access: Access::Lines,
        pages: None,
        lines: basis.result(),
        machine: Some(started.machine()),
    };
    if let Some(path) = &args.json {
        write_json(path, &summary)?;
    }
    print(&unrack_report::lines_text(&summary))?;
    Ok(ExitCode::SUCCESS)
}
