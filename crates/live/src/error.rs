//! What can be wrong with a rack on this machine.

use std::path::PathBuf;

/// Why a rack is not there.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The scenario or the command asks for what cannot be.
    #[error("{0}")]
    Usage(String),
    /// The machine lacks something.
    #[error("{0}")]
    Lacking(String),
    /// It did not go on as it should.
    #[error("{0}")]
    Broken(String),
    /// A tool said no.
    #[error("{command}: {said}")]
    Tool { command: String, said: String },
    #[error("{path}: {why}", path = .path.display())]
    File { path: PathBuf, why: std::io::Error },
}
