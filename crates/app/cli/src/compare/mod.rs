//! `unrack compare`, the main job: the effect of each fabric on a program.
//!
//! ```text
//! native runs -> captured run -> runs at injected delays -> line
//!                     |                                       |
//!                     +-> every fabric's simulation ----------+-> table, report
//! ```
//! Each step leaves its file in the run folder. Results that other work on the machine spoilt are withheld, with the
//! reason.

mod line_fabrics;
mod lines;
mod measured;
mod rack;
mod requirements;
mod simulated;

use crate::completions;
use crate::fail_if::{self, FailIf, Shape};
use crate::failure::Failure;
use crate::folder;
use crate::lines::placed::Rule;
use crate::runs::budget::{self, Budget};
use crate::runs::kept::Kept;
use crate::runs::progress::Steps;
use crate::runs::survey::Survey;
use crate::runs::{DISTURBED, Done, Runner};
use crate::stdout::{print, print_answer};
use clap_complete::engine::ArgValueCompleter;
use measured::Measured;
use rack::{MemoryScope, Rack};
use simulated::{Simulation, Simulator};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;
use unrack_build::build;
use unrack_paging::{CheckedProgram, Input};
use unrack_rack::{Profile, Protocol};
use unrack_record::{
    AccessUnit, Capture, Comparison, FabricResult, Injection, Purpose, RunFolder, Started, Warning,
};
use unrack_report::{RecordedRun, Report};
use unrack_units::nearest::hint;
use unrack_units::{Rate, Share, Time};

pub(crate) const EXAMPLES: &str = "\
Examples:
  unrack compare -- python3 job.py                     a quarter local, four fabrics
  unrack compare --local 10% --fabric edm,cxl -- ./program
  unrack compare --fabric edm --fail-if 'fabrics.edm.slowdown>1.05' -- ./program
  unrack compare --nodes 32 --rate 40Gbps --out runs/sort -- sort big.txt
  unrack compare --rack leaf-spine --scope rack --nodes 144 --rate 40Gbps --fabric pfabric,dctcp -- ./program
  unrack compare --budget 2m --repeat 5 -- ./program   as sure as two minutes allow
  unrack compare --access lines -- ./program           loads and stores instead of page faults

The program runs about 16 times: natively, once captured, at five delays well above the pager's own cost, \
and at a few other local shares. It must not need a terminal, or change its input files. Its output goes to files in \
the run folder, which also gets trace.parquet, a completions table for each fabric, summary.json \
and report.html.

Every answer has a 95 % interval. Runs that other work on the machine disturbed are not used; they are repeated, \
unless most runs were disturbed. Within --budget the command waits for other work to end. Where it does not, disturbed runs are \
used, and answers are rough: marked by ~, with wider intervals. An answer that is still too uncertain is withheld, with the reason \
and what to do.";

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Unit in which the program gets at far memory: `pages` by page faults, `lines` by loads and stores, or `both`
    #[arg(long, value_name = "UNIT", default_value = "pages", value_parser = lines::parse_access)]
    access: AccessUnit,
    /// Memory that stays local: a share of the program's footprint, or a size
    #[arg(long, value_name = "SHARE", default_value = "25%")]
    local: Share,
    #[arg(long, value_name = "RULE", default_value = "interleaved", help = crate::lines::placed::HELP)]
    placement: Rule,
    /// Fabrics to simulate, with commas between them
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "ideal,edm,cxl,dctcp",
          value_parser = parse_fabric, add = ArgValueCompleter::new(completions::fabrics))]
    fabric: Vec<Protocol>,
    /// Network between the nodes
    #[arg(long, value_enum, default_value = "star")]
    rack: Rack,
    /// Memory that a compute blade uses
    #[arg(long, value_enum, default_value = "datacenter")]
    scope: MemoryScope,
    /// Nodes of the rack: half compute blades that all run the program, half memory blades
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(2..=1024))]
    nodes: u32,
    /// Rate of every link, in the simulation and for injected delays
    #[arg(long, value_name = "RATE", default_value = "100Gbps")]
    rate: Rate,
    /// Pages or lines to simulate for each fabric, over all blades: of pages, from the middle of the run
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    transfers: u64,
    /// Rounds of runs: first one run at each injected delay, then each time one at the smallest and one at the
    /// largest; there are 3 more native runs than rounds
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..=100))]
    repeat: u32,
    #[arg(long, value_name = "TIME", value_parser = budget::parse, help = budget::HELP)]
    budget: Option<Time>,
    /// Seed of all random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Run folder: created, or rewritten if it has the same command, local share, fabrics and rack
    #[arg(long, value_name = "DIR", default_value = "unrack-compare")]
    out: PathBuf,
    /// Replace the run in that folder, whatever it is of
    #[arg(long)]
    replace: bool,
    /// Print summary.json instead of the table
    #[arg(long)]
    json: bool,
    #[arg(long, value_name = "EXPRESSION", help = fail_if::HELP)]
    fail_if: Option<FailIf>,
    /// The program and its arguments
    #[arg(last = true, required = true, value_name = "CMD")]
    command: Vec<OsString>,
}

