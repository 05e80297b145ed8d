//! Cost of calls on this machine.
//!
//! Client and server are two processes on two cores, each pinned to its own; the pool is one of the benchmark's.
//! `bench/rpc-peers` compares it with the floor (hand-written queues) and with peers.
//!
//! | module | idea |
//! |---|---|
//! | [`plan`] | what is measured, and in which order |
//! | [`server`] | the other process |
//! | [`client`] | timed calls |
//! | [`results`] | figures, as tables and for JSON |
#![forbid(unsafe_code)]

pub mod client;
mod cores;
mod error;
pub mod plan;
pub mod results;
pub mod server;

pub use error::Error;
pub use plan::BenchPlan;
pub use results::BenchResults;
