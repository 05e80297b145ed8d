//! A memory node: holds the pages of programs whose memory is remote.
//!
//! `unrack memory serve` starts one; the pager in each process is its client (`unrack_pager::node`),
//! which also has the bytes that pass between the two (`wire`). What a session sends is input: anything
//! that the protocol does not allow ends that session and no other, and what it holds is within the node's capacity and the
//! client's share. A client that is gone, stopped or cut off loses what it held.
//!
//! | module | idea |
//! |---|---|
//! | [`part`] | one session's part of the capacity and of its client's share |
//! | `index` | where a session's pages are |
//! | [`pages`] | the pages of one session |
//! | [`session`] | what a session's bytes ask for: without input and output |
//! | [`greeting`] | who may have a session |
//! | [`listen`] | where clients reach it |
//! | [`node`] | sockets and threads: one of each for a session |
//! | `connection` | what a session's thread does: greeting, serving, farewell |
//! | [`statistics`] | what was done, all sessions together |
//! | [`signals`] | a node that runs until it is told to end |
#![forbid(unsafe_code)]

mod connection;
pub mod greeting;
mod index;
pub mod listen;
pub mod node;
pub mod pages;
pub mod part;
pub mod session;
mod shared;
pub mod signals;
pub mod statistics;
mod stream;

pub use node::{Listen, Node, Options};
pub use statistics::Statistics;

/// Memory that a session takes beside the pages it is charged for, at most: what it read and what it is to send, its
/// thread, and what TLS holds. The index of its pages comes on top ([`pages::INDEX_BYTES`]).
pub const SESSION_BYTES: usize = stream::INPUT_BYTES + stream::OUTPUT_BYTES + (128 << 10);

/// Why there is no node.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("cannot listen on {address}: {error}")]
    Listen { address: String, error: std::io::Error },
    #[error("a capacity of {capacity} holds no page: {least} are needed at least")]
    Capacity { capacity: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("a share of {share} for each client holds no page: {least} are needed at least")]
    Share { share: unrack_units::Bytes, least: unrack_units::Bytes },
    #[error("a client cannot hold {share} of {capacity}: give --per-client a share of it, or less")]
    LargeShare { share: unrack_units::Bytes, capacity: unrack_units::Bytes },
    #[error(transparent)]
    Keys(#[from] unrack_keys::Error),
    #[error("cannot wait for signals: {0}")]
    Signals(std::io::Error),
}
