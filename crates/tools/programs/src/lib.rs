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
