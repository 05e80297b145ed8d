//! `unrack swap`: checks predictions of `compare` against the kernel's swap. [`unrack_compare`] does the work.

mod text;
mod touch;

use crate::budget;
use crate::failure::CommandFailure;
use crate::stdout::{print_answer, print_json};
use crate::steps::{StepBar, asking};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_compare::SwapQuestion;
use unrack_swap::{SwapDevice, Undo};
use unrack_units::{Share, Time};

pub(crate) use touch::TouchArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sudo unrack swap -- python3 job.py                   a quarter local, swapping to zram
  sudo unrack swap --local 10% --repeat 5 -- ./program
  sudo unrack swap --device /var/tmp -- ./program      to a file there, on a real disk
  sudo unrack swap --json -- ./program | jq .error

The program runs about 17 times: natively, at five injected delays, and under the kernel's swap. A line goes through the \
runs at injected delays, as in `unrack compare`; at the kernel's own cost of a fault, it predicts the run time under swap. \
That is measured, too: in a memory cgroup with as much anonymous memory. The cost of a fault is measured by touching \
pages in such a group, with the contents of the program's own.

Swap, cgroup and settings are removed at the end, also if this command is killed. The run folder gets swap.json; the same \
command with the same --out keeps the native runs and those at injected delays.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory that stays local: a share of the program's footprint, or a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    /// Device to swap to: zram, or a folder for a file to swap to
    #[arg(long, value_name = "zram|FOLDER", default_value = "zram")]
    device: SwapDevice,
    /// Rounds of runs: the program runs once more than this under swap; its other runs are as in `unrack compare`
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    #[arg(long, value_name = "TIME", value_parser = budget::parse, help = budget::HELP)]
    budget: Option<Time>,
    /// Run folder: created, or continued if it has the same command
    #[arg(long, value_name = "DIR", default_value = "unrack-swap")]
    out: PathBuf,
    /// Replace the run in that folder even if it is of another command
    #[arg(long)]
    replace: bool,
    /// Print swap.json instead of text
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `unrack swap`.
pub(crate) fn main(args: Args, undo: Undo) -> Result<ExitCode, CommandFailure> {
    let question = SwapQuestion {
        command: args.command,
        local: args.local,
        device: args.device,
        repeat: args.repeat,
        budget: args.budget,
        out: args.out,
        replace: args.replace,
    };
    let answer = question.ask(asking(&StepBar::default()), undo)?;
    match args.json {
        true => print_json(&answer)?,
        false => print_answer(&text::of(&answer))?,
    }
    Ok(ExitCode::SUCCESS)
}
