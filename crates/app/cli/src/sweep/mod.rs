//! `unrack sweep`: runs a scenario over a grid of values, on all cores.

mod cluster;
mod merge;
mod part;

pub(crate) use self::cluster::check_cluster;

use self::part::PartFile;
use crate::completions;
use crate::fail_if::{self, FailIf, ValueShape};
use crate::failure::{CommandFailure, say};
use crate::points_bar::PointsBar;
use crate::stdout;
use clap_complete::engine::ArgValueCompleter;
use serde::Serialize;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use unrack_build::build;
use unrack_grid::runner::cores;
use unrack_grid::sweep::{GridPlan, GridPoints, KEPT, SweepPart};
use unrack_grid::{ScenarioOrigin, ScenarioSource, axes, sweep_folder};
use unrack_record::{KeptPoints, Machine, RunFolder, StartedCommand, Sweep};
use unrack_report::{sweep_figures, sweep_text, write_svgs};
use unrack_sim::Summary;

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack sweep examples/star-edm.toml --set workload.load=0.1,0.5,0.9 --seeds 1..5 --out runs/load
  unrack sweep examples/star-edm.toml --set fabric.protocol=edm,cxl --set workload.load=0.2,0.4 --out runs/two
  unrack sweep examples/star-edm.toml --set workload.load=0.2,0.8 --out runs/limit --fail-if 'slowdown.p99>3'
  unrack sweep examples/star-edm.toml --seeds 1..60 --cluster tcp://10.0.0.1:8786 --out runs/seeds
  unrack sweep examples/star-edm.toml --seeds 1..60 --part 2/4 --out runs/part-2      on one of four machines
  unrack sweep merge runs/part-* --out runs/seeds                                     when all four are done

--fail-if is evaluated on the summary of each point, as `unrack sim` prints it; one point for which it holds fails \
the sweep. In \
sweep.parquet, keys that vary are columns: numbers as numbers, durations in ns, rates in bps, sizes in bytes, with the \
unit at the end of the name; values of several kinds are text.

Each point of the grid is one scenario, and runs on one core. Finished points are kept in the folder: after an \
interruption the same command continues with the others, and a larger grid runs only new points. The results are the same, byte for byte, on any number of threads.

With --cluster, a worker that dies costs its own points, which run again elsewhere; files that the scenario names are \
sent along. It takes Python with the package unrack and distributed, here and on the workers (pip install \
'unrack[dask]').

With --part, a folder of its own or one folder on a shared file system may be used; in an array of Slurm, \
--part $SLURM_ARRAY_TASK_ID/$SLURM_ARRAY_TASK_COUNT. `unrack sweep merge` needs neither the scenario nor its files, and makes the \
table that one machine would have made.";

#[derive(clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    grid: Option<GridArgs>,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Makes the table of a sweep from parts that were run separately
    Merge(merge::Args),
}

#[derive(clap::Args)]
struct GridArgs {
    /// The scenario file, or - for standard input
    scenario: PathBuf,
    /// Replace a value of the file, or try each of a list
    #[arg(long, value_name = "KEY=VALUE[,VALUE...]", add = ArgValueCompleter::new(completions::settings))]
    set: Vec<String>,
    /// Run every point with each of these seeds, such as 1..5 or 1,2,7
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<String>,
    /// Keep points and write the table (sweep.json, sweep.parquet) and charts (sweep-mean.svg, sweep-p99.svg) to this
    /// folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Replace the table in that folder even if it has points that this grid lacks
    #[arg(long)]
    replace: bool,
    /// Run one part of the points, such as the second of four, and keep them; `unrack sweep merge` makes the table
    #[arg(long, value_name = "I/N", value_parser = part::parsed, conflicts_with_all = ["json", "fail_if"])]
    part: Option<SweepPart>,
    /// Run the points on the workers of this scheduler of Dask, such as tcp://10.0.0.1:8786; the results are the same
    #[arg(long, value_name = "ADDRESS", conflicts_with_all = ["part", "threads"])]
    cluster: Option<String>,
    /// Maximum of points run at once; by default, the number of cores
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "EXPRESSION", help = fail_if::HELP)]
    fail_if: Option<FailIf>,
    /// Maximum of transfers to replay from a captured trace, over all its copies, from the middle of the run
    #[arg(long, value_name = "N", default_value_t = unrack_grid::work::MOST_TRANSFERS)]
    transfers: u64,
}

/// Output of `--json`: the contents of `sweep.json`, and the use of the machine's resources.
#[derive(Serialize)]
struct SweepReport<'a> {
    #[serde(flatten)]
    sweep: &'a Sweep,
    machine: Machine,
}

