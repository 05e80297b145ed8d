//! `unrack map`: one program's slowdown over latency, bandwidth and local share. [`unrack_compare`] does the work.

use crate::budget;
use crate::failure::{CommandFailure, say};
use crate::stdout::{print_answer, print_json};
use crate::steps::{StepBar, asking};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_compare::MapQuestion;
use unrack_units::{Rate, Share, Time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack map -- python3 job.py                         four local shares, the usual networks
  unrack map --local 10%,20%,40% --latency 1us,5us,10us --bandwidth 10Gbps,40Gbps,100Gbps -- ./program
  unrack map --repeat 5 --out runs/sort -- sort big.txt
  unrack map --budget 10m -- ./program                 as sure as ten minutes allow

The program runs about forty times: natively, and at each local share once without and several times with injected \
delays. The line through those runs gives the slowdown at every latency and bandwidth asked for. Finished runs are \
kept in the run folder: the same command with the same --out continues where it was interrupted, and may ask for \
other shares, latencies and bandwidths. The folder also \
gets map.json and report.html.

Runs that other work on the machine disturbed are not used; they are repeated, unless most runs were disturbed. Within --budget the \
command waits for other work to end; where it does not, disturbed runs are used, and answers are rough, with wider intervals. What \
is left of --budget goes into more runs where answers are too uncertain. A local share whose answers still are is \
withheld, with the reason and what to do.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Memory that stays local: shares of the program's footprint, or sizes, with commas between them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "10%,25%,50%,75%")]
    local: Vec<Share>,
    /// Latencies of a fetch, beside the transmission of its page
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "500ns,1us,2us,3us,5us,10us,20us,50us"
    )]
    latency: Vec<Time>,
    /// Rates of the link to remote memory
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        default_value = "10Gbps,25Gbps,40Gbps,100Gbps,200Gbps"
    )]
    bandwidth: Vec<Rate>,
    /// Rounds of runs. The first round has one run at each injected delay; each further round has one at the smallest and one at
    /// the largest delay. There are three more native runs than rounds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    #[arg(long, value_name = "TIME", value_parser = budget::parse, help = budget::HELP)]
    budget: Option<Time>,
    /// Run folder: created, or continued if it has the same command
    #[arg(long, value_name = "DIR", default_value = "unrack-map")]
    out: PathBuf,
    /// Replace the run in that folder even if it is of another command
    #[arg(long)]
    replace: bool,
    /// Print map.json instead of the tables
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Runs `unrack map`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let question = MapQuestion {
        command: args.command,
        locals: args.local,
        latencies: args.latency,
        bandwidths: args.bandwidth,
        repeat: args.repeat,
        budget: args.budget,
        out: args.out,
        replace: args.replace,
    };
    let answer = question.ask(asking(&StepBar::default()))?;
    match args.json {
        true => print_json(&answer.map)?,
        false => print_answer(&unrack_report::map_text(&answer.map))?,
    }
    say(&format!("wrote {}", answer.report.display()));
    Ok(ExitCode::SUCCESS)
}
