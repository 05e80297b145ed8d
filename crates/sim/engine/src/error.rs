//! Errors: why a run cannot be set up or cannot continue.

use std::borrow::Cow;
use unrack_rack::{ScenarioError, ValidScenario};
use unrack_units::Time;
use unrack_workload::WorkloadError;

/// An invalid parameter: its name, the rule that it breaks, and its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {rule}, but is {value}")]
pub struct SetupError {
    pub key: Cow<'static, str>,
    pub rule: Cow<'static, str>,
    pub value: String,
    /// Simulated time at which the error ended a run; `None` if it was found before the run.
    pub ended: Option<Time>,
}

impl SetupError {
    /// Creates an error for a parameter `key` whose `value` breaks `rule`, found before the run.
    pub fn new(
        key: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
        value: impl std::fmt::Display,
    ) -> SetupError {
        SetupError { key: key.into(), rule: rule.into(), value: value.to_string(), ended: None }
    }

    /// Creates the error of a run that needs more simulated time than there is: its last event was at `ended`, and its
    /// next event is beyond [`Time::END`]. `key` names the parameter that causes the wait.
    pub fn out_of_time(key: &'static str, ended: Time, finished: u64) -> SetupError {
        let rule = "ends within 106 days of simulated time";
        let value = format!(
            "a run that waits beyond them: {finished} messages had finished by {ended}, the last event before; \
             raise the load or the rates of links, or shorten its times"
        );
        SetupError { ended: Some(ended), ..SetupError::new(key, rule, value) }
    }
}

impl SetupError {
    /// Converts the error to a scenario error, which shows the place in the scenario file.
    pub fn in_scenario(&self, scenario: &ValidScenario) -> ScenarioError {
        scenario.error_at(&self.key, format!("{}, but is {}", self.rule, self.value))
    }
}

impl From<WorkloadError> for SetupError {
    fn from(error: WorkloadError) -> SetupError {
        SetupError { key: error.key, rule: error.rule, value: error.value, ended: None }
    }
}
