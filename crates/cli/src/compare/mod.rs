//! `unrack compare`: the main job. What would each fabric do to this program?
//!
//! ```text
//! native runs -> captured run -> runs at injected delays -> line
//!                     |                                       |
//!                     +-> every fabric's simulation ----------+-> table, report
//! ```
//! Each step leaves its file in the run folder.

mod measured;
mod requirements;
mod simulated;

use crate::failure::Failure;
use crate::runs::progress::Steps;
use measured::{Measured, Plan};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_paging::{Input, Job, fit};
use unrack_rack::Protocol;
use unrack_record::{Capture, Comparison, FabricResult, Injection, RunFolder, Started};
use unrack_report::{Report, Run};
use unrack_units::{Rate, Share};

pub const EXAMPLES: &str = "\
Examples:
  unrack compare -- python3 job.py                     a quarter local, four fabrics
  unrack compare --local 10% --fabric edm,cxl -- ./program
  unrack compare --nodes 32 --rate 40Gbps --out runs/sort -- sort big.txt

The program runs about ten times: natively, once captured, several times with delays well above the \
pager's own cost, and at a few other local shares. It must not need a terminal or change what it reads. \
Its output goes to files in the run folder, which also gets trace.parquet, a completions table for each \
fabric, summary.json and report.html.";

#[derive(clap::Args)]
pub struct Args {
    /// Memory that stays local: a share of the program's footprint, or a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    /// Fabrics to simulate, with commas between them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "ideal,edm,cxl,dctcp",
          value_parser = parse_fabric)]
    fabric: Vec<Protocol>,
    /// Nodes of the rack: half compute blades that all run the program, half memory blades
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1024))]
    nodes: u32,
    /// Rate of every link, in the simulation and for injected delays
    #[arg(long, value_name = "RATE", default_value = "100Gbps")]
    rate: Rate,
    /// Page transfers to simulate for each fabric, over all blades: the middle of a longer run
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    transfers: u64,
    /// Runs at each injected delay; also native runs
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run folder: made, or replaced if it is an earlier one
    #[arg(long, value_name = "DIR", default_value = "unrack-compare")]
    out: PathBuf,
    /// Print summary.json instead of the table
    #[arg(long)]
    json: bool,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

fn parse_fabric(name: &str) -> Result<Protocol, String> {
    // The others are compared around one switch.
    let fits = |protocol: &Protocol| !protocol.is_direct();
    let names: Vec<_> = Protocol::ALL.into_iter().filter(fits).map(Protocol::name).collect();
    Protocol::from_name(name)
        .filter(fits)
        .ok_or_else(|| format!("not a fabric around a switch of this version: use {}", names.join(", ")))
}

pub fn main(args: Args) -> Result<ExitCode, Failure> {
    let mut job = Job::prepare(&args.command)?;
    job.input = Input::repeatable()?;
    let folder = RunFolder::create(&args.out)?;
    let started = Started::now();
    let steps = Steps::new(measured::reckoned(args.repeat) + args.fabric.len() as f64 * simulated::RECKONED);
    let plan = Plan { local: args.local, rate: args.rate, repeat: args.repeat, seed: args.seed };
    let measured = measured::measure(&job, &plan, &folder, &steps)?;
    let scenario = simulated::scenario(&args.fabric, args.nodes, args.rate, args.seed);
    let simulations = simulated::simulate(&scenario, &args, &measured, &folder, &steps)?;
    let comparison = conclude(&args, &job, &measured, simulations);
    folder.write_json("summary.json", &comparison)?;
    let settings =
        serde_json::json!({ "nodes": args.nodes, "transfers": args.transfers, "repeat": args.repeat });
    folder.write_json("manifest.json", &started.manifest(args.seed, Some(scenario), settings))?;
    steps.begin("writing the report");
    let report = folder.path("report.html");
    Report::of(vec![Run::read(&args.out).map_err(failed)?]).write(&report).map_err(failed)?;
    steps.finish();
    if args.json {
        println!("{}", serde_json::to_string_pretty(&comparison).map_err(failed)?);
    } else {
        println!("{}", unrack_report::comparison_text(&comparison));
        println!("Report: {}", report.display());
    }
    Ok(ExitCode::SUCCESS)
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

fn conclude(
    args: &Args,
    job: &Job,
    measured: &Measured,
    simulations: Vec<simulated::Simulation>,
) -> Comparison {
    let native_s = measured.native.median_s;
    let results = simulations.into_iter().map(|simulation| {
        let slowdown = fit::slowdown(native_s, &measured.fit, simulation.fetch_us.mean * 1e3);
        FabricResult {
            fabric: simulation.fabric,
            completion_over_ideal: simulation.over_ideal,
            fetch_us: simulation.fetch_us,
            slowdown: slowdown.value,
            slowdown_ci95: slowdown.ci95,
            slowdown_replay: simulation.replay,
            simulation: simulation.summary,
        }
    });
    Comparison {
        version: env!("CARGO_PKG_VERSION").into(),
        command: job.words(),
        seed: args.seed,
        local: args.local.to_string(),
        local_bytes: measured.local.get(),
        footprint_bytes: measured.footprint.get(),
        native: measured.native.clone(),
        injection: Injection {
            points: measured.points.clone(),
            fit: measured.fit.clone(),
            floor_ns: measured.calibration.floor_ns,
            bandwidth_bps: args.rate.as_bps(),
        },
        capture: Capture {
            fetches: measured.captured.tally.fetches,
            write_backs: measured.captured.tally.write_backs,
            threads: measured.captured.tally.threads,
            run_s: measured.captured.wall_s,
        },
        fabrics: results.collect(),
        requirements: requirements::of(measured),
        warnings: measured.warnings.clone(),
    }
}