/// Returns the protocol of this name, if it runs around one switch, as the rack of a comparison is.
fn parse_fabric(name: &str) -> Result<Protocol, String> {
    let known = unrack_sim::known();
    let around_a_switch = |profile: &Profile| profile.networks.have_switches();
    let found = known.protocol(name).filter(|protocol| around_a_switch(protocol.profile()));
    found.ok_or_else(|| {
        let names = known.names(around_a_switch);
        format!("not a fabric around a switch of this version{}", hint(name, &names))
    })
}

/// Runs `unrack compare`.
pub(crate) fn main(args: Args) -> Result<ExitCode, Failure> {
    if args.access != AccessUnit::Pages {
        return lines::main(&args);
    }
    if let Some(limit) = &args.fail_if {
        let fabrics = args.fabric.iter().map(|fabric| fabric.name().to_string()).collect();
        limit.check(&Shape::from_type::<Comparison>().with_elements("fabrics", fabrics))?;
    }
    let budget = Budget::new(args.budget);
    let mut job = CheckedProgram::prepare(&args.command)?;
    job.input = Input::repeatable()?;
    let started = Started::now(build());
    let scenario = args.scenario()?;
    let folder = folder::create(&args.out, &args.purpose(&job.words()), args.replace)?;
    let steps = Steps::until(budget.until());
    let comparison = args.compare(&job, &folder, &scenario, &budget, &steps)?;
    let comparison = Comparison { machine: Some(started.machine()), ..comparison };
    folder.write_json("summary.json", &comparison)?;
    let settings =
        serde_json::json!({ "nodes": args.nodes, "transfers": args.transfers, "repeat": args.repeat });
    folder.write_json("manifest.json", &started.manifest(args.seed, Some(scenario), settings))?;
    steps.begin("writing the report");
    let report = folder.path("report.html");
    Report::from_runs(vec![RecordedRun::read(&args.out).map_err(failed)?]).write(&report).map_err(failed)?;
    steps.finish();
    if args.json {
        print(&(serde_json::to_string_pretty(&comparison).map_err(failed)? + "\n"))?;
    } else {
        let text = unrack_report::comparison_text(&comparison);
        print_answer(&format!("{text}\nReport: {}\n", report.display()))?;
    }
    args.fail_if.iter().try_for_each(|limit| limit.judge(&comparison))?;
    Ok(ExitCode::SUCCESS)
}

impl Args {
    /// Returns the run's purpose; runs with the same purpose may replace each other. The amount of work is not part of
    /// it.
    fn purpose(&self, words: &[String]) -> Purpose {
        let fabrics: Vec<_> = self.fabric.iter().map(|fabric| fabric.name()).collect();
        let question = serde_json::json!({
            "command": words, "folder": std::env::current_dir().ok(), "local": self.local.to_string(),
            "fabrics": fabrics, "rack": format!("{:?} {:?}", self.rack, self.scope), "nodes": self.nodes, "rate": self.rate.to_string(), "seed": self.seed,
            "access": self.access, "placement": self.placement.name(),
        });
        let object = format!("--local {} --fabric {} -- {}", self.local, fabrics.join(","), words.join(" "));
        Purpose::new("compare", object, question.to_string())
    }
}

