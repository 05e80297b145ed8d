//! Memory node: stores the pages of programs whose memory is remote.
//!
//! `unrack memory serve` starts a node. The node's client is the pager in each process (`unrack_pager::node`). The two crates do not depend
//! on each other, but only on their protocol [`unrack_wire`].
//!
//! The node does not trust its clients. A message that violates the protocol ends its session and no other session. A session never stores
//! more than the node's capacity and its client's share permit. A client that ends, is stopped or loses its connection loses its pages.
//!
//! | module | idea |
//! |---|---|
//! | [`node`] | sockets and threads; each session has one of both |
//! | [`session`] | the protocol of one session, without input and output |
//! | [`pages`] | the pages of one session |
//! | `index` | table of a session's pages by id |
//! | [`part`] | the part of the capacity and of its client's share that one session has |
//! | [`listen`] | addresses, sockets and connections |
//! | [`greeting`] | admission of sessions |
//! | `connection` | thread of a session: greeting, serving, reason for the end |
//! | `eager` | reads that do not sleep while the client sends requests often
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

/// Maximum bytes that a session takes in addition to the pages that it is charged for: its input and output buffers, its thread and the
/// state of TLS. The index of its pages is not included ([`pages::INDEX_BYTES`]).
pub const SESSION_BYTES: usize = stream::INPUT_BYTES + stream::OUTPUT_BYTES + (128 << 10);
