//! Programs that studies run with part of their memory remote (DDC, OSDI 2016, table 2): `unrack-programs VERB`.
//!
//! Each program is seeded, does a fixed amount of work, and prints a report of its work, which is the same text in each run.
//!
//! | module | program |
//! |---|---|
//! | [`ycsb`] | starts a store (redis or memcached), loads it with records, and requests them by YCSB's workloads |
//! | [`graph`] | PageRank and connected components of a graph, with one thread, with several threads, and on timely dataflow |
//! | [`ratings`] | collaborative filtering of ratings, by alternating least squares |
#![forbid(unsafe_code)]

pub mod graph;
pub mod ratings;
pub mod ycsb;

use clap::{Parser, Subcommand};
use std::io;
use std::process::ExitCode;

/// Programs that studies run: seeded, of a fixed amount of work
#[derive(Debug, Parser)]
#[command(name = "unrack-programs", version, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Starts a store, loads records, asks for them as YCSB's workloads do, and stops it
    Ycsb(ycsb::Args),
    /// Computes ranks or components of a graph that is drawn for it
    Graph(graph::Args),
    /// Explains ratings, which are drawn for it, by a few numbers for each user and each item
    Ratings(ratings::Args),
}

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
    #[error("{store} cannot do what workload {workload} asks: it has no scans")]
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
    /// The store has ended, or does not answer.
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

impl Cli {
    /// Runs the program, and returns the text that it prints.
    ///
    /// # Errors
    /// [`ProgramError`] if a store is not installed, or does not answer according to its protocol.
    pub fn run(&self) -> Result<String, ProgramError> {
        match &self.verb {
            Verb::Ycsb(args) => ycsb::run(args),
            Verb::Graph(args) => graph::run(args),
            Verb::Ratings(args) => Ok(ratings::run(args)),
        }
    }
}
