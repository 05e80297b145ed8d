//! Errors of runs under swap.

/// Reason why a run under swap is not possible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwapError {
    /// The machine lacks a requirement; the text states the remedy.
    #[error("{0}")]
    Lacking(String),
    /// A step failed that works on other machines.
    #[error("{0}")]
    Failed(String),
}

/// Returns a function that makes an error with the text "cannot `what`: why".
pub(crate) fn failed<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> SwapError {
    move |why| SwapError::Failed(format!("cannot {what}: {why}"))
}

/// Like [`failed`], for a requirement that a machine may lack.
pub(crate) fn lacking<E: std::fmt::Display>(what: impl std::fmt::Display) -> impl FnOnce(E) -> SwapError {
    move |why| SwapError::Lacking(format!("cannot {what}: {why}"))
}
