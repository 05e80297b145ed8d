//! Errors of scenarios that cannot be run, or not to their end.

use unrack_rack::{ScenarioError, ValidScenario};
use unrack_record::RecordError;
use unrack_sim::SetupError;

/// Reason why a scenario was not run to its end. The text says where in the scenario, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// Scenario that is wrong, with its line.
    #[error("{0}")]
    Refused(String),
    /// Run that began and failed.
    #[error("{0}")]
    Failed(String),
    /// Machine with too little memory.
    #[error("{0}")]
    Lacking(String),
}

impl RunError {
    /// Converts the error of a run that was refused when it began, or that ended early.
    pub fn from_run(error: &SetupError, scenario: &ValidScenario) -> RunError {
        let shown = error.in_scenario(scenario);
        match error.ended {
            Some(_) => RunError::Failed(format!("this scenario could not be run to its end\n\n{shown}")),
            None => shown.into(),
        }
    }

    /// Adds the settings of a point of a grid.
    pub(crate) fn at(self, set: &[String]) -> RunError {
        let at = |text: String| format!("at {}: {text}", set.join(" "));
        match self {
            RunError::Refused(text) => RunError::Refused(at(text)),
            RunError::Failed(text) => RunError::Failed(at(text)),
            RunError::Lacking(text) => RunError::Lacking(text),
        }
    }
}

impl From<ScenarioError> for RunError {
    fn from(error: ScenarioError) -> RunError {
        RunError::Refused(format!("this scenario cannot be run\n\n{error}"))
    }
}

impl From<RecordError> for RunError {
    fn from(error: RecordError) -> RunError {
        RunError::Failed(error.to_string())
    }
}
