//! `unrack diff`: differences between two run folders, and whether they exceed noise.

use crate::failure::CommandFailure;
use crate::stdout;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_report::Difference;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack diff runs/edm runs/dctcp                       two simulations
  unrack diff runs/before runs/after --json | jq '.results[] | select(.noise == \"more\")'
  unrack sweep rack.toml --seeds 1..5 --out runs/before
  unrack sweep rack.toml --seeds 1..5 --set fabric.chunk=64B --out runs/after
  unrack diff runs/before runs/after                    is it more than noise?

A and B are what `unrack sim`, `sweep`, `compare` or `map` wrote with --out, both of the same verb. In sweeps with \
several seeds, a difference is more than noise if its 95 % confidence interval (Welch's) excludes 0; in comparisons, \
if the intervals of the two slowdowns do not overlap. By this rule, 1 of 20 equal values appears to differ. The \
noise of single runs is unknown.

The exit status is 0 whether or not they differ.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A run folder
    #[arg(value_name = "A")]
    a: PathBuf,
    /// The run folder to compare it with
    #[arg(value_name = "B")]
    b: PathBuf,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs `unrack diff`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let difference = Difference::between(&args.a, &args.b)?;
    let text = match args.json {
        true => {
            serde_json::to_string(&difference).map_err(|why| CommandFailure::Failed(why.to_string()))? + "\n"
        }
        false => difference.text(),
    };
    stdout::print(&text)?;
    Ok(ExitCode::SUCCESS)
}
