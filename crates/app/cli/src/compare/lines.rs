//! `unrack compare --access lines` and `both`: loads and stores of the program, alone or beside its pages.

use super::line_fabrics::Network;
use super::{Args, failed};
use crate::fail_if::Shape;
use crate::failure::{Failure, say};
use crate::folder;
use crate::lines::answer::{self, Basis, Native};
use crate::lines::closed_loop::ClosedLoop;
use crate::lines::instrumented::Instrumented;
use crate::lines::machine::Machine;
use crate::lines::model::Model;
use crate::lines::placed::Placed;
use crate::lines::{self, native};
use crate::runs::budget::Budget;
use crate::runs::progress::Steps;
use crate::runs::quiet;
use crate::stdout::print_answer;
use std::process::ExitCode;
use std::time::{Duration, Instant};
use unrack_build::build;
use unrack_lines_run::Tools;
use unrack_paging::{CheckedProgram, Input, TimedRun};
use unrack_rack::Protocol;
use unrack_record::{
    AccessUnit, Comparison, LinesFabric, LinesResult, LinesSummary, RunFolder, Started, Stated, Warning,
};
use unrack_report::{RecordedRun, Report};
use unrack_units::nearest::hint;

/// Output file of the instrumented run, and of native ones, in the run folder.
const INSTRUMENTED_OUTPUT: &str = "instrumented.out";
const NATIVE_OUTPUT: &str = "native.out";
/// Times of the core model and of a fabric's replay that a budget reserves, in seconds: most take less.
const MODEL_S: f64 = 10.0;
const FABRIC_S: f64 = 5.0;
/// Shortest instrumented run that is begun: shorter ones have too few windows.
const LEAST: Duration = Duration::from_secs(1);
/// Parses the value of `--access`.
pub(super) fn parse_access(name: &str) -> Result<AccessUnit, String> {
    match name {
        "pages" => Ok(AccessUnit::Pages),
        "lines" => Ok(AccessUnit::Lines),
        "both" => Ok(AccessUnit::Both),
        _ => Err(format!("no unit of access{}", hint(name, &["pages", "lines", "both"]))),
    }
}

/// Runs `unrack compare` for lines, or for both.
pub(super) fn main(args: &Args) -> Result<ExitCode, Failure> {
    if let Some(limit) = &args.fail_if {
        limit.check(&shape(args))?;
    }
    let network = args.rack.network(args.nodes, args.rate)?;
    let tools = lines::recorder()?;
    let started = Started::now(build());
    let budget = Budget::new(args.budget);
    let words: Vec<String> = args.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let folder = folder::create(&args.out, &args.purpose(&words), args.replace)?;
    let steps = Steps::until(budget.until());
    let parts = Parts { args, folder: &folder, budget: &budget, steps: &steps };
    let pages = (args.access == AccessUnit::Both).then(|| parts.pages()).transpose()?;
    let summary = LinesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        seed: args.seed,
        access: args.access,
        lines: parts.lines(&tools, &words)?,
        command: words,
        pages,
        machine: Some(started.machine()),
    };
    folder.write_json("summary.json", &summary)?;
    let settings = serde_json::json!({
        "nodes": args.nodes, "repeat": args.repeat, "transfers": args.transfers, "access": args.access,
        "placement": args.placement.name(), "network": network,
    });
    folder.write_json("manifest.json", &started.manifest(args.seed, None, settings))?;
    steps.begin("writing the report");
    let report = folder.path("report.html");
    Report::from_runs(vec![RecordedRun::read(&args.out).map_err(failed)?]).write(&report).map_err(failed)?;
    steps.finish();
    print_answer(&told(args, &summary, &report)?)?;
    args.fail_if.iter().try_for_each(|limit| limit.judge(&summary))?;
    Ok(ExitCode::SUCCESS)
}

/// Returns the paths that a summary has, such as `lines.fabrics.edm.slowdown`.
fn shape(args: &Args) -> Shape {
    let fabrics = || args.fabric.iter().map(|fabric| fabric.name().into()).collect();
    let lines = Shape::from_type::<LinesResult>().with_elements("fabrics", fabrics());
    let pages = Shape::from_type::<Comparison>().with_elements("fabrics", fabrics());
    let summary = Shape::from_type::<LinesSummary>().with("lines", lines);
    if args.access == AccessUnit::Both { summary.with("pages", pages) } else { summary }
}

/// Returns what is printed.
fn told(args: &Args, summary: &LinesSummary, report: &std::path::Path) -> Result<String, Failure> {
    if args.json {
        return Ok(serde_json::to_string_pretty(summary).map_err(failed)? + "\n");
    }
    let pages = summary.pages.as_ref().map(|pages| unrack_report::comparison_text(pages) + "\n");
    let lines = unrack_report::lines_text(summary);
    Ok(format!("{}{lines}Report: {}\n", pages.unwrap_or_default(), report.display()))
}

fn has(warnings: &[Warning], key: &str) -> bool {
    warnings.iter().any(|warning| warning.key == key)
}

/// Parts of a comparison.
struct Parts<'a> {
    args: &'a Args,
    folder: &'a RunFolder,
    budget: &'a Budget,
    steps: &'a Steps,
}

