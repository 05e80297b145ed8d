//! Warnings to consider before trusting a result.

use serde::{Deserialize, Serialize};
use std::fmt;

/// Reason to be careful with a result.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Warning {
    /// Name for use by programs, in lower case with hyphens (`drops`, `saturated`). It stays the same in all versions.
    pub key: String,
    /// Sentence for human readers: what determines the figure, and which scenario key or option to change.
    pub text: String,
}

impl Warning {
    /// Makes a warning from its name and its sentence.
    pub fn new(key: &str, text: impl Into<String>) -> Warning {
        Warning { key: key.into(), text: text.into() }
    }
}

/// Shows the sentence.
impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(&self.text)
    }
}
