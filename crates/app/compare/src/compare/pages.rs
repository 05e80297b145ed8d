//! Comparison of fabrics by page faults.
//!
//! ```text
//! native runs -> captured run -> runs at injected delays -> line
//!                     |                                       |
//!                     +-> every fabric's simulation ----------+-> table, report
//! ```
//! Each step writes its file to the run folder. Results that other work on the machine has disturbed are withheld, and the answer states
//! the reason.

use super::measured::{self, MeasuredRuns};
use super::question::ComparisonQuestion;
use super::requirements;
use super::simulated::{FabricResults, Simulator};
use crate::asking::QuestionCaller;
use crate::budget::RunBudget;
use crate::error::Error;
use crate::folder;
use crate::runs::kept::KeptRuns;
use crate::runs::maker::RunMaker;
use crate::runs::program::MeasuredProgram;
use crate::runs::runner::Runner;
use crate::runs::survey::Survey;
use crate::runs::task::{DISTURBED, TaskResult};
use crate::steps::QuestionSteps;
use std::path::PathBuf;
use unrack_record::{CapturedRun, Comparison, FabricResult, Injection, RunFolder, Warning};

/// Answers a question about page faults. Returns the answer and the path of its report.
///
/// # Errors
/// If the question cannot be answered, or the run folder cannot be written.
pub(super) fn ask(
    question: &ComparisonQuestion,
    asking: QuestionCaller,
) -> Result<(Comparison, PathBuf), Error> {
    let MeasuredProgram { budget, maker, started } =
        MeasuredProgram::prepare(&question.command, question.budget, asking)?;
    let scenario = question.scenario()?;
    let folder = folder::create(&question.out, &question.purpose(&maker.words()), question.replace)?;
    let steps = QuestionSteps::until(asking, budget.until());
    let comparison = compare(question, &*maker, &folder, &scenario, &budget, &steps)?;
    let comparison = Comparison { machine: Some(started.machine()), ..comparison };
    folder.write_json("summary.json", &comparison)?;
    let settings = serde_json::json!({
        "nodes": question.nodes, "transfers": question.transfers, "repeat": question.repeat,
    });
    folder.write_json("manifest.json", &started.manifest(question.seed, Some(scenario), settings))?;
    steps.begin("writing the report")?;
    let report = folder::report(&question.out, &folder)?;
    steps.finish();
    Ok((comparison, report))
}

/// Runs the program, simulates the fabrics, and draws the conclusions.
///
/// # Errors
/// If a run or a simulation fails.
pub(super) fn compare(
    question: &ComparisonQuestion,
    maker: &dyn RunMaker,
    folder: &RunFolder,
    scenario: &str,
    budget: &RunBudget,
    steps: &QuestionSteps,
) -> Result<Comparison, Error> {
    let kept = KeptRuns::in_memory();
    let runner = Runner { maker, folder, rate: question.rate, seed: question.seed };
    let survey = Survey::begin(&runner, &kept, budget, steps, question.repeat)?;
    let local = measured::local(&survey, question.local)?;
    let simulator = Simulator::new(question, local, scenario, folder)?;
    let measured = measured::measure(&survey, local, &simulator)?;
    let simulations = simulator.run(&measured, budget, steps)?;
    Ok(conclude(question, &survey, measured, simulations))
}

fn conclude(
    question: &ComparisonQuestion,
    survey: &Survey,
    measured: MeasuredRuns,
    simulations: Vec<Result<FabricResults, Warning>>,
) -> Comparison {
    let fabrics = question.fabrics.iter().map(|fabric| fabric.name()).zip(&simulations);
    let warnings = warnings(question, survey, &measured, &simulations);
    Comparison {
        version: env!("CARGO_PKG_VERSION").into(),
        command: survey.runner.maker.words(),
        seed: question.seed,
        local: question.local.to_string(),
        local_bytes: measured.local.get(),
        footprint_bytes: measured.footprint.get(),
        fabrics: fabrics.map(|(fabric, simulation)| result(fabric, simulation, &measured)).collect(),
        requirements: requirements::from_measured(&measured, question.rate),
        capture: measured.captured.map(|TaskResult { fetches, write_backs, threads, wall_s, .. }| {
            CapturedRun { fetches, write_backs, threads, run_s: wall_s }
        }),
        native: measured.native.ok(),
        injection: Injection {
            points: measured.conclusion.points,
            fit: measured.conclusion.fit,
            withheld: measured.conclusion.withheld,
            floor_ns: measured.floor_ns,
            bandwidth_bps: question.rate.as_bps(),
            page_us: requirements::page_us(question.rate),
        },
        disturbance: survey.disturbance(),
        rough: measured.rough,
        warnings,
        machine: None,
    }
}

/// Returns the result of one fabric. Values for which there is too little evidence are left out.
fn result(
    fabric: &str,
    simulation: &Result<FabricResults, Warning>,
    measured: &MeasuredRuns,
) -> FabricResult {
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
    question: &ComparisonQuestion,
    survey: &Survey,
    measured: &MeasuredRuns,
    simulations: &[Result<FabricResults, Warning>],
) -> Vec<Warning> {
    let mut warnings = survey.warnings();
    if let Some(rough) = &measured.rough {
        // If disturbed runs are used, the warning `rough` replaces those about each disturbed run.
        warnings.retain(|warning| warning.key != DISTURBED);
        warnings.push(rough.clone());
    }
    warnings.extend(measured.doubts());
    let simulated = simulations.iter().flatten().map(|simulation| simulation.transfers);
    if let Some(fewest) = simulated.min().filter(|fewest| *fewest < question.transfers) {
        let text = format!("the budget left time to simulate {fewest} of {} transfers", question.transfers);
        warnings.push(Warning::new("budget", text));
    }
    warnings
}