impl Parts<'_> {
    /// Compares fabrics by the program's pages.
    fn pages(&self) -> Result<Comparison, Failure> {
        let args = self.args;
        let mut job = CheckedProgram::prepare(&args.command)?;
        job.input = Input::repeatable()?;
        let scenario = args.scenario()?;
        args.compare(&job, self.folder, &scenario, self.budget, self.steps)
    }

    fn lines(&self, tools: &Tools, words: &[String]) -> Result<LinesResult, Failure> {
        let args = self.args;
        self.wait_for_quiet();
        let native = self.natively()?;
        let calibration = lines::calibrated(|what| self.steps.begin(what))?;
        let placed = self.placed()?;
        let options = lines::options(args.seed, &calibration, &placed);
        let deadline = self.deadline()?;
        self.steps.begin("instrumented run");
        let output = self.folder.path(INSTRUMENTED_OUTPUT);
        let to = (&Input::Empty, Some(output.as_path()));
        let instrumented = Instrumented::run(tools, &args.command, &options, to, deadline)?;
        answer::write_heat(self.folder, &instrumented, words.to_vec())?;
        let network = Network::new(args)?;
        let unloaded_ns = args.fabric.iter().map(|fabric| network.unloaded_ns(*fabric));
        let unloaded_ns = unloaded_ns.collect::<Result<Vec<f64>, Failure>>()?;
        self.steps.begin("running the core model");
        let machine = Machine::new(&instrumented.processor, &calibration);
        let model = Model::new(&instrumented, machine, &placed, &unloaded_ns)?;
        let basis = Basis::new(&instrumented, &calibration, Some(native), &placed, model);
        let fabrics = self.fabrics(&basis, &network, &unloaded_ns)?;
        let mut result = LinesResult { fabrics, ..basis.result() };
        let on_fabrics =
            result.fabrics.iter().flat_map(|fabric| [&fabric.slowdown, &fabric.slowdown_closed_loop]);
        let below_one = answer::below_one(on_fabrics).filter(|_| !has(&result.warnings, "below-one"));
        result.warnings.extend(below_one);
        Ok(result)
    }

    /// Puts the program's requests on each fabric.
    fn fabrics(
        &self,
        basis: &Basis,
        network: &Network,
        unloaded_ns: &[f64],
    ) -> Result<Vec<LinesFabric>, Failure> {
        let model = match basis.run().and_then(|_| basis.model.as_ref().map_err(Clone::clone)) {
            Ok(model) => model,
            Err(why) => {
                let withheld = |(fabric, ns): (&Protocol, &f64)| LinesFabric {
                    fabric: fabric.name().into(),
                    unloaded_ns: Some(*ns),
                    read_ns: None,
                    slowdown: Stated::withheld(why.clone()),
                    slowdown_closed_loop: Stated::withheld(why.clone()),
                    simulation: serde_json::Value::Null,
                };
                return Ok(self.args.fabric.iter().zip(unloaded_ns).map(withheld).collect());
            }
        };
        let closed = ClosedLoop::new(basis.instrumented, model)?;
        let fabric = |(number, (fabric, ns)): (usize, (&Protocol, &f64))| {
            self.steps.begin(format!("simulating {}", fabric.name()));
            let simulated = network.simulated(&closed, (number, *fabric), self.budget)?;
            Ok(LinesFabric {
                fabric: fabric.name().into(),
                unloaded_ns: Some(*ns),
                read_ns: simulated.read_ns,
                slowdown: basis.slowdown(model.fabric_delay_s(number)),
                slowdown_closed_loop: simulated
                    .delay_s
                    .map_or_else(Stated::withheld, |delay_s| basis.slowdown(delay_s)),
                simulation: simulated.summary,
            })
        };
        self.args.fabric.iter().zip(unloaded_ns).enumerate().map(fabric).collect()
    }

    /// Returns the placement that is asked for. What needs a footprint has the program run once more, or its footprint
    /// remembered.
    fn placed(&self) -> Result<Placed, Failure> {
        let args = self.args;
        let footprint = match args.placement.needs_footprint(args.local) {
            true => {
                self.steps.begin("measuring the footprint");
                Some(lines::footprint(&args.command, &Input::Empty)?)
            }
            false => None,
        };
        args.placement.placed(args.local, footprint)
    }

    /// Returns the time by which the instrumented run must have ended: the model and the fabrics need theirs, at most half.
    ///
    /// # Errors
    /// If the budget is spent.
    fn deadline(&self) -> Result<Option<Instant>, Failure> {
        self.budget.reserve(MODEL_S + FABRIC_S * self.args.fabric.len() as f64);
        let deadline = self.budget.deadline();
        self.budget.release();
        match deadline {
            Some(deadline) if deadline < Instant::now() + LEAST => Err(Failure::Failed(format!(
                "the budget of {} left no time for the instrumented run: give a larger --budget",
                self.budget.text()
            ))),
            deadline => Ok(deadline),
        }
    }

    /// Waits until other work has left the machine, for a part of the budget.
    fn wait_for_quiet(&self) {
        let Some(why) = quiet::look().disturbance() else { return };
        let Some(until) = quiet::first_until(self.budget) else { return };
        self.steps.begin(format!("waiting for other work to end ({why})"));
        say(&quiet::said(&why, until));
        if !quiet::wait(until) {
            say(quiet::STILL_BUSY);
        }
    }

    fn natively(&self) -> Result<Native, Failure> {
        let output = self.folder.path(NATIVE_OUTPUT);
        let mut runs: Vec<TimedRun> = Vec::new();
        for nth in 0..=self.args.repeat {
            if runs.first().is_some_and(|first| !self.budget.allows(first.wall_s)) {
                break;
            }
            self.steps.begin(format!("native run {}", nth + 1));
            // The first one alone may take the whole budget: without it nothing can be said.
            runs.push(native::run(&self.args.command, &Input::Empty, Some(&output), None)?);
        }
        Ok(Native::from_runs(runs))
    }
}
