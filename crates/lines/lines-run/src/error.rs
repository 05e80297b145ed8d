//! Errors of instrumented runs.

use std::path::PathBuf;

/// Reason why a program was not run, or why its record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine lacks a requirement. The command ends with status 3.
    #[error("{0}")]
    Lacking(String),
    /// The program cannot be run under QEMU.
    #[error("{}: {why}", path.display())]
    Program {
        /// Path or name of the program.
        path: PathBuf,
        /// Description of the fault, and of its remedy.
        why: String,
    },
    /// The record of a process is damaged.
    #[error("record {}: {why}: run the program again", path.display())]
    Record {
        /// Path of the file.
        path: PathBuf,
        /// Description of the fault.
        why: String,
    },
    /// The run was ended because this process was asked to stop.
    #[error("the recorded run was ended, because this process was asked to stop")]
    Stopped,
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// Step that failed.
        what: &'static str,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

impl RunError {
    /// Returns a function that converts an error of the operating system in this step to a [`RunError`].
    pub(crate) fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> RunError {
        move |error| RunError::Io { what, error }
    }
}
