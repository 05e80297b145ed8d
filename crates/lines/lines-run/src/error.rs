//! Errors of instrumented runs.

use std::path::PathBuf;

/// Reason why a program was not run, or its record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine lacks something: the command ends with status 3.
    #[error("{0}")]
    Lacking(String),
    /// The program cannot be run under QEMU.
    #[error("{}: {why}", path.display())]
    Program {
        /// Path or name of the program.
        path: PathBuf,
        /// Fault in words, and what to do.
        why: String,
    },
    /// The record of a process is damaged.
    #[error("record {}: {why}: run the program again", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Fault in words.
        why: String,
    },
    /// The run was ended, because this process was asked to stop.
    #[error("the recorded run was ended, because this process was asked to stop")]
    Stopped,
    /// The system refused something.
    #[error("cannot {what}: {error}")]
    Io {
        /// Step that failed.
        what: &'static str,
        /// Answer of the system.
        error: std::io::Error,
    },
}

impl RunError {
    /// Returns a function that makes an error of what the system said.
    pub(crate) fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> RunError {
        move |error| RunError::Io { what, error }
    }
}
