//! Benchmark of calls on this machine, for `unrack rpc bench`.
//!
//! Client and server are two processes, each pinned to a separate core. They use a pool that the benchmark starts.
//! `bench/rpc-peers` compares the results with hand-written queues, which are the lower bound, and with other tools
//! (peers).
//!
//! | module | idea |
//! |---|---|
//! | [`plan`] | the measurements, in order |
//! | [`server`] | the server's process |
//! | [`service`] | methods, and how client and server read and write messages |
//! | [`client`] | timed calls |
//! | [`check`] | calls of which every byte is compared |
//! | [`results`] | results, as tables and as JSON |
#![forbid(unsafe_code)]

pub mod check;
pub mod client;
mod cores;
mod error;
pub mod plan;
pub mod results;
pub mod server;
mod service;

pub use error::Error;
pub use plan::BenchPlan;
pub use results::BenchResults;
