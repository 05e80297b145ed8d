//! `unrack sim`: simulates one scenario.

pub(crate) mod progress;
mod watch;
pub(crate) mod words;

use self::watch::Explained;
use crate::completions;
use crate::fail_if::{self, FailIf, ValueShape};
use crate::failure::{CommandFailure, say};
use crate::{folder, scenario, stdout};
use clap_complete::engine::ArgValueCompleter;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;
use unrack_build::build;
use unrack_grid::simulation::{FinishedSimulation, SimulationFigures, save};
use unrack_grid::{ScenarioRunError, work};
use unrack_rack::ValidScenario;
use unrack_record::{Machine, RecordError, RunFolder, StartedCommand};
use unrack_report::{ExplainedMessage, explain_figure};
use unrack_sim::scenario::excluded;
use unrack_sim::{SetupError, Summary, Work};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack sim examples/star-edm.toml
  unrack sim examples/star-edm.toml --set fabric.protocol=cxl --set workload.load=0.5
  unrack sim examples/star-edm.toml --out runs/edm --json | jq .slowdown.p99
  unrack sim examples/star-edm.toml --fail-if 'slowdown.p99>3 or completed<messages'
  unrack report runs/edm -o report.html
  unrack sim examples/leaf-spine-dctcp.toml --threads 2
  unrack sim examples/star-dctcp.toml --explain 4711
  unrack sim examples/star-dctcp.toml --pcap one.pcapng --perfetto one.json --only message=4711

With --out, the folder holds the summary, the scenario in full, and two Parquet tables: all messages, and completion \
times of pages (for `unrack run --completions`). With --explain, it also holds that message's time as a picture. \
`unrack report` draws these, and the links if --ports wrote a file named ports*.parquet into the folder. The same scenario and seed give the same tables, \
byte for byte.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// The scenario file, or - for standard input
    scenario: PathBuf,
    /// Replace a value of the file, such as network.link.rate=400Gbps
    #[arg(long, value_name = "KEY=VALUE", add = ArgValueCompleter::new(completions::settings))]
    set: Vec<String>,
    /// Write summary and tables to this folder
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Replace the run in that folder even if it is of another scenario
    #[arg(long, requires = "out")]
    replace: bool,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "EXPRESSION", help = fail_if::HELP)]
    fail_if: Option<FailIf>,
    /// Maximum of transfers to replay from a captured trace, over all its copies, from the middle of the run
    #[arg(long, value_name = "N", default_value_t = work::MOST_TRANSFERS)]
    transfers: u64,
    /// Threads over which to split the run, by racks; the results are the same
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1024))]
    threads: u32,
    #[command(flatten)]
    watch: watch::Args,
}

/// Runs `unrack sim`.
pub(crate) fn main(args: Args) -> Result<ExitCode, CommandFailure> {
    let started = StartedCommand::now(build());
    if let Some(limit) = &args.fail_if {
        limit
            .check(&ValueShape::from_type::<Summary>().with("machine", ValueShape::from_type::<Machine>()))?;
    }
    let (scenario, setup) = scenario::load(&args.scenario, &args.set)?;
    let (work, need) = work::checked(&scenario, &setup, args.transfers)?;
    args.watch.check_memory(&scenario, &setup, &work, need)?;
    tell_window(&work);
    let folder = args.folder(&scenario)?;
    let clock = Instant::now();
    let name = scenario.protocol.name();
    let refused = |error: SetupError| match error.key.starts_with("--") {
        true => CommandFailure::Usage(error.to_string()),
        false => ScenarioRunError::from_run(&error, &scenario).into(),
    };
    let (done, explained) = match args.watch.open(&setup, name)? {
        None if args.threads > 1 => {
            (progress::split(name, &setup, &work, args.threads).map_err(refused)?, None)
        }
        None => (progress::run(name, &setup, &work).map_err(refused)?, None),
        Some(_) if args.threads > 1 => {
            return Err(CommandFailure::Usage(
                "--threads: --ports, --pcap, --perfetto and --explain need one thread; leave it out".into(),
            ));
        }
        Some(watching) => {
            watching.run(|watch| progress::watched(name, &setup, &work, watch).map_err(refused))?
        }
    };
    let excluded = excluded(&scenario, &done.run);
    let warnings = unrack_sim::warnings(&scenario, &setup, &done, excluded);
    let notes = unrack_sim::notes(&scenario, &setup, &done);
    let summary = Summary { warnings, notes, ..done.summary(excluded) };
    let figures = SimulationFigures::new(summary, clock.elapsed().as_secs_f64(), &started);
    let simulated = FinishedSimulation { scenario, setup, done, figures, started };
    if let Some(folder) = &folder {
        let name = args.scenario.display().to_string();
        save(&simulated, folder, &name, &args.set, args.transfers, |folder| {
            explained.as_ref().map_or(Ok(()), |explained| save_explained(folder, explained))
        })?;
    }
    args.tell(&simulated.figures, explained.as_ref())?;
    args.fail_if.iter().try_for_each(|limit| limit.judge(&simulated.figures))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Creates the folder for results, if one is given. This is done before the run, so that an hour of work cannot be lost.
    fn folder(&self, scenario: &ValidScenario) -> Result<Option<RunFolder>, CommandFailure> {
        let Some(out) = &self.out else { return Ok(None) };
        let purpose = folder::of_scenario("sim", &self.scenario, &self.set, scenario)?;
        folder::create(out, &purpose, self.replace).map(Some)
    }

    fn tell(&self, figures: &SimulationFigures, explained: Option<&Explained>) -> Result<(), CommandFailure> {
        let name = self.scenario.file_stem().unwrap_or_default().to_string_lossy();
        let text = match self.json {
            true => object(figures, explained),
            false => words::table(&name, figures).map(|table| match explained {
                Some(explained) => format!("{table}\n{}", explained.text()),
                None => table,
            }),
        };
        stdout::print_answer(&text.map_err(|why| CommandFailure::Failed(why.to_string()))?)?;
        if self.json {
            figures.summary.warnings.iter().for_each(|warning| say(&warning.text));
        }
        let files = self.out.iter().map(PathBuf::as_path).chain(self.watch.files());
        files.for_each(|path| say(&format!("wrote {}", path.display())));
        Ok(())
    }
}

/// Saves the breakdown of a message's time, and its figure.
fn save_explained(folder: &RunFolder, explained: &Explained) -> Result<(), RecordError> {
    let json = explained.json();
    folder.write_json("explain.json", &json)?;
    let explained: ExplainedMessage =
        serde_json::from_value(json).expect("the report reads what is written here");
    let figure = explain_figure(&explained);
    unrack_record::atomic_write(folder.path("explain.svg"), figure.to_svg().as_bytes())?;
    unrack_record::atomic_write(folder.path("explain.vl.json"), figure.to_vega_lite().as_bytes())
}

/// Returns one JSON object: the figures, and also `explained` if the breakdown of a message was requested.
fn object(figures: &SimulationFigures, explained: Option<&Explained>) -> serde_json::Result<String> {
    let Some(explained) = explained else { return Ok(serde_json::to_string(figures)? + "\n") };
    let mut object = serde_json::to_value(figures)?;
    object["explained"] = explained.json();
    Ok(object.to_string() + "\n")
}

/// Prints a message if only a part of a trace is replayed.
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
