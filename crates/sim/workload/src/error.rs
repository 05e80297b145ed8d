//! Errors in the parameters of a workload, which are found before a run starts.

use std::borrow::Cow;

/// Invalid parameter of a workload: its key, the rule that it violates, and its value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{key}` {rule}, but is {value}")]
pub struct WorkloadError {
    pub key: Cow<'static, str>,
    pub rule: Cow<'static, str>,
    pub value: String,
}

impl WorkloadError {
    /// Creates the error for the parameter `key`, which violates `rule` by having this value.
    pub fn new(
        key: impl Into<Cow<'static, str>>,
        rule: impl Into<Cow<'static, str>>,
        value: impl std::fmt::Display,
    ) -> WorkloadError {
        WorkloadError { key: key.into(), rule: rule.into(), value: value.to_string() }
    }

    /// Returns the error with the path of a table, such as `workload.jobs.0`, in front of its key. This is useful
    /// because the checks of an application do not know to which job the application belongs.
    #[must_use]
    pub fn inside(self, path: &str) -> WorkloadError {
        WorkloadError { key: format!("{path}.{}", self.key).into(), ..self }
    }
}
