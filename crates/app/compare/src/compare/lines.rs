//! Comparison of fabrics by the program's loads and stores, optionally also by its page faults.

use super::line_fabrics::SimulatedRack;
use super::pages;
use super::question::ComparisonQuestion;
use crate::asking::QuestionCaller;
use crate::budget::RunBudget;
use crate::error::Error;
use crate::folder;
use crate::lines::answer::{self, Basis, write_heat};
use crate::lines::calibration::calibrated;
use crate::lines::closed_loop::ClosedLoop;
use crate::lines::instrumented::{Instrumented, Recording};
use crate::lines::native::{self, NativeRuns};
use crate::lines::placed::PlacementSet;
use crate::lines::recorded::{footprint, options};
use crate::load;
use crate::runs::here::OwnRuns;
use crate::steps::QuestionSteps;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use unrack_build::build;
use unrack_lines_run::Tools;
use unrack_paging::{Input, TimedRun};
use unrack_rack::Protocol;
use unrack_record::{
    AccessUnit, Comparison, LinesFabric, LinesResult, LinesSummary, RunFolder, StartedCommand, Stated,
    Warning,
};

/// Output files of the instrumented run and of the native runs, in the run folder.
const INSTRUMENTED_OUTPUT: &str = "instrumented.out";
const NATIVE_OUTPUT: &str = "native.out";
/// Times that a budget reserves for the core model and for the replay on one fabric, in seconds. Most take less.
const MODEL_S: f64 = 10.0;
const FABRIC_S: f64 = 5.0;
/// Shortest instrumented run that is started. A shorter run would record too few windows of instructions.
const LEAST: Duration = Duration::from_secs(1);

/// Answers a question about loads and stores, or about these and page faults. Returns the answer and the path of its report.
///
/// # Errors
/// If the question cannot be answered, or the run folder cannot be written.
pub(super) fn ask(
    question: &ComparisonQuestion,
    asking: QuestionCaller,
) -> Result<(LinesSummary, PathBuf), Error> {
    let network = question.rack.network(question.nodes, question.rate)?;
    let tools = Tools::find()?;
    let started = StartedCommand::now(build());
    let budget = RunBudget::new(question.budget);
    let words: Vec<String> =
        question.command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    let folder = folder::create(&question.out, &question.purpose(&words), question.replace)?;
    let steps = QuestionSteps::until(asking, budget.until());
    let parts = ComparisonParts { question, folder: &folder, budget: &budget, steps: &steps };
    let pages = (question.access == AccessUnit::Both).then(|| parts.pages()).transpose()?;
    let summary = LinesSummary {
        version: env!("CARGO_PKG_VERSION").into(),
        seed: question.seed,
        access: question.access,
        lines: parts.lines(&tools, &words)?,
        command: words,
        pages,
        machine: Some(started.machine()),
    };
    folder.write_json("summary.json", &summary)?;
    let settings = serde_json::json!({
        "nodes": question.nodes, "repeat": question.repeat, "transfers": question.transfers,
        "access": question.access, "placement": question.placement.name(), "network": network,
    });
    folder.write_json("manifest.json", &started.manifest(question.seed, None, settings))?;
    steps.begin("writing the report")?;
    let report = folder::report(&question.out, &folder)?;
    steps.finish();
    Ok((summary, report))
}

fn has(warnings: &[Warning], key: &str) -> bool {
    warnings.iter().any(|warning| warning.key == key)
}

/// State that the parts of a comparison share.
struct ComparisonParts<'a> {
    question: &'a ComparisonQuestion,
    folder: &'a RunFolder,
    budget: &'a RunBudget,
    steps: &'a QuestionSteps<'a>,
}

