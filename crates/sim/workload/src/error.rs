//! Errors in the parameters of a workload, found before a run starts.

use std::borrow::Cow;

/// Invalid parameter: its key, the rule that it breaks, and its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {rule}, but is {value}")]
pub struct WorkloadError {
    pub key: Cow<'static, str>,
    pub rule: Cow<'static, str>,
    pub value: String,
}

impl WorkloadError {
    /// Creates the error of `key`, which breaks `rule` with this value.
    pub fn new(
        key: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
        value: impl std::fmt::Display,
    ) -> WorkloadError {
        WorkloadError { key: key.into(), rule: rule.into(), value: value.to_string() }
    }

    /// Returns the error with the key inside the table at `path`, as `workload.jobs.0`: the checks of an application
    /// do not know which job has it.
    #[must_use]
    pub fn inside(self, path: &str) -> WorkloadError {
        WorkloadError { key: format!("{path}.{}", self.key).into(), ..self }
    }
}
