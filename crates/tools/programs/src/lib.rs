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

mod error;
pub mod graph;
pub mod ratings;
pub mod ycsb;

pub use error::ProgramError;

use clap::{Parser, Subcommand};

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
