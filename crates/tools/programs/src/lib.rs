//! Programs that studies run with part of their memory remote (DDC, OSDI 2016, table 2): `unrack-programs VERB`.
//!
//! A program is seeded, does a fixed amount of work, and prints what it did: the same text in each run.
//!
//! | module | program |
//! |---|---|
//! | [`ycsb`] | a store (redis or memcached) of its own, loaded with records and asked by YCSB's workloads |
//! | [`graph`] | PageRank and components of a graph, by one thread, by several, and on timely dataflow |
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

impl Cli {
    /// Runs the program, and returns what it prints.
    ///
    /// # Errors
    /// [`ProgramError`] if a store is not installed, or does not answer as its protocol says.
    pub fn run(&self) -> Result<String, ProgramError> {
        match &self.verb {
            Verb::Ycsb(args) => ycsb::run(args),
            Verb::Graph(args) => graph::run(args),
            Verb::Ratings(args) => Ok(ratings::run(args)),
        }
    }
}
