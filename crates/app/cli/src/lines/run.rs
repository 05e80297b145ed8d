//! `unrack lines run`: one instrumented run of a program, after a native one.

use super::answer::{Basis, Native};
use super::instrumented::Instrumented;
use super::machine::Machine;
use super::model::Model;
use super::placed::{Placed, Rule};
use super::recorder;
use crate::failure::{Failure, say};
use crate::stdout::print_answer;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_build::build;
use unrack_lines_run::Tools;
use unrack_lines_run::calibrate::MachineCalibration;
use unrack_paging::Input;
use unrack_record::{AccessUnit, LinesSummary, Started, write_json};
use unrack_units::Share;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory that stays near: a share, or with `--placement first-touch`, `tiered` and `dram-cache` a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    #[arg(long, value_name = "RULE", default_value = "interleaved", help = super::placed::HELP)]
    placement: Rule,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not run the program natively first: no native time then checks what the model says of it
    #[arg(long)]
    once: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `unrack lines run`. The recorded program has this process's input and output; what is said of it follows on standard
/// output.
pub(crate) fn main(args: &Args) -> Result<ExitCode, Failure> {
    let placed = args.placement.placed(args.local, None)?;
    let tools = recorder()?;
    let calibration = super::calibrated(say)?;
    let input = if args.once { Input::Inherited } else { Input::repeatable()? };
    let native = match args.once {
        true => None,
        false => {
            say("native run, whose output is discarded");
            Some(super::natively(&args.command, &input)?)
        }
    };
    // A terminal cannot be read twice: the recorded run has it.
    let input = if let Input::Empty = input { Input::Inherited } else { input };
    let json = args.json.as_deref();
    let question = Question { command: &args.command, seed: args.seed, json, native, input };
    answer(question, &placed, &tools, &calibration)
}

/// Program that is recorded once, and where its answer goes.
pub(super) struct Question<'a> {
    pub command: &'a [OsString],
    pub seed: u64,
    pub json: Option<&'a Path>,
    /// Native runs; `None`: nothing checks the model.
    pub native: Option<Native>,
    pub input: Input,
}

/// Records a program, asks the core model about it, and prints the answer.
///
/// # Errors
/// If the program cannot be recorded, or the answer not written.
pub(super) fn answer(
    question: Question,
    placed: &Placed,
    tools: &Tools,
    calibration: &MachineCalibration,
) -> Result<ExitCode, Failure> {
    let Question { command, seed, json, native, input } = question;
    let started = Started::now(build());
    let options = super::options(seed, calibration, placed);
    let instrumented = Instrumented::run(tools, command, &options, (&input, None), None)?;
    let machine = Machine::new(&instrumented.processor, calibration);
    let model = Model::new(&instrumented, machine, placed, &[])?;
    let basis = Basis::new(&instrumented, calibration, native, placed, model);
    let summary = LinesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        seed,
        access: AccessUnit::Lines,
        pages: None,
        lines: basis.result(),
        machine: Some(started.machine()),
    };
    if let Some(path) = json {
        write_json(path, &summary)?;
    }
    print_answer(&unrack_report::lines_text(&summary))?;
    Ok(ExitCode::SUCCESS)
}
