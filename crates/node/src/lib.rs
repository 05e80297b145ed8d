//! A memory node: holds the pages of programs whose memory is remote.
//!
//! `unrack memory serve` starts one; the pager in each process is its client (`unrack_pager::node`),
//! which also has the bytes that pass between the two (`wire`). What a session sends is input: anything
//! that the protocol does not allow ends that session and no other.
//!
//! | module | idea |
//! |---|---|
//! | [`capacity`] | how much memory all sessions together may hold |
//! | [`pages`] | the pages of one session |
//! | [`session`] | what a session's bytes ask for: without input and output |
//! | [`greeting`] | who may have a session |
//! | [`node`] | sockets and threads: one of each for a session |
//! | [`statistics`] | what was done, all sessions together |
//! | [`signals`] | a node that runs until it is told to end |
#![forbid(unsafe_code)]

pub mod capacity;
pub mod greeting;
pub mod node;
pub mod pages;
pub mod session;
mod shared;
pub mod signals;
pub mod statistics;
mod stream;

pub use node::{Listen, Node, Options};
pub use statistics::Statistics;

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: std::io::Error },
    #[error("a capacity of {capacity} holds no page: {least} are needed at least")]
    Capacity { capacity: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}
