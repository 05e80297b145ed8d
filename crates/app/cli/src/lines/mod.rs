//! `unrack lines`: a program's loads and stores, and calibration of the machine that runs it. [`unrack_compare`] does the work.

mod calibrate;
mod map;
mod run;
mod written;

use crate::failure::CommandFailure;
use std::process::ExitCode;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack lines calibrate                               caches and latencies of this machine
  unrack lines run -- python3 job.py                   misses, hot memory, slowdown by latency
  unrack lines run --json run.json -- ./program
  unrack lines run --placement remote:[heap] -- ./program   only the heap is remote
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
    /// Runs a program natively and once under the recorder: misses, hot memory, and slowdown by latency of remote memory
    Run(run::Args),
    /// Runs a program natively and once under the recorder: slowdown by latency, share of local memory, and rule by which pages come there
    Map(map::Args),
}

/// Runs `unrack lines`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    match args.verb {
        Verb::Calibrate(args) => calibrate::main(&args),
        Verb::Run(args) => run::main(args),
        Verb::Map(args) => map::main(args),
    }
}

/// Help text of `--placement`.
pub(crate) const PLACEMENT_HELP: &str = "\
Rule by which pages come into local memory, for loads and stores: interleaved (in turns of their addresses), first-touch (until it is \
full), hottest (by the whole run), tiered (moved by use, as Linux does), dram-cache (local memory caches remote memory), all-remote, or \
remote:NAME (only memory of this name is remote, such as remote:[heap])";
