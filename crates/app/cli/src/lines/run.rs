//! `unrack lines run`: one instrumented run of a program, after a native one.

use super::PLACEMENT_HELP;
use super::written::write;
use crate::failure::CommandFailure;
use crate::steps::{SaidSteps, asking};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_compare::{AskedPlacements, LinesQuestion, PlacementRule};
use unrack_units::Share;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory that stays near: a share, or with `--placement first-touch`, `tiered` and `dram-cache` a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    #[arg(long, value_name = "RULE", default_value = "interleaved", help = PLACEMENT_HELP)]
    placement: PlacementRule,
    /// Write the result as JSON to this file
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Seed of the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Do not run the program natively first; the model's time is then not checked against a native run
    #[arg(long)]
    once: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `unrack lines run`. The recorded program has this process's input and output; the results follow its output on standard output.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let question = LinesQuestion {
        command: args.command,
        placements: AskedPlacements::One { rule: args.placement, local: args.local },
        seed: args.seed,
        once: args.once,
    };
    write(&question.ask(asking(&SaidSteps))?, args.json.as_deref())
}