/// Runs `unrack sweep`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    match args {
        Args { verb: Some(Verb::Merge(args)), .. } => merge::main(args),
        Args { grid: Some(args), .. } => sweep(args),
        _ => Err(CommandFailure::Usage("name a scenario file".into())),
    }
}

fn sweep(args: GridArgs) -> Result<ExitCode, CommandFailure> {
    let started = StartedCommand::now(build());
    args.fail_if.iter().try_for_each(|limit| limit.check(&ValueShape::from_type::<Summary>()))?;
    let axes = axes::parsed(&args.set, args.seeds.as_deref()).map_err(CommandFailure::Usage)?;
    let source = ScenarioSource { origin: ScenarioOrigin::named(&args.scenario)?, transfers: args.transfers };
    let points = GridPoints::check(&source, axes, || {})?;
    let name = args.scenario.display().to_string();
    let folder = created(&args.out, &points.plan(), &name, args.replace)?;
    if let Some(scheduler) = &args.cluster {
        cluster::run(&args, scheduler, &source, &folder.path(KEPT))?;
    }
    let summaries = args.run(&folder, &points)?;
    let file = args.part_file(&source, &points)?;
    if args.part.is_some() {
        file.write(&folder)?;
        say(&file.done(&args.out));
        return Ok(ExitCode::SUCCESS);
    }
    let sweep = file.plan.table(build().version, &summaries);
    save(&folder, &args.out, &file, &sweep, &started)?;
    show(&sweep, args.json, &started)?;
    say(&format!("wrote {}", args.out.display()));
    if let Some(limit) = &args.fail_if {
        let named: Vec<_> = points.all.iter().map(|point| point.set.join(" ")).zip(summaries).collect();
        limit.judge_all(&named)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Creates the folder of a sweep. A folder that cannot be created is a usage error.
fn created(out: &Path, plan: &GridPlan, name: &str, replace: bool) -> Result<RunFolder, CommandFailure> {
    sweep_folder::create(out, plan, name, replace).map_err(|why| CommandFailure::Usage(why.to_string()))
}

impl GridArgs {
    /// Runs the points of this part that are not in the folder yet.
    fn run(&self, folder: &RunFolder, points: &GridPoints) -> Result<Vec<Summary>, CommandFailure> {
        let place = folder.path(KEPT);
        let kept = KeptPoints::open(&place, &build())?;
        Ok(points.run(
            self.part.unwrap_or(SweepPart::WHOLE),
            &kept,
            self.threads.unwrap_or_else(cores),
            &PointsBar::new(Some(place)),
        )?)
    }

    /// Returns the description of a part of a sweep. It has all that the folder of the whole sweep needs in addition to the results.
    fn part_file(&self, source: &ScenarioSource, points: &GridPoints) -> Result<PartFile, CommandFailure> {
        let (first, _) = source.origin.load(&points.all[0].set)?;
        Ok(PartFile {
            part: self.part.unwrap_or(SweepPart::WHOLE),
            plan: points.plan(),
            file: self.scenario.display().to_string(),
            seed: first.seed,
            scenario: first.explain(),
            settings: serde_json::json!({
                "scenario": self.scenario.display().to_string(),
                "set": self.set,
                "seeds": self.seeds,
                "transfers": self.transfers,
            }),
        })
    }
}

/// Prints the table.
fn show(sweep: &Sweep, json: bool, started: &StartedCommand) -> Result<(), CommandFailure> {
    let text = match json {
        true => {
            let found = SweepReport { sweep, machine: started.machine() };
            serde_json::to_string(&found).map_err(|why| CommandFailure::Failed(why.to_string()))? + "\n"
        }
        false => sweep_text(sweep),
    };
    stdout::print(&text)
}

/// Saves a sweep. The manifest is written last, because it marks the sweep as complete; its scenario is that of the first point.
fn save(
    folder: &RunFolder,
    out: &Path,
    file: &PartFile,
    sweep: &Sweep,
    started: &StartedCommand,
) -> Result<(), CommandFailure> {
    folder.write_json("sweep.json", sweep)?;
    sweep.write_parquet(folder.path("sweep.parquet"))?;
    write_svgs(&sweep_figures(sweep), out).map_err(|why| CommandFailure::Failed(why.to_string()))?;
    let manifest = started.manifest(file.seed, Some(file.scenario.clone()), file.settings.clone());
    Ok(folder.write_json("manifest.json", &manifest)?)
}
