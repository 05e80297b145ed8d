//! Errors of questions.

use unrack_paging::PagingError;

/// Reason why a question has no answer. The text states the problem and what to do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum Error {
    /// The question is invalid.
    #[error("{0}")]
    Usage(String),
    /// The machine or the program lacks something that the question needs.
    #[error("{0}")]
    Lacking(String),
    /// A run or a file failed.
    #[error("{0}")]
    Failed(String),
    /// A signal asked this process to stop.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
    /// The caller canceled the question.
    #[error("canceled")]
    Canceled,
}

/// Returns a failure with this text.
pub(crate) fn failed(error: impl std::fmt::Display) -> Error {
    Error::Failed(error.to_string())
}

impl From<PagingError> for Error {
    fn from(error: PagingError) -> Error {
        match error {
            PagingError::Usage(text) => Error::Usage(text),
            PagingError::Lacking(text) => Error::Lacking(text),
            PagingError::Failed(text) => Error::Failed(text),
            PagingError::OutOfTime => failed(error),
            PagingError::Interrupted(signal) => Error::Interrupted(signal),
        }
    }
}

impl From<unrack_record::RecordError> for Error {
    fn from(error: unrack_record::RecordError) -> Error {
        failed(error)
    }
}

impl From<unrack_lines_run::RunError> for Error {
    fn from(error: unrack_lines_run::RunError) -> Error {
        use unrack_lines_run::RunError;
        match error {
            RunError::Lacking(text) => Error::Lacking(text),
            RunError::Program { .. } => Error::Lacking(error.to_string()),
            RunError::Record { .. } | RunError::Io { .. } | RunError::Stopped => failed(error),
        }
    }
}

impl From<unrack_swap::SwapError> for Error {
    fn from(error: unrack_swap::SwapError) -> Error {
        use unrack_swap::SwapError;
        match error {
            SwapError::Lacking(text) => Error::Lacking(text),
            SwapError::Failed(text) => Error::Failed(text),
        }
    }
}
