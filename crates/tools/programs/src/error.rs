//! Reasons why a program ends early, and its exit status then.

use std::io;
use std::process::ExitCode;

/// Reason why a program ended early.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// A store is not installed.
    #[error("cannot run {program}: {why}; install it (Debian: {package})")]
    Lacking {
        /// Command that was not found.
        program: &'static str,
        /// Debian package that has it.
        package: &'static str,
        /// Answer of the kernel.
        why: io::Error,
    },
    /// A store cannot do what a workload asks.
    #[error("{store} cannot do what workload {workload} asks: it has no scans")]
    Unable {
        /// Name of the store.
        store: &'static str,
        /// Name of the workload.
        workload: &'static str,
    },
    /// Components are not computed on a dataflow.
    #[error("`--by dataflow` computes PageRank only; give --by threads")]
    NoDataflow,
    /// The workers of a dataflow could not be started, or one of them ended early.
    #[error("the dataflow ended: {0}")]
    Dataflow(String),
    /// The store ended, or does not answer.
    #[error("the store does not answer: {0}")]
    Gone(#[from] io::Error),
    /// The store answered with something else than its protocol allows, or with an error.
    #[error("the store answered `{0}`")]
    Answer(String),
}

impl ProgramError {
    /// Returns the exit status: 2 for a wrong question, 3 for something that is lacking, 1 for the rest.
    pub fn exit_code(&self) -> ExitCode {
        ExitCode::from(match self {
            ProgramError::Unable { .. } | ProgramError::NoDataflow => 2,
            ProgramError::Lacking { .. } => 3,
            ProgramError::Gone(_) | ProgramError::Answer(_) | ProgramError::Dataflow(_) => 1,
        })
    }
}
