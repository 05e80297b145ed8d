//! `unrack map`: one program's slowdown over latency, bandwidth and local share (DDC fig. 2 to 5).
//!
//! ```text
//! native runs -> for each local share: a run without delay, runs at injected delays -> line
//!                                                  line -> slowdown at every latency and bandwidth
//! ```

mod grid;
mod kept;
mod survey;

use crate::failure::{Failure, say};
use crate::runs::Runner;
use crate::runs::progress::Steps;
use crate::stdout::print;
use grid::Grid;
use kept::{Identity, Kept};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use survey::Survey;
use unrack_paging::{Input, Job};
use unrack_record::{RunFolder, SlowdownMap, Started};
use unrack_report::{Report, Run};
use unrack_units::{Rate, Share, Time};

pub const EXAMPLES: &str = "\
Examples:
  unrack map -- python3 job.py                         four local shares, the usual networks
  unrack map --local 10%,20%,40% --latency 1us,5us,10us --bandwidth 10Gbps,40Gbps,100Gbps -- ./program
  unrack map --repeat 5 --out runs/sort -- sort big.txt

The program runs natively, and at each local share once without and several times with injected delays, \
about thirty times in all. What follows from the line through those runs is drawn for every latency and \
bandwidth asked for. Runs are kept in the run folder as they end: the same command with the same --out \
goes on where it was interrupted, and may ask for other shares, latencies and bandwidths. The folder also \
gets map.json and report.html.";

#[derive(clap::Args)]
pub struct Args {
    /// Memory that stays local: shares of the program's footprint, or sizes, with commas between them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "10%,25%,50%,75%")]
    local: Vec<Share>,
    /// What one fetch takes beside the transmission of its page
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
    /// Runs at each injected delay; also native runs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Run folder: made, or gone on from if it is of the same command
    #[arg(long, value_name = "DIR", default_value = "unrack-map")]
    out: PathBuf,
    /// Print map.json instead of the tables
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Of the pager's choices.
const SEED: u64 = 1;
/// Injected delays are whole: bandwidth comes in when the map is drawn, so that it may be any.
const FREE_LINK: Rate = Rate::from_gbps(10_000);

pub fn main(mut args: Args) -> Result<ExitCode, Failure> {
    let mut job = Job::prepare(&args.command)?;
    job.input = Input::repeatable()?;
    let folder = RunFolder::create(&args.out)?;
    let started = Started::now();
    args.latency.sort();
    args.bandwidth.sort();
    let map = args.measure(&job, &folder)?;
    folder.write_json("map.json", &map)?;
    let settings = serde_json::json!({ "repeat": args.repeat });
    folder.write_json("manifest.json", &started.manifest(SEED, None, settings))?;
    let report = folder.path("report.html");
    Report::of(vec![Run::read(&args.out)?]).write(&report)?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&map);
            print(&(text.map_err(|why| Failure::Failed(why.to_string()))? + "\n"))?;
        }
        false => print(&unrack_report::map_text(&map))?,
    }
    say(&format!("wrote {}", report.display()));
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn measure(&self, job: &Job, folder: &RunFolder) -> Result<SlowdownMap, Failure> {
        let of = Identity {
            version: env!("CARGO_PKG_VERSION").into(),
            program: job.identity().unwrap_or_default(),
            seed: SEED,
        };
        // What is read from standard input may be other bytes next time.
        let kept = Kept::open(folder, of, matches!(job.input, Input::Empty));
        let steps = Steps::new(survey::reckoned(self.repeat, self.local.len(), &kept));
        let runner = Runner { job, folder, steps: &steps, rate: FREE_LINK, seed: SEED };
        let survey = Survey::begin(runner, &kept, self.repeat)?;
        let grid = Grid { latencies: self.latency.clone(), bandwidths: self.bandwidth.clone() };
        let locals: Result<Vec<_>, _> = self.local.iter().map(|share| survey.at(*share, &grid)).collect();
        let locals = locals?;
        steps.finish();
        let mut warnings: Vec<_> =
            locals.iter().flat_map(|local| grid.doubts(survey.native_s, local)).collect();
        warnings.extend(survey.doubts(&locals));
        Ok(SlowdownMap {
            version: env!("CARGO_PKG_VERSION").into(),
            command: job.words(),
            native_s: survey.native_s,
            footprint_bytes: survey.footprint.get(),
            floor_ns: survey.calibration.floor_ns,
            latencies_ns: self.latency.iter().map(|latency| latency.as_ns_f64()).collect(),
            bandwidths_bps: self.bandwidth.iter().map(|rate| rate.as_bps()).collect(),
            locals,
            warnings,
        })
    }
}
