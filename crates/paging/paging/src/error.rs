//! Errors of runs with remote memory.

/// Reason why a program cannot be run with remote memory, or not to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// The request makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The machine, or the program, lacks something that is needed; the text says what to do.
    #[error("{0}")]
    Lacking(String),
    /// The run failed.
    #[error("{0}")]
    Failed(String),
    /// The run was ended since its time was over.
    #[error("the time limit of this run was reached")]
    OutOfTime,
    /// A signal asked us to stop.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

impl PagingError {
    /// Returns the exit status of a run that ended so.
    pub fn status(&self) -> u8 {
        match self {
            PagingError::Usage(_) => 2,
            PagingError::Lacking(_) => 3,
            PagingError::Failed(_) | PagingError::OutOfTime => 1,
            PagingError::Interrupted(signal) => 128u8.saturating_add(*signal as u8),
        }
    }

    /// Returns a function for `map_err`, whose error says what could not be done, and why.
    pub(crate) fn failed<E: std::fmt::Display>(
        what: impl std::fmt::Display,
    ) -> impl FnOnce(E) -> PagingError {
        move |why| PagingError::Failed(format!("cannot {what}: {why}"))
    }
}
