//! Simulations of a program's cache-line requests on each fabric.

use super::question::ComparisonQuestion;
use super::simulated::spread;
use crate::budget::RunBudget;
use crate::error::Error;
use crate::error::failed;
use crate::lines::closed_loop::{ClosedLoop, TracedRequests};
use crate::lines::estimate::SymmetricEstimate;
use crate::steps::QuestionSteps;
use std::cell::Cell;
use std::sync::Arc;
use std::time::Instant;
use unrack_rack::{Overrides, Protocol, Scenario, ValidScenario};
use unrack_record::{DistributionSummary, Warning};
use unrack_sim::summary::Excluded;
use unrack_sim::{FabricConfig, Finished, Setup, Work};
use unrack_units::Time;
use unrack_workload::lines::{Dependence, LineMessage, LineTrace, LineWindow};
use unrack_workload::{Blades, Kind};

/// Number of reads whose mean time is the unloaded time of a fabric. Each read is of a different page, so the reads reach about all memory
/// blades.
const PROBES: u32 = 64;
/// Bytes of a page.
const PAGE: u64 = 4096;

/// Rack of a comparison, on which each fabric is simulated.
pub(super) struct SimulatedRack {
    scenario: ValidScenario,
    blades: Blades,
    /// Maximum number of cache lines to simulate, over all compute blades.
    transfers: u64,
    /// Duration of the last simulation, in seconds.
    took_s: Cell<f64>,
}

/// Result of one fabric.
pub(super) struct FabricOutcome {
    pub read_ns: Option<DistributionSummary>,
    /// Delay of the run, in seconds.
    pub delay_s: Result<SymmetricEstimate, Warning>,
    pub summary: serde_json::Value,
}

impl SimulatedRack {
    /// Creates the rack of a question, and checks its scenario.
    ///
    /// # Errors
    /// If the scenario is invalid.
    pub(super) fn new(question: &ComparisonQuestion) -> Result<SimulatedRack, Error> {
        let text = question.scenario()?;
        let scenario = Scenario::parse("compare.toml", &text, &Overrides::none())
            .and_then(unrack_sim::check)
            .map_err(failed)?;
        let blades = question.blades();
        Ok(SimulatedRack { scenario, blades, transfers: question.transfers, took_s: Cell::new(0.0) })
    }

    fn setup(&self, protocol: Protocol) -> Setup {
        Setup::with_fabric(&self.scenario, FabricConfig::default_of(protocol))
    }

    /// Returns the time that a fabric without other traffic adds to a read of a cache line, in nanoseconds.
    ///
    /// # Errors
    /// If the simulation fails.
    pub(super) fn unloaded_ns(&self, protocol: Protocol) -> Result<f64, Error> {
        let probe = |number: u32| LineMessage {
            when: Dependence { after: number.checked_sub(1), gap: Time::ZERO },
            address: u64::from(number) * PAGE,
            is_write_back: false,
        };
        let end = Dependence { after: None, gap: Time::ZERO };
        let window = LineWindow { requests: (0..PROBES).map(probe).collect(), end };
        let trace = Arc::new(LineTrace::new(&[vec![window]]).map_err(failed)?);
        let alone = Blades { compute: 1, ..self.blades };
        let done = self.setup(protocol).run(&Work::Lines(trace, alone), |_| {}).map_err(failed)?;
        Ok(spread(reads_ns(&done)).mean)
    }

    /// Replays a program on all compute blades, over the fabric with this number. If the budget has no time left for the replay, the delay
    /// of the run is withheld.
    ///
    /// # Errors
    /// If the simulation fails.
    pub(super) fn simulated(
        &self,
        closed: &ClosedLoop,
        (number, protocol): (usize, Protocol),
        budget: &RunBudget,
        steps: &QuestionSteps,
    ) -> Result<FabricOutcome, Error> {
        if !budget.allows(self.took_s.get()) {
            let text = format!(
                "the budget of {} left no time to simulate {}: give a larger --budget",
                budget.text(),
                protocol.name()
            );
            let why = Warning::new("budget", text);
            return Ok(FabricOutcome { read_ns: None, delay_s: Err(why), summary: serde_json::Value::Null });
        }
        let began = Instant::now();
        let most = self.transfers / u64::from(self.blades.compute);
        let TracedRequests { trace, found } = closed.traced(number, most as usize)?;
        if trace.is_empty() {
            let delay_s = Ok(closed.delay_s(&found, 1, |_, _| None)?);
            return Ok(FabricOutcome { read_ns: None, delay_s, summary: serde_json::Value::Null });
        }
        let lines = trace.len() as usize;
        let work = Work::Lines(Arc::new(trace), self.blades);
        let done = self.setup(protocol).run(&work, |now| steps.simulated(now)).map_err(failed)?;
        let mut completions = vec![None; lines * self.blades.compute as usize];
        for (message, outcome) in done.run.messages.iter().zip(&done.run.outcomes) {
            completions[message.tag as usize] = outcome.completion();
        }
        let completion = |replica: u32, line: usize| completions[replica as usize * lines + line];
        let delay_s = Ok(closed.delay_s(&found, self.blades.compute, completion)?);
        self.took_s.set(began.elapsed().as_secs_f64());
        let summary = serde_json::to_value(done.summary(Excluded::default())).map_err(failed)?;
        Ok(FabricOutcome { read_ns: Some(spread(reads_ns(&done))), delay_s, summary })
    }
}

/// Returns the completion times of all reads, in nanoseconds.
fn reads_ns(done: &Finished) -> Vec<f64> {
    let all = done.run.messages.iter().zip(&done.run.outcomes);
    all.filter(|(message, _)| message.kind == Kind::Read)
        .filter_map(|(_, outcome)| Some(outcome.completion()?.as_ns_f64()))
        .collect()
}
