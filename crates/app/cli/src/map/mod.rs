//! `unrack map`: one program's slowdown over latency, bandwidth and local share (DDC fig. 2 to 5).
//!
//! ```text
//! native runs -> for each local share: a run without delay, runs at injected delays -> line
//!                                                  line -> slowdown at every latency and bandwidth
//! ```
//! The runs are made like those of `compare`: see [`crate::runs`].

mod grid;

use crate::failure::{Failure, say};
use crate::folder;
use crate::runs::budget::{self, Budget};
use crate::runs::kept::{Identity, Kept};
use crate::runs::progress::Steps;
use crate::runs::survey::{Survey, undelayed};
use crate::runs::{DISTURBED, Runner};
use crate::stdout::{print, print_answer};
use grid::Grid;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_build::build;
use unrack_paging::{CheckedProgram, Input, local_bytes};
use unrack_record::{MapLocal, Purpose, RunFolder, SlowdownMap, Started, Warning};
use unrack_report::{RecordedRun, Report};
use unrack_units::{Bytes, Rate, Share, Time};

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
    /// Rounds of runs: first one run at each injected delay, then each time one at the smallest and one at the
    /// largest; there are 3 more native runs than rounds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    #[arg(long, value_name = "TIME", value_parser = budget::parse, help = budget::HELP)]
    budget: Option<Time>,
    /// Run folder: made, or continued if it is of the same command
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

/// Seed of the pager's choices.
const SEED: u64 = 1;
/// Link rate of the runs, so high that injected delays need not include transmission: bandwidths come in when the map
/// is drawn.
const FREE_LINK: Rate = Rate::from_gbps(10_000);

/// Runs `unrack map`.
pub(crate) fn main(mut args: Args) -> Result<ExitCode, Failure> {
    let budget = Budget::new(args.budget);
    let mut job = CheckedProgram::prepare(&args.command)?;
    job.input = Input::repeatable()?;
    let started = Started::now(build());
    // Other shares, latencies and bandwidths of the same command are drawn from the same runs.
    let question = serde_json::json!({ "command": job.words(), "folder": std::env::current_dir().ok() });
    let purpose = Purpose::new("map", job.words().join(" "), question.to_string());
    let folder = folder::create(&args.out, &purpose, args.replace)?;
    args.latency.sort();
    args.bandwidth.sort();
    let map = SlowdownMap { machine: Some(started.machine()), ..args.measure(&job, &folder, &budget)? };
    folder.write_json("map.json", &map)?;
    let settings = serde_json::json!({ "repeat": args.repeat });
    folder.write_json("manifest.json", &started.manifest(SEED, None, settings))?;
    let report = folder.path("report.html");
    Report::from_runs(vec![RecordedRun::read(&args.out)?]).write(&report)?;
    match args.json {
        true => {
            let text = serde_json::to_string_pretty(&map);
            print(&(text.map_err(|why| Failure::Failed(why.to_string()))? + "\n"))?;
        }
        false => print_answer(&unrack_report::map_text(&map))?,
    }
    say(&format!("wrote {}", report.display()));
    Ok(ExitCode::SUCCESS)
}

impl Args {
    fn measure(
        &self,
        job: &CheckedProgram,
        folder: &RunFolder,
        budget: &Budget,
    ) -> Result<SlowdownMap, Failure> {
        let of =
            Identity { sources: build().sources, program: job.identity().unwrap_or_default(), seed: SEED };
        // Standard input may have other bytes next time.
        let kept = Kept::open(folder, of, matches!(job.input, Input::Empty));
        let steps = Steps::until(budget.until());
        let runner = Runner { job, folder, rate: FREE_LINK, seed: SEED };
        let survey = Survey::begin(&runner, &kept, budget, &steps, self.repeat)?;
        let locals: Result<Vec<Bytes>, _> =
            self.local.iter().map(|share| local_bytes(*share, survey.footprint())).collect();
        let locals = locals?;
        // The most local memory first: its run is the shortest, and says best how long the next one takes.
        let mut by_time = locals.clone();
        by_time.sort_unstable_by(|one, other| other.cmp(one));
        by_time.iter().try_for_each(|local| survey.undelayed(*local))?;
        survey.inject(&locals, &[])?;
        survey.make_surer(&locals, self.grid().longest_ns())?;
        steps.finish();
        Ok(self.conclude(&survey, &locals))
    }

    fn grid(&self) -> Grid {
        Grid { latencies: self.latency.clone(), bandwidths: self.bandwidth.clone() }
    }

    fn conclude(&self, survey: &Survey, locals: &[Bytes]) -> SlowdownMap {
        let grid = self.grid();
        let panel = |(share, local): (&Share, &Bytes)| panel(survey, &grid, *share, *local);
        let fetched: Vec<u64> =
            locals.iter().filter_map(|local| Some(survey.kept.get(undelayed(*local))?.fetches)).collect();
        let locals: Vec<_> = self.local.iter().zip(locals).map(panel).collect();
        let calibration = survey.kept.calibration().filter(|(_, is_disturbed)| !is_disturbed);
        let mut warnings = survey.warnings();
        if let Some(rough) = locals.iter().find_map(|local| local.rough.clone()) {
            // Disturbed runs are used: the one warning says it all.
            warnings.retain(|warning| warning.key != DISTURBED);
            warnings.push(rough);
        }
        warnings.extend(locals.iter().flat_map(|local| grid.doubts(local)));
        warnings.extend(few_fetches(&fetched));
        SlowdownMap {
            version: env!("CARGO_PKG_VERSION").into(),
            command: survey.runner.job.words(),
            native_s: survey.any_native().ok().map(|native| native.median_s),
            footprint_bytes: survey.footprint().get(),
            floor_ns: calibration.map(|(calibration, _)| calibration.floor_ns),
            latencies_ns: self.latency.iter().map(|latency| latency.as_ns_f64()).collect(),
            bandwidths_bps: self.bandwidth.iter().map(|rate| rate.as_bps()).collect(),
            locals,
            disturbance: survey.disturbance(),
            warnings,
            machine: None,
        }
    }
}

/// Returns one panel of the map.
fn panel(survey: &Survey, grid: &Grid, share: Share, local: Bytes) -> MapLocal {
    let conclusion = survey.conclude(local);
    let fetches = survey.kept.get(undelayed(local)).map_or(0, |done| done.fetches);
    let cells = match (conclusion.line(), survey.any_native()) {
        (Ok(_), Ok(native)) => grid.slowdowns(native.median_s, &conclusion, fetches),
        (Err(why), _) => Err(why.clone()),
        (_, Err(why)) => Err(why),
    };
    let withheld = cells.as_ref().err().cloned();
    let (slowdown, slowdown_ci95) = cells.ok().unzip();
    MapLocal {
        local: share.to_string(),
        local_bytes: local.get(),
        fetches,
        points: conclusion.points,
        fit: conclusion.fit,
        withheld,
        rough: conclusion.rough,
        slowdown,
        slowdown_ci95,
    }
}

/// Warns of few fetches; `fetched` has the pages fetched at each local share.
fn few_fetches(fetched: &[u64]) -> Option<Warning> {
    let most = *fetched.iter().max()?;
    let text = format!("at most {most} fetches: this program hardly needs more than its local memory");
    (most < 1000).then(|| Warning::new("few-fetches", text))
}
