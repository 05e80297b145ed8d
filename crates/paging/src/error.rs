/// Why a program cannot be run with remote memory, or could not be to its end.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PagingError {
    /// What was asked for makes no sense.
    #[error("{0}")]
    Usage(String),
    /// The machine, or the program, lacks what this needs; the text says what to do.
    #[error("{0}")]
    Lacking(String),
    /// It broke while running.
    #[error("{0}")]
    Failed(String),
    /// It was ended since the time for it was over.
    #[error("the time for this run was over")]
    OutOfTime,
    /// This signal asked us to stop.
    #[error("interrupted by signal {0}")]
    Interrupted(i32),
}

impl PagingError {
    /// For `map_err`: what could not be done, and why.
    pub(crate) fn failed<E: std::fmt::Display>(
        what: impl std::fmt::Display,
    ) -> impl FnOnce(E) -> PagingError {
        move |why| PagingError::Failed(format!("cannot {what}: {why}"))
    }
}
