//! Errors of instrumented runs, in which QEMU executes a program with the recorder.

use std::path::PathBuf;

/// Reason why a program was not run under QEMU, or why its record cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The machine lacks something that an instrumented run requires. The command then ends with status 3.
    #[error("{0}")]
    Lacking(String),
    /// The program cannot be run under QEMU.
    #[error("{}: {why}", path.display())]
    Program {
        /// Path or name of the program.
        path: PathBuf,
        /// Description of why the program cannot be run, and of the remedy.
        why: String,
    },
    /// The record of a process is damaged.
    #[error("record {}: {why}: run the program again", path.display())]
    Record {
        /// Path of the damaged file.
        path: PathBuf,
        /// Description of the damage.
        why: String,
    },
    /// The run was ended because this process was asked to stop.
    #[error("the recorded run was ended, because this process was asked to stop")]
    Stopped,
    /// A system call failed.
    #[error("cannot {what}: {error}")]
    Io {
        /// Step of the run that failed.
        what: &'static str,
        /// Error of the operating system.
        error: std::io::Error,
    },
}

impl RunError {
    /// Returns a function that converts an error of the operating system to a [`RunError`] for this step of the run.
    pub(crate) fn failed(what: &'static str) -> impl FnOnce(std::io::Error) -> RunError {
        move |error| RunError::Io { what, error }
    }
}
