//! Benchmark of calls on this machine, for `unrack rpc bench`.
//!
//! Client and server are two processes, each pinned to its own core; the pool belongs to the benchmark.
//! `bench/rpc-peers` compares the results with hand-written queues, the lower bound, and with peers.
//!
//! | module | idea |
//! |---|---|
//! | [`plan`] | measurements, in their order |
//! | [`server`] | the other process |
//! | [`service`] | methods, and what both sides do with messages |
//! | [`client`] | timed calls |
//! | [`check`] | calls whose every byte is compared |
//! | [`results`] | figures, as tables and for JSON |
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