fn failed(error: impl std::fmt::Display) -> Failure {
    Failure::Failed(error.to_string())
}

impl Args {
    fn compare(
        &self,
        job: &CheckedProgram,
        folder: &RunFolder,
        scenario: &str,
        budget: &Budget,
        steps: &Steps,
    ) -> Result<Comparison, Failure> {
        let kept = Kept::in_memory();
        let runner = Runner { job, folder, rate: self.rate, seed: self.seed };
        let survey = Survey::begin(&runner, &kept, budget, steps, self.repeat)?;
        let local = measured::local(&survey, self.local)?;
        let simulator = Simulator::new(self, local, scenario, folder)?;
        let measured = measured::measure(&survey, local, &simulator)?;
        let simulations = simulator.run(&measured, budget, steps)?;
        Ok(conclude(self, &survey, measured, simulations))
    }
}

fn conclude(
    args: &Args,
    survey: &Survey,
    measured: Measured,
    simulations: Vec<Result<Simulation, Warning>>,
) -> Comparison {
    let fabrics = args.fabric.iter().map(|fabric| fabric.name()).zip(&simulations);
    let warnings = warnings(args, survey, &measured, &simulations);
    Comparison {
        version: env!("CARGO_PKG_VERSION").into(),
        command: survey.runner.job.words(),
        seed: args.seed,
        local: args.local.to_string(),
        local_bytes: measured.local.get(),
        footprint_bytes: measured.footprint.get(),
        fabrics: fabrics.map(|(fabric, simulation)| result(fabric, simulation, &measured)).collect(),
        requirements: requirements::from_measured(&measured, args.rate),
        capture: measured.captured.map(|Done { fetches, write_backs, threads, wall_s, .. }| Capture {
            fetches,
            write_backs,
            threads,
            run_s: wall_s,
        }),
        native: measured.native.ok(),
        injection: Injection {
            points: measured.conclusion.points,
            fit: measured.conclusion.fit,
            withheld: measured.conclusion.withheld,
            floor_ns: measured.floor_ns,
            bandwidth_bps: args.rate.as_bps(),
            page_us: requirements::page_us(args.rate),
        },
        disturbance: survey.disturbance(),
        rough: measured.rough,
        warnings,
        machine: None,
    }
}

/// Returns the result of one fabric, without values that would rest on too little.
fn result(fabric: &str, simulation: &Result<Simulation, Warning>, measured: &Measured) -> FabricResult {
    let shown = simulation.as_ref().map_err(Clone::clone);
    let slowdown = shown.clone().and_then(|shown| measured.conclusion.slowdown(shown.fetch_us.mean * 1e3));
    let (shown, withheld) = (shown.ok(), slowdown.as_ref().err().cloned());
    let slowdown = slowdown.ok();
    FabricResult {
        fabric: fabric.into(),
        completion_over_ideal: shown.map(|shown| shown.over_ideal),
        fetch_us: shown.map(|shown| shown.fetch_us),
        slowdown: slowdown.map(|slowdown| slowdown.value),
        slowdown_ci95: slowdown.map(|slowdown| slowdown.ci95),
        slowdown_replay: shown.and_then(|shown| shown.replay),
        withheld,
        simulation: shown.map_or(serde_json::Value::Null, |shown| shown.summary.clone()),
    }
}

fn warnings(
    args: &Args,
    survey: &Survey,
    measured: &Measured,
    simulations: &[Result<Simulation, Warning>],
) -> Vec<Warning> {
    let mut warnings = survey.warnings();
    if let Some(rough) = &measured.rough {
        // Disturbed runs are used: the one warning says it all.
        warnings.retain(|warning| warning.key != DISTURBED);
        warnings.push(rough.clone());
    }
    warnings.extend(measured.doubts());
    let simulated = simulations.iter().flatten().map(|simulation| simulation.transfers);
    if let Some(fewest) = simulated.min().filter(|fewest| *fewest < args.transfers) {
        let text = format!("the budget left time to simulate {fewest} of {} transfers", args.transfers);
        warnings.push(Warning::new("budget", text));
    }
    warnings
}
