//! Memory node: it holds the pages of programs whose memory is remote.
//!
//! `unrack memory serve` starts a node. Its client is the pager in each process (`unrack_pager::node`), which
//! also defines the bytes that pass between the two (`wire`). The node does not trust what a session sends: a
//! message that the protocol does not allow ends that session and no other, and a session never holds more than
//! the node's capacity and its client's share. A client that is gone, stopped or cut off loses its pages.
//!
//! | module | idea |
//! |---|---|
//! | [`part`] | one session's part of the capacity and of its client's share |
//! | `index` | table of a session's pages by id |
//! | [`pages`] | the pages of one session |
//! | [`session`] | the protocol of one session, without input and output |
//! | [`greeting`] | admission of sessions |
//! | [`listen`] | addresses, sockets and connections |
//! | [`node`] | sockets and threads: one of each per session |
//! | `connection` | thread of a session: greeting, serving, farewell |
//! | [`statistics`] | counters over all sessions |
//! | [`signals`] | a node that runs until a signal ends it |
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

/// Most bytes that a session takes beside the pages it is charged for: its input and output buffers, its thread
/// and the state of TLS. The index of its pages comes on top ([`pages::INDEX_BYTES`]).
pub const SESSION_BYTES: usize = stream::INPUT_BYTES + stream::OUTPUT_BYTES + (128 << 10);

/// Reason why a node could not start.
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
