//! Simulations of the captured traffic on each fabric.

use super::measured::MeasuredRuns;
use super::question::ComparisonQuestion;
use crate::budget::{self, RunBudget};
use crate::error::Error;
use crate::error::failed;
use crate::left::Kind as Step;
use crate::runs::survey::{Survey, undelayed};
use crate::steps::QuestionSteps;
use std::cell::RefCell;
use std::time::Instant;
use unrack_grid::tables::write_completions;
use unrack_grid::work::captured_rows;
use unrack_rack::{Overrides, Protocol, Scenario, ValidScenario};
use unrack_record::{DistributionSummary, RunFolder, Warning, trace};
use unrack_sim::summary::Excluded;
use unrack_sim::{FabricConfig, Finished, Setup, Work};
use unrack_units::{Bytes, Time};
use unrack_workload::trace::TraceRow;
use unrack_workload::{Kind, Message, Replay, ReplaySpec, TimeOffsets};

/// Divisor of the number of transfers, which gives the size of a trial. A trial precedes each simulation, and predicts its time.
const PIECE: u64 = 30;
/// Minimum number of transfers of a trial. In a smaller trial, start-up takes a considerable part of the time.
const LEAST: u64 = 3_000;

/// Results of one fabric.
pub(super) struct FabricResults {
    /// Maximum number of transfers replayed, over all blades.
    pub transfers: u64,
    pub over_ideal: DistributionSummary,
    pub fetch_us: DistributionSummary,
    pub replay: Option<f64>,
    pub summary: serde_json::Value,
}

/// The simulations of a comparison.
pub(super) struct Simulator<'a> {
    question: &'a ComparisonQuestion,
    local: Bytes,
    scenario: ValidScenario,
    folder: &'a RunFolder,
    /// Predicted time of each fabric's simulation, in seconds.
    predicted_s: RefCell<Vec<f64>>,
}

