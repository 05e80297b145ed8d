//! Errors.

/// Reason why there is no run under swap.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The machine lacks something, with what to do about it.
    #[error("{0}")]
    Lacking(String),
    /// Something failed that works elsewhere.
    #[error("{0}")]
    Failed(String),
}

/// Returns a function that makes an error of "cannot `what`: why".
pub(crate) fn failed<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> SwapError {
    move |why| SwapError::Failed(format!("cannot {what}: {why}"))
}

/// Like [`failed`], of something that a machine may lack.
pub(crate) fn lacking<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> SwapError {
    move |why| SwapError::Lacking(format!("cannot {what}: {why}"))
}
