//! Memory node: it holds the pages of programs whose memory is remote.
//!
//! `unrack memory serve` starts a node. Its client is the pager in each process (`unrack_pager::node`). Neither
//! knows the other: the bytes that pass between them are defined below both ([`unrack_wire`]). The node does not
//! trust what a session sends: a message that the protocol does not allow ends that session and no other, and a
//! session never holds more than the node's capacity and its client's share. A client that is gone, stopped or
//! cut off loses its pages.
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
mod error;
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

pub use error::Error;
pub use node::{Listen, Options, RunningNode};
pub use statistics::Statistics;

/// Most bytes that a session takes beside the pages it is charged for: its input and output buffers, its thread
/// and the state of TLS. The index of its pages comes on top ([`pages::INDEX_BYTES`]).
pub const SESSION_BYTES: usize = stream::INPUT_BYTES + stream::OUTPUT_BYTES + (128 << 10);
