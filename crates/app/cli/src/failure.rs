//! Failures of subcommands, with their exit statuses.

use std::process::ExitCode;
use unrack_paging::PagingError;
use unrack_swap::SwapError;

/// A failure. Its text states the problem and what to do about it, without a prefix such as `unrack:` or `error:`.
#[derive(Debug)]
pub(crate) enum Failure {
    /// A failure while running: status 1.
    Failed(String),
    /// A wrong command line or scenario: status 2.
    Usage(String),
    /// The machine or the program lacks something that the command needs: status 3.
    Lacking(String),
    /// A signal asked the command to stop: the status is 128 plus the number of the signal.
    Interrupted(i32),
}

impl Failure {
    /// Prints the reason on stderr, and returns the exit status.
    pub(crate) fn tell(self) -> ExitCode {
        let (status, text) = match self {
            Failure::Failed(text) => (1, text),
            Failure::Usage(text) => (2, text),
            Failure::Lacking(text) => (3, format!("{text} (`unrack doctor` checks what every verb needs)")),
            Failure::Interrupted(signal) => (128u8.saturating_add(signal as u8), "interrupted".into()),
        };
        say(&text);
        ExitCode::from(status)
    }
}

pub(crate) use unrack_paging::say;

impl From<unrack_record::RecordError> for Failure {
    fn from(error: unrack_record::RecordError) -> Failure {
        Failure::Failed(error.to_string())
    }
}

impl From<unrack_grid::ScenarioRunError> for Failure {
    fn from(error: unrack_grid::ScenarioRunError) -> Failure {
        match error {
            unrack_grid::ScenarioRunError::Refused(text) => Failure::Usage(text),
            unrack_grid::ScenarioRunError::Failed(text) => Failure::Failed(text),
            unrack_grid::ScenarioRunError::NotWritten { text, .. } => Failure::Failed(text),
            unrack_grid::ScenarioRunError::Lacking(text) => Failure::Lacking(text),
        }
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

impl From<unrack_compare::Error> for Failure {
    fn from(error: unrack_compare::Error) -> Failure {
        use unrack_compare::Error;
        match error {
            Error::Usage(text) => Failure::Usage(text),
            Error::Lacking(text) => Failure::Lacking(text),
            Error::Failed(text) => Failure::Failed(text),
            Error::Interrupted(signal) => Failure::Interrupted(signal),
            Error::Canceled => Failure::Interrupted(libc::SIGINT),
        }
    }
}

impl From<SwapError> for Failure {
    fn from(error: SwapError) -> Failure {
        match error {
            SwapError::Lacking(text) => Failure::Lacking(text),
            SwapError::Failed(text) => Failure::Failed(text),
        }
    }
}
