//! Why a run cannot be set up.

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
