//! Errors of runs with remote memory.

/// Reason why a program cannot run with remote memory, or did not run to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The machine or the program lacks something that is needed. The text explains what to do.
    #[error("{0}")]
    Lacking(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
    /// The run was ended because its time limit was reached.
    #[error("the time limit of this run was reached")]
    OutOfTime,
    /// A signal asked this process to stop.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

impl PagingError {
    /// Returns the exit status for a run that ended with this error.
    pub fn status(&self) -> u8 {
        match self {
            PagingError::Usage(_) => 2,
            PagingError::Lacking(_) => 3,
            PagingError::Failed(_) | PagingError::OutOfTime => 1,
            PagingError::Interrupted(signal) => 128u8.saturating_add(*signal as u8),
        }
    }

    /// Returns a function for `map_err`. Its error states which action failed, and why.
    pub(crate) fn failed<E: std::fmt::Display>(
        what: impl std::fmt::Display,
    ) -> impl FnOnce(E) -> PagingError {
        move |why| PagingError::Failed(format!("cannot {what}: {why}"))
    }
}
