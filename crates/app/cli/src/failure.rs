//! Failures of subcommands, with their exit statuses.

use std::process::ExitCode;
use unrack_paging::PagingError;
use unrack_swap::SwapError;

/// A failure. Its text states the problem and what to do about it, without a prefix such as `unrack:` or `error:`.
#[derive(Debug)]
pub(crate) enum CommandFailure {
    /// A failure while running: status 1.
    Failed(String),
    /// A wrong command line or scenario: status 2.
    Usage(String),
    /// The machine or the program lacks something that the command needs: status 3.
    Lacking(String),
    /// A signal asked the command to stop: the status is 128 plus the number of the signal.
    Interrupted(i32),
}

impl CommandFailure {
    /// Prints the reason on stderr, and returns the exit status.
    pub(crate) fn tell(self) -> ExitCode {
        let (status, text) = match self {
            CommandFailure::Failed(text) => (1, text),
            CommandFailure::Usage(text) => (2, text),
            CommandFailure::Lacking(text) => {
                (3, format!("{text} (`unrack doctor` checks what every verb needs)"))
            }
            CommandFailure::Interrupted(signal) => (128u8.saturating_add(signal as u8), "interrupted".into()),
        };
        say(&text);
        ExitCode::from(status)
    }
}

pub(crate) use unrack_paging::say;

impl From<unrack_record::RecordError> for CommandFailure {
    fn from(error: unrack_record::RecordError) -> CommandFailure {
        CommandFailure::Failed(error.to_string())
    }
}

impl From<unrack_grid::ScenarioRunError> for CommandFailure {
    fn from(error: unrack_grid::ScenarioRunError) -> CommandFailure {
        match error {
            unrack_grid::ScenarioRunError::Refused(text) => CommandFailure::Usage(text),
            unrack_grid::ScenarioRunError::Failed(text) => CommandFailure::Failed(text),
            unrack_grid::ScenarioRunError::NotWritten { text, .. } => CommandFailure::Failed(text),
            unrack_grid::ScenarioRunError::Lacking(text) => CommandFailure::Lacking(text),
        }
    }
}

impl From<PagingError> for CommandFailure {
    fn from(error: PagingError) -> CommandFailure {
        match error {
            PagingError::Usage(text) => CommandFailure::Usage(text),
            PagingError::Lacking(text) => CommandFailure::Lacking(text),
            PagingError::Failed(text) => CommandFailure::Failed(text),
            PagingError::OutOfTime => CommandFailure::Failed(error.to_string()),
            PagingError::Interrupted(signal) => CommandFailure::Interrupted(signal),
        }
    }
}

impl From<unrack_compare::Error> for CommandFailure {
    fn from(error: unrack_compare::Error) -> CommandFailure {
        use unrack_compare::Error;
        match error {
            Error::Usage(text) => CommandFailure::Usage(text),
            Error::Lacking(text) => CommandFailure::Lacking(text),
            Error::Failed(text) => CommandFailure::Failed(text),
            Error::Interrupted(signal) => CommandFailure::Interrupted(signal),
            Error::Canceled => CommandFailure::Interrupted(libc::SIGINT),
        }
    }
}

impl From<SwapError> for CommandFailure {
    fn from(error: SwapError) -> CommandFailure {
        match error {
            SwapError::Lacking(text) => CommandFailure::Lacking(text),
            SwapError::Failed(text) => CommandFailure::Failed(text),
        }
    }
}
