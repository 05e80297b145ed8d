//! `unrack lines map`: slowdown over latency, share of near memory and placement, from one instrumented run.

use super::answer::Basis;
use super::instrumented::Instrumented;
use super::machine::Machine;
use super::model::Model;
use super::placed::Placed;
use super::recorder;
use crate::failure::{Failure, say};
use crate::provenance::build;
use crate::stdout::print;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_paging::{CheckedProgram, Input};
use unrack_record::{AccessUnit, LinesSummary, Started, write_json};

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
    let started = Started::now(build());
    let tools = recorder()?;
    let calibration = super::calibrated(say)?;
    say("measuring the footprint");
    let mut job = CheckedProgram::prepare(&args.command)?;
    job.input = Input::repeatable()?;
    let footprint = unrack_paging::footprint(&job, Some(&build()))?.footprint.bytes();
    let placed = Placed::map(footprint)?;
    let options = super::options(args.seed, &calibration, &placed);
    say("instrumented run");
    let instrumented = Instrumented::run(&tools, &args.command, &options, None)?;
    let machine = Machine::new(&instrumented.processor, &calibration);
    let model = Model::new(&instrumented, machine, &placed, &[])?;
    let basis = Basis {
        instrumented: &instrumented,
        calibration: &calibration,
        native: None,
        placed: &placed,
        model,
    };
    let summary = LinesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        command: args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        seed: args.seed,
        access: AccessUnit::Lines,
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
