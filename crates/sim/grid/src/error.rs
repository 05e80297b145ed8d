//! Errors of scenarios that cannot be run, or that cannot be run to their end.

use unrack_rack::{ScenarioError, ValidScenario};
use unrack_record::RecordError;
use unrack_sim::SetupError;

/// Reason why a scenario was not run to its end. The text names the place in the scenario, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ScenarioRunError {
    /// The scenario is invalid. The text shows the line.
    #[error("{0}")]
    Refused(String),
    /// The run began and failed.
    #[error("{0}")]
    Failed(String),
    /// A file could not be written. `number` is the error number of the system.
    #[error("{text}")]
    NotWritten { text: String, number: Option<i32> },
    /// The machine has too little memory.
    #[error("{0}")]
    Lacking(String),
}

impl ScenarioRunError {
    /// Converts the error of a run that was rejected at its start, or that ended early.
    pub fn from_run(error: &SetupError, scenario: &ValidScenario) -> ScenarioRunError {
        let shown = error.in_scenario(scenario);
        match error.ended {
            Some(_) => {
                ScenarioRunError::Failed(format!("this scenario could not be run to its end\n\n{shown}"))
            }
            None => shown.into(),
        }
    }

    /// Adds the settings of the point of a grid to the text.
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
