//! Errors of scenarios that cannot be run, or not to their end.

use unrack_rack::{ScenarioError, ValidScenario};
use unrack_record::RecordError;
use unrack_sim::SetupError;

/// Reason why a scenario was not run to its end. The text says where in the scenario, and what to do.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioRunError {
    /// Scenario that is wrong, with its line.
    #[error("{0}")]
    Refused(String),
    /// Run that began and failed.
    #[error("{0}")]
    Failed(String),
    /// File that could not be written, with the number of the system's error.
    #[error("{text}")]
    NotWritten { text: String, number: Option<i32> },
    /// Machine with too little memory.
    #[error("{0}")]
    Lacking(String),
}

impl ScenarioRunError {
    /// Converts the error of a run that was refused when it began, or that ended early.
    pub fn from_run(error: &SetupError, scenario: &ValidScenario) -> ScenarioRunError {
        let shown = error.in_scenario(scenario);
        match error.ended {
            Some(_) => {
                ScenarioRunError::Failed(format!("this scenario could not be run to its end\n\n{shown}"))
            }
            None => shown.into(),
        }
    }

    /// Adds the settings of a point of a grid.
    pub(crate) fn at(self, set: &[String]) -> ScenarioRunError {
        let at = |text: String| format!("at {}: {text}", set.join(" "));
        match self {
            ScenarioRunError::Refused(text) => ScenarioRunError::Refused(at(text)),
            ScenarioRunError::Failed(text) => ScenarioRunError::Failed(at(text)),
            other @ (ScenarioRunError::NotWritten { .. } | ScenarioRunError::Lacking(_)) => other,
        }
    }
}

impl From<ScenarioError> for ScenarioRunError {
    fn from(error: ScenarioError) -> ScenarioRunError {
        ScenarioRunError::Refused(format!("this scenario cannot be run\n\n{error}"))
    }
}

impl From<RecordError> for ScenarioRunError {
    fn from(error: RecordError) -> ScenarioRunError {
        let text = error.to_string();
        match error {
            RecordError::Io { why, .. } => ScenarioRunError::NotWritten { text, number: why.raw_os_error() },
            _ => ScenarioRunError::Failed(text),
        }
    }
}
