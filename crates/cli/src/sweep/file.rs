//! The scenario file of a sweep, as the source of its points.

use crate::failure::Failure;
use crate::scenario;
use crate::sim::work;
use std::path::PathBuf;
use unrack_grid::sweep::{Ready, ScenarioSource};
use unrack_rack::ValidScenario;
use unrack_sim::SetupError;

/// Scenario file, and how much of a captured trace is replayed.
pub(super) struct ScenarioFile {
    pub path: PathBuf,
    pub transfers: u64,
}

impl ScenarioSource for ScenarioFile {
    type Error = Failure;

    fn load(&self, set: &[String]) -> Result<Ready, Failure> {
        let (scenario, setup) = scenario::load(&self.path, set)?;
        let (work, _) = work::checked(&scenario, &setup, self.transfers)?;
        Ok(Ready { scenario, setup, work })
    }

    fn asked(&self) -> String {
        format!("transfers={}", self.transfers)
    }

    fn ended(&self, error: &SetupError, scenario: &ValidScenario) -> Failure {
        scenario::refused(error, scenario)
    }

    fn at(&self, failure: Failure, set: &[String]) -> Failure {
        let at = |text: String| format!("at {}: {text}", set.join(" "));
        match failure {
            Failure::Usage(text) => Failure::Usage(at(text)),
            Failure::Failed(text) => Failure::Failed(at(text)),
            other => other,
        }
    }
}
