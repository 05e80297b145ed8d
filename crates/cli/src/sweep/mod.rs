//! `unrack sweep`: a scenario over a grid of values, on all cores.

mod grid;
mod points;
mod progress;

use self::points::{Point, Points};
use crate::failure::{Failure, say};
use crate::stdout;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_record::{RunFolder, Started, Sweep, SweepPoint};
use unrack_report::{sweep_figures, sweep_text, write_svgs};

pub const EXAMPLES: &str = "\
Examples:
  unrack sweep examples/star-edm.toml --set workload.load=0.1,0.5,0.9 --seeds 1..5 --out runs/load
  unrack sweep examples/star-edm.toml --set fabric.protocol=edm,cxl --set workload.load=0.2,0.4 --out runs/two

Each point of the grid is one scenario; each runs on one core. A point that is done is kept in the folder: \
after an interruption the same command goes on with those that are not, and a larger grid runs only what \
is new. The results are the same, byte for byte, on any number of threads.";

#[derive(clap::Args)]
pub struct Args {
    /// The scenario file
    scenario: PathBuf,
    /// Replace a value of the file, or try each of a list
    #[arg(long, value_name = "KEY=VALUE[,VALUE...]")]
    set: Vec<String>,
    /// Run every point with each of these seeds, such as 1..5 or 1,2,7
    #[arg(long, value_name = "SEEDS")]
    seeds: Option<String>,
    /// Keep points and write the table (sweep.json, sweep.parquet) and charts (sweep-mean.svg, sweep-p99.svg) to this
    /// folder
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// How many points at once; as many as there are cores, if not given
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Replay at most so many transfers of a captured trace, over all its copies: the middle of the run
    #[arg(long, value_name = "N", default_value_t = crate::sim::work::MOST_TRANSFERS)]
    transfers: u64,
}

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let started = Started::now();
    let axes = grid::axes(&args.set, args.seeds.as_deref()).map_err(Failure::Usage)?;
    let points = Points::check(&args.scenario, &axes, args.transfers)?;
    let folder = RunFolder::create(&args.out).map_err(|why| Failure::Usage(why.to_string()))?;
    let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let threads = args.threads.map_or_else(cores, NonZeroUsize::get);
    let figures = points.run(&folder, threads)?;
    let varied = |n: &usize| axes[*n].values.len() > 1;
    let columns: Vec<usize> = (0..axes.len()).filter(varied).collect();
    let point = |(point, figures): (&Point, _)| SweepPoint {
        values: columns.iter().map(|n| point.values[*n].clone()).collect(),
        figures,
    };
    let sweep = Sweep {
        version: env!("CARGO_PKG_VERSION").into(),
        keys: columns.iter().map(|n| axes[*n].key.clone()).collect(),
        points: points.all.iter().zip(figures).map(point).collect(),
    };
    args.save(&folder, &sweep, &started)?;
    let text = match args.json {
        true => serde_json::to_string(&sweep).map_err(|why| Failure::Failed(why.to_string()))? + "\n",
        false => sweep_text(&sweep),
    };
    stdout::print(&text)?;
    say(&format!("wrote {}", args.out.display()));
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// The manifest comes last: with it, the sweep is whole.
    fn save(&self, folder: &RunFolder, sweep: &Sweep, started: &Started) -> Result<(), Failure> {
        folder.write_json("sweep.json", sweep)?;
        sweep.write_parquet(folder.path("sweep.parquet"))?;
        write_svgs(&sweep_figures(sweep), &self.out).map_err(|why| Failure::Failed(why.to_string()))?;
        let settings = serde_json::json!({
            "scenario": self.scenario.display().to_string(),
            "set": self.set,
            "seeds": self.seeds,
            "transfers": self.transfers,
        });
        let seed = sweep.points.first().map_or(0, |point| point.figures.seed);
        Ok(folder.write_json("manifest.json", &started.manifest(seed, None, settings))?)
    }
}