impl<'a> Simulator<'a> {
    /// Creates the simulations of a question, and checks the scenario.
    pub(super) fn new(
        question: &'a ComparisonQuestion,
        local: Bytes,
        scenario: &str,
        folder: &'a RunFolder,
    ) -> Result<Simulator<'a>, Error> {
        let scenario = Scenario::parse("compare.toml", scenario, &Overrides::none())
            .and_then(unrack_sim::check)
            .map_err(failed)?;
        Ok(Simulator { question, local, scenario, folder, predicted_s: RefCell::default() })
    }

    /// Simulates a part of the captured page transfers on each fabric, to predict the time of the whole simulations, and reserves that time
    /// in the budget. Does nothing if there is no captured run.
    pub(super) fn predict(&self, survey: &Survey) -> Result<(), Error> {
        let Some(captured) = survey.kept.get(undelayed(self.local)) else { return Ok(()) };
        let whole = self.question.transfers;
        let piece = (whole / PIECE).max(LEAST).min(whole);
        let work = self.work(&self.rows()?, captured.wall_s, survey.pace_s(), piece)?;
        for protocol in &self.question.fabrics {
            survey.steps.begin(format!("trying {}", protocol.name()))?;
            let began = Instant::now();
            self.setup(*protocol).run(&work, |now| survey.steps.simulated(now)).map_err(failed)?;
            let predicted_s = began.elapsed().as_secs_f64() * whole as f64 / piece as f64;
            survey.steps.expect(Step::Simulation, predicted_s);
            self.predicted_s.borrow_mut().push(predicted_s);
        }
        survey.budget.reserve(self.predicted_s.borrow().iter().sum());
        Ok(())
    }

    /// Simulates all fabrics in turn. Returns, for each fabric, the results or the reason why it was not simulated.
    pub(super) fn run(
        &self,
        measured: &MeasuredRuns,
        budget: &RunBudget,
        steps: &QuestionSteps,
    ) -> Result<Vec<Result<FabricResults, Warning>>, Error> {
        let captured = match (measured.traffic_doubt(), measured.captured) {
            (None, Some(captured)) => captured,
            (Some(why), _) => return Ok(self.question.fabrics.iter().map(|_| Err(why.clone())).collect()),
            (None, None) => unreachable!("a run that is missing is a doubt"),
        };
        budget.release();
        let (predicted, rows) = (self.predicted_s.borrow(), self.rows()?);
        let run = |(n, protocol): (usize, &Protocol)| {
            let transfers = self.fitting(budget, predicted[n], predicted[n..].iter().sum());
            steps.begin(format!("simulating {}", protocol.name()))?;
            let began = Instant::now();
            let Some(transfers) = transfers else { return Ok(Err(left_out(*protocol, budget))) };
            let work = self.work(&rows, captured.wall_s, measured.pace_s, transfers)?;
            let simulated = self.simulate(*protocol, &work, steps)?;
            steps.done(Step::Simulation, predicted[n], began.elapsed().as_secs_f64());
            Ok(Ok(FabricResults { transfers, ..simulated }))
        };
        self.question.fabrics.iter().enumerate().map(run).collect()
    }

    /// Returns the number of transfers that can be simulated on the next fabric, if the remaining time is divided among the remaining
    /// fabrics in proportion to their predicted times. `None` if too little time is left.
    fn fitting(&self, budget: &RunBudget, predicted_s: f64, of_all_s: f64) -> Option<u64> {
        let part = predicted_s / of_all_s.max(f64::MIN_POSITIVE);
        match budget.left_s() {
            None => Some(self.question.transfers),
            Some(left_s) => budget::fitting(self.question.transfers, LEAST, predicted_s, left_s * part),
        }
    }

    fn rows(&self) -> Result<Vec<TraceRow>, Error> {
        Ok(captured_rows(&trace::read(self.folder.path("trace.parquet"))?.1))
    }

    /// Returns the work of the simulation: the captured program runs on every compute blade, and each blade starts at a different point of
    /// the captured run (DDC §4.1).
    fn work(&self, rows: &[TraceRow], captured_s: f64, native_s: f64, transfers: u64) -> Result<Work, Error> {
        let (blades, seed) = (self.question.blades(), self.question.seed);
        let spec = ReplaySpec { blades, mode: Replay::ClosedLoop, offsets: TimeOffsets::Run, seed };
        let times = (Time::from_secs_f64(captured_s), Some(Time::from_secs_f64(native_s)));
        Work::captured(rows, times, spec, transfers).map_err(failed)
    }

    fn setup(&self, protocol: Protocol) -> Setup {
        Setup::with_fabric(&self.scenario, FabricConfig::default_of(protocol))
    }

    fn simulate(
        &self,
        protocol: Protocol,
        work: &Work,
        steps: &QuestionSteps,
    ) -> Result<FabricResults, Error> {
        let setup = self.setup(protocol);
        let done = setup.run(work, |now| steps.simulated(now)).map_err(failed)?;
        let summary = done.summary(Excluded::default());
        let name = format!("completions-{}.parquet", protocol.name());
        write_completions(&self.folder.path(name), &done, &setup.network)?;
        let fetches = fetches(&done);
        let over_ideal = |(message, completion): &(&Message, Time)| {
            completion.as_ps() as f64 / setup.network.ideal(message).as_ps() as f64
        };
        Ok(FabricResults {
            transfers: self.question.transfers,
            over_ideal: spread(fetches.iter().map(over_ideal).collect()),
            fetch_us: spread(fetches.iter().map(|(_, completion)| completion.as_ns_f64() / 1e3).collect()),
            replay: summary.program.map(|program| program.slowdown),
            summary: serde_json::to_value(&summary).map_err(failed)?,
        })
    }
}

fn left_out(protocol: Protocol, budget: &RunBudget) -> Warning {
    let text = format!(
        "the budget of {} left no time to simulate {}: give a larger --budget",
        budget.text(),
        protocol.name()
    );
    Warning::new("budget", text)
}

/// Returns the fetches that finished, with their completion times.
fn fetches(done: &Finished) -> Vec<(&Message, Time)> {
    let all = done.run.messages.iter().zip(&done.run.outcomes);
    all.filter(|(message, _)| message.kind == Kind::Read)
        .filter_map(|(message, outcome)| Some((message, outcome.completion()?)))
        .collect()
}

/// Returns the mean, the maximum, and percentiles by nearest rank.
pub(super) fn spread(mut values: Vec<f64>) -> DistributionSummary {
    values.sort_by(f64::total_cmp);
    let Some(max) = values.last().copied() else { return DistributionSummary::default() };
    let rank = |p: f64| values[((p * values.len() as f64).ceil() as usize).clamp(1, values.len()) - 1];
    DistributionSummary {
        mean: values.iter().sum::<f64>() / values.len() as f64,
        p50: rank(0.5),
        p95: rank(0.95),
        p99: rank(0.99),
        p999: rank(0.999),
        max,
        count: values.len() as u64,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let s = spread((1..=100).map(f64::from).collect());
        assert_eq!((s.p50, s.p95, s.p99, s.p999, s.max, s.count), (50.0, 95.0, 99.0, 100.0, 100.0, 100));
        assert_eq!(s.mean, 50.5);
    }
}
