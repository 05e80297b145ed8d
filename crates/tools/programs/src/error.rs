//! Reasons why a program ends early, and its exit status then.

use std::io;
use std::process::ExitCode;

/// Reason why a program ended early.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A store is not installed.
    #[error("cannot run {program}: {why}; install it (Debian: {package})")]
    Lacking {
        /// The command that was not found.
        program: &'static str,
        /// The Debian package that contains the command.
        package: &'static str,
        /// Error that the kernel returned.
        why: io::Error,
    },
    /// A store does not support an operation that a workload requires.
    #[error("{store} does not support workload {workload}, because it has no scans")]
    Unable {
        /// Name of the store.
        store: &'static str,
        /// Name of the workload.
        workload: &'static str,
    },
    /// The dataflow does not support components.
    #[error("`--by dataflow` computes PageRank only; give --by threads")]
    NoDataflow,
    /// The workers of a dataflow could not be started, or one of them ended early.
    #[error("the dataflow ended: {0}")]
    Dataflow(String),
    /// The store ended, or does not answer.
    #[error("the store does not answer: {0}")]
    Gone(#[from] io::Error),
    /// The store's answer violates its protocol, or is an error.
    #[error("the store answered `{0}`")]
    Answer(String),
}

impl ProgramError {
    /// Returns the exit status: 2 for a wrong question, 3 if a requirement is lacking, 1 otherwise.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            ProgramError::Unable { .. } | ProgramError::NoDataflow => 2,
            ProgramError::Lacking { .. } => 3,
            ProgramError::Gone(_) | ProgramError::Answer(_) | ProgramError::Dataflow(_) => 1,
        })
    }
}
