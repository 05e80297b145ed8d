//! Why a run cannot be set up.

use unrack_workload::WorkloadError;

/// A parameter that makes no sense: which, what it must be, what it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {rule}, but is {value}")]
pub struct SetupError {
    pub key: &'static str,
    pub rule: &'static str,
    pub value: String,
}

impl SetupError {
    pub fn new(key: &'static str, rule: &'static str, value: impl std::fmt::Display) -> SetupError {
        SetupError { key, rule, value: value.to_string() }
    }
}

impl From<WorkloadError> for SetupError {
    fn from(error: WorkloadError) -> SetupError {
        SetupError { key: error.key, rule: error.rule, value: error.value }
    }
}
