//! Why a verb ends early, and with which exit status.

use std::process::ExitCode;
use unrack_paging::PagingError;

/// The text says what is wrong and what to do; it has no `unrack:` or `error:` in front.
#[derive(Debug)]
pub enum Failure {
    /// It broke while running.
    Failed(String),
    /// The command line or the scenario is wrong.
    Usage(String),
    /// The machine or the program lacks something needed.
    Lacking(String),
    /// A signal asked us to stop.
    Interrupted(i32),
}

impl Failure {
    /// Prints the reason on stderr.
    pub fn tell(self) -> ExitCode {
        let (status, text) = match self {
            Failure::Failed(text) => (1, text),
            Failure::Usage(text) => (2, text),
            Failure::Lacking(text) => (3, text),
            Failure::Interrupted(signal) => (128u8.saturating_add(signal as u8), "interrupted".into()),
        };
        say(&text);
        ExitCode::from(status)
    }
}

pub use unrack_paging::say;

impl From<unrack_record::RecordError> for Failure {
    fn from(error: unrack_record::RecordError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<PagingError> for Failure {
    fn from(error: PagingError) -> Failure {
        match error {
            PagingError::Usage(text) => Failure::Usage(text),
            PagingError::Lacking(text) => Failure::Lacking(text),
            PagingError::Failed(text) => Failure::Failed(text),
            PagingError::OutOfTime => Failure::Failed(error.to_string()),
            PagingError::Interrupted(signal) => Failure::Interrupted(signal),
        }
    }
}
