//! Memory node: holds the pages of programs whose memory is remote.
//!
//! `unrack memory serve` starts a node. Its client is the pager in each process (`unrack_pager::node`). Neither crate
//! depends on the other: their protocol is [`unrack_wire`].
//!
//! The node does not trust a session. A message that the protocol does not allow ends that session and no other. A
//! session never holds more than the node's capacity and its client's share. A client that ended, is stopped or is cut
//! off loses its pages.
//!
//! | module | idea |
//! |---|---|
//! | [`node`] | sockets and threads: one of each per session |
//! | [`session`] | the protocol of one session, without input and output |
//! | [`pages`] | the pages of one session |
//! | `index` | table of a session's pages by id |
//! | [`part`] | one session's part of the capacity and of its client's share |
//! | [`listen`] | addresses, sockets and connections |
//! | [`greeting`] | admission of sessions |
//! | `connection` | thread of a session: greeting, serving, farewell |
//! | `eager` | reads that do not sleep while the client asks often
//! | [`statistics`] | counters over all sessions |
//! | [`signals`] | a node that runs until a signal ends it |
#![forbid(unsafe_code)]

mod connection;
mod eager;
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
