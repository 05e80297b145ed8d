//! Errors of live racks.

use std::path::PathBuf;

/// Reason why a live rack cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario or the command asks for something impossible.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something that the rack needs.
    #[error("{0}")]
    Lacking(String),
    /// The rack stopped working.
    #[error("{0}")]
    Broken(String),
    /// A tool such as `ip` failed.
    #[error("{command}: {said}")]
    Tool { command: String, said: String },
    #[error("{path}: {why}", path = .path.display())]
    File { path: PathBuf, why: std::io::Error },
}
