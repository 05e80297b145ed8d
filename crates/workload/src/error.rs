//! Why a workload makes no sense. Found before a run starts.

/// A parameter that makes no sense: which, what it must be, what it was.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {rule}, but is {value}")]
pub struct WorkloadError {
    pub key: &'static str,
    pub rule: &'static str,
    pub value: String,
}

impl WorkloadError {
    pub fn new(key: &'static str, rule: &'static str, value: impl std::fmt::Display) -> WorkloadError {
        WorkloadError { key, rule, value: value.to_string() }
    }
}
