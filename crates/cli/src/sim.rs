//! `unrack sim`: one scenario, simulated.

pub mod progress;
pub mod tables;
mod watch;
pub mod words;
pub mod work;

use self::watch::Explained;
use crate::failure::{Failure, say};
use crate::{scenario, stdout};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use unrack_rack::ValidScenario;
use unrack_record::{RunFolder, Started};
use unrack_sim::scenario::excluded;
use unrack_sim::{Finished, Setup, SetupError, Summary, Work};

pub const EXAMPLES: &str = "\
Examples:
  unrack sim examples/star-edm.toml
  unrack sim examples/star-edm.toml --set fabric.protocol=cxl --set workload.load=0.5
  unrack sim examples/star-edm.toml --out runs/edm --json | jq .slowdown.p99
  unrack report runs/edm -o report.html
  unrack sim examples/leaf-spine-dctcp.toml --threads 2
  unrack sim examples/star-dctcp.toml --explain 4711
  unrack sim examples/star-dctcp.toml --pcap one.pcapng --perfetto one.json --only message=4711

With --out, the folder holds the summary, the scenario in full, and as Parquet every message and what \
pages would have waited (for `unrack run --completions`). The same scenario and seed give the same tables, \
byte for byte.";

#[derive(clap::Args)]
pub struct Args {
    /// The scenario file
    scenario: PathBuf,
    /// Replace a value of the file, such as network.link.rate=400Gbps
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Write summary and tables to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    /// Replay at most so many transfers of a captured trace, over all its copies: the middle of the run
    #[arg(long, value_name = "N", default_value_t = work::MOST_TRANSFERS)]
    transfers: u64,
    /// Split the run over so many threads, by racks; the results are the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    watch: watch::Args,
}

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let started = Started::now();
    let (scenario, setup) = scenario::load(&args.scenario, &args.set)?;
    let work = work::checked(&scenario, &setup, args.transfers)?;
    tell_window(&work);
    let folder = args.folder()?;
    let clock = Instant::now();
    let name = scenario.protocol.name();
    let refused = |error: SetupError| match error.key.starts_with("--") {
        true => Failure::Usage(error.to_string()),
        false => Failure::from(error.in_scenario(&scenario)),
    };
    let (done, explained) = match args.watch.open(&setup, name)? {
        None if args.threads > 1 => {
            (progress::split(name, &setup, &work, args.threads).map_err(refused)?, None)
        }
        None => (progress::run(name, &setup, &work).map_err(refused)?, None),
        Some(_) if args.threads > 1 => {
            return Err(Failure::Usage(
                "--threads: a run that is looked at has one thread; leave it out".into(),
            ));
        }
        Some(watching) => {
            watching.run(|watch| progress::watched(name, &setup, &work, watch).map_err(refused))?
        }
    };
    let summary = done.summary(clock.elapsed().as_secs_f64(), excluded(&scenario, &done.run));
    if let Some(folder) = &folder {
        args.save(folder, &scenario, &setup, &done, &summary, &started)?;
    }
    args.tell(&summary, explained.as_ref())?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Whether results can be written, before an hour of work is lost.
    fn folder(&self) -> Result<Option<RunFolder>, Failure> {
        let folder = self.out.as_ref().map(RunFolder::create).transpose();
        folder.map_err(|why| Failure::Usage(why.to_string()))
    }

    /// The manifest comes last: with it, the run is whole.
    fn save(
        &self,
        folder: &RunFolder,
        scenario: &ValidScenario,
        setup: &Setup,
        done: &Finished,
        summary: &Summary,
        started: &Started,
    ) -> Result<(), Failure> {
        let text = scenario.explain();
        tables::write_tables(folder, done, &setup.network)?;
        folder.write_json("summary.json", summary)?;
        unrack_record::atomic_write(folder.path("scenario.toml"), text.as_bytes())?;
        let settings = serde_json::json!({
            "scenario": self.scenario.display().to_string(),
            "scenario_hash": scenario.hash(),
            "set": self.set,
            "transfers": self.transfers,
        });
        Ok(folder.write_json("manifest.json", &started.manifest(scenario.seed, Some(text), settings))?)
    }

    fn tell(&self, summary: &Summary, explained: Option<&Explained>) -> Result<(), Failure> {
        let name = self.scenario.file_stem().unwrap_or_default().to_string_lossy();
        let text = match self.json {
            true => object(summary, explained),
            false => words::table(&name, summary).map(|table| match explained {
                Some(explained) => format!("{table}\n{}", explained.text()),
                None => table,
            }),
        };
        stdout::print(&text.map_err(|why| Failure::Failed(why.to_string()))?)?;
        words::unfinished(summary).iter().for_each(|text| say(text));
        let files = self.out.iter().map(PathBuf::as_path).chain(self.watch.files());
        files.for_each(|path| say(&format!("wrote {}", path.display())));
        Ok(())
    }
}

/// One JSON object: the summary, and `explained` if a message was asked for.
fn object(summary: &Summary, explained: Option<&Explained>) -> serde_json::Result<String> {
    let Some(explained) = explained else { return Ok(serde_json::to_string(summary)? + "\n") };
    let mut object = serde_json::to_value(summary)?;
    object["explained"] = explained.json();
    Ok(object.to_string() + "\n")
}

/// A trace that is replayed in part.
fn tell_window(work: &Work) {
    if let Work::Replay(trace, spec) = work
        && let window = trace.window()
        && window.rows < window.rows_in_all
    {
        say(&format!(
            "replaying {} of the trace's {} transfers on each of {} compute blades, the middle of the run \
             (--transfers asks for more)",
            window.rows, window.rows_in_all, spec.blades.compute
        ));
    }
}