impl ComparisonParts<'_> {
    /// Compares fabrics by the program's pages.
    fn pages(&self) -> Result<Comparison, Error> {
        let maker = OwnRuns::prepare(&self.question.command)?;
        let scenario = self.question.scenario()?;
        pages::compare(self.question, &maker, self.folder, &scenario, self.budget, self.steps)
    }

    fn lines(&self, tools: &Tools, words: &[String]) -> Result<LinesResult, Error> {
        let question = self.question;
        load::check(&|| Ok(load::look()), self.budget, self.steps)?;
        let native = self.natively()?;
        let calibration = calibrated(self.steps)?;
        let placed = self.placed()?;
        let deadline = self.deadline()?;
        self.steps.begin("instrumented run")?;
        let output = self.folder.path(INSTRUMENTED_OUTPUT);
        let recording = Recording {
            tools,
            command: &question.command,
            options: options(question.seed, &calibration, &placed),
            input: &Input::Empty,
            output: Some(&output),
            deadline,
        };
        let instrumented = Instrumented::run(recording)?;
        write_heat(self.folder, &instrumented, words.to_vec())?;
        let network = SimulatedRack::new(question)?;
        let unloaded_ns = question.fabrics.iter().map(|fabric| network.unloaded_ns(*fabric));
        let unloaded_ns = unloaded_ns.collect::<Result<Vec<f64>, Error>>()?;
        self.steps.begin("running the core model")?;
        let basis = Basis::estimate(&instrumented, &calibration, Some(native), &placed, &unloaded_ns)?;
        let fabrics = self.fabrics(&basis, &network, &unloaded_ns)?;
        let mut result = LinesResult { fabrics, ..basis.result() };
        let on_fabrics =
            result.fabrics.iter().flat_map(|fabric| [&fabric.slowdown, &fabric.slowdown_closed_loop]);
        let below_one = answer::below_one(on_fabrics).filter(|_| !has(&result.warnings, "below-one"));
        result.warnings.extend(below_one);
        Ok(result)
    }

    /// Simulates the program's requests on each fabric.
    fn fabrics(
        &self,
        basis: &Basis,
        network: &SimulatedRack,
        unloaded_ns: &[f64],
    ) -> Result<Vec<LinesFabric>, Error> {
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
                return Ok(self.question.fabrics.iter().zip(unloaded_ns).map(withheld).collect());
            }
        };
        let closed = ClosedLoop::new(basis.instrumented, model)?;
        let fabric = |(number, (fabric, ns)): (usize, (&Protocol, &f64))| {
            self.steps.begin(format!("simulating {}", fabric.name()))?;
            let simulated = network.simulated(&closed, (number, *fabric), self.budget, self.steps)?;
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
        self.question.fabrics.iter().zip(unloaded_ns).enumerate().map(fabric).collect()
    }

    /// Returns the requested placement of pages. If the placement depends on the program's footprint, the footprint is taken from an
    /// earlier run, or measured by another run of the program.
    fn placed(&self) -> Result<PlacementSet, Error> {
        let question = self.question;
        let footprint = match question.placement.needs_footprint(question.local) {
            true => {
                self.steps.begin("measuring the footprint")?;
                Some(footprint(&question.command, &Input::Empty)?)
            }
            false => None,
        };
        question.placement.placed(question.local, footprint)
    }

    /// Returns the time by which the instrumented run must have ended, so that the core model and the simulations keep their reserved time,
    /// which is at most half of the remaining budget.
    ///
    /// # Errors
    /// If the budget is spent.
    fn deadline(&self) -> Result<Option<Instant>, Error> {
        self.budget.reserve(MODEL_S + FABRIC_S * self.question.fabrics.len() as f64);
        let deadline = self.budget.deadline();
        self.budget.release();
        match deadline {
            Some(deadline) if deadline < Instant::now() + LEAST => Err(Error::Failed(format!(
                "the budget of {} left no time for the instrumented run: give a larger --budget",
                self.budget.text()
            ))),
            deadline => Ok(deadline),
        }
    }

    fn natively(&self) -> Result<NativeRuns, Error> {
        let output = self.folder.path(NATIVE_OUTPUT);
        let rounds = self.question.repeat as usize;
        native::repeated(&self.question.command, &Input::Empty, Some(&output), |runs: &[TimedRun]| {
            // The first native run may take the whole budget, because no slowdown can be stated without it.
            if runs.len() > rounds || runs.first().is_some_and(|first| !self.budget.allows(first.wall_s)) {
                return Ok(false);
            }
            self.steps.begin(format!("native run {}", runs.len() + 1))?;
            Ok(true)
        })
    }
}
