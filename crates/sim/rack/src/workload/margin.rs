//! Margins: the beginning and end of a run that its figures exclude.

use unrack_units::{Time, UnitError};

/// The first or last part of the messages that a run submits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Margin {
    /// Number of messages, for example `1000`.
    Messages(u64),
    /// Time after the first submission of the run, or before its last, for example `10us`.
    Time(Time),
}

/// Defaults to no margin.
impl Default for Margin {
    fn default() -> Margin {
        Margin::Messages(0)
    }
}

impl std::str::FromStr for Margin {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Margin, UnitError> {
        text.parse().map(Margin::Messages).or_else(|_| text.parse().map(Margin::Time))
    }
}

impl std::fmt::Display for Margin {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Margin::Messages(count) => write!(f, "{count}"),
            Margin::Time(time) => time.fmt(f),
        }
    }
}

crate::as_text::as_text!(Margin, "a number of messages such as 1000, or a time such as \"10us\"");
