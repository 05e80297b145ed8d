//! Question about the loads and stores of a program, without a network.

use super::answer::Basis;
use super::calibration::calibrated;
use super::instrumented::{Instrumented, Recording};
use super::native::{self, NativeRuns};
use super::placed::{PlacementRule, PlacementSet};
use super::recorded::{footprint, options};
use crate::asking::QuestionCaller;
use crate::error::Error;
use crate::steps::QuestionSteps;
use std::ffi::OsString;
use unrack_build::build;
use unrack_lines_run::Tools;
use unrack_paging::{Input, TimedRun};
use unrack_record::{AccessUnit, LinesSummary, StartedCommand};
use unrack_units::Share;

/// Question about a program's slowdown by the latency of remote memory: `unrack lines run` and `unrack lines map`.
#[derive(Debug, Clone)]
pub struct LinesQuestion {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// Placements of pages in local memory.
    pub placements: AskedPlacements,
    /// Seed of the sample.
    pub seed: u64,
    /// Whether the native run that precedes the recorded one is left out. Without a native run, no measured time checks the core model.
    pub once: bool,
}

/// Placements that a question is about.
#[derive(Debug, Clone)]
pub enum AskedPlacements {
    /// One rule at one share or size, and the usual rules for comparison.
    One { rule: PlacementRule, local: Share },
    /// Every rule at every share.
    All,
}

/// Maximum number of native runs. Further runs are made only while other work disturbs them.
const NATIVE_RUNS: usize = 2;

impl LinesQuestion {
    /// Records the program once, and runs the core model on the recording. The recorded program inherits the output of this process. It
    /// also inherits its input, unless all placements are requested.
    ///
    /// # Errors
    /// If the question cannot be answered on this machine, a run fails, or the question is canceled.
    pub fn ask(&self, asking: QuestionCaller) -> Result<LinesSummary, Error> {
        let steps = QuestionSteps::until(asking, None);
        let one = match &self.placements {
            AskedPlacements::One { rule, local } => Some(rule.placed(*local, None)?),
            AskedPlacements::All => None,
        };
        let tools = Tools::find()?;
        let calibration = calibrated(&steps)?;
        let input = if self.once { Input::Inherited } else { Input::repeatable()? };
        let (placed, recorded_input) = match (one, &input) {
            // A terminal cannot be read twice, so only the recorded run reads it.
            (Some(placed), Input::Empty) => (placed, Input::Inherited),
            (Some(placed), _) => (placed, input.clone()),
            (None, _) => {
                steps.begin("measuring the footprint")?;
                (PlacementSet::map(footprint(&self.command, &input)?)?, input.clone())
            }
        };
        let native = if self.once { None } else { Some(self.natively(&input, &steps)?) };
        if let AskedPlacements::All = self.placements {
            steps.begin("instrumented run")?;
        }
        let started = StartedCommand::now(build());
        let recording = Recording {
            tools: &tools,
            command: &self.command,
            options: options(self.seed, &calibration, &placed),
            input: &recorded_input,
            output: None,
            deadline: None,
        };
        let instrumented = Instrumented::run(recording)?;
        let basis = Basis::estimate(&instrumented, &calibration, native, &placed, &[])?;
        steps.finish();
        Ok(LinesSummary {
            version: env!("CARGO_PKG_VERSION").into(),
            command: self.command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
            seed: self.seed,
            access: AccessUnit::Lines,
            pages: None,
            lines: basis.result(),
            machine: Some(started.machine()),
        })
    }

    /// Runs the program natively with its output discarded. The times of these runs check the core model.
    fn natively(&self, input: &Input, steps: &QuestionSteps) -> Result<NativeRuns, Error> {
        steps.begin("native run, whose output is discarded")?;
        native::repeated(&self.command, input, None, |runs: &[TimedRun]| {
            let is_calm = runs.last().is_some_and(|run| run.disturbance.is_none());
            Ok(runs.len() < NATIVE_RUNS && !is_calm)
        })
    }
}
