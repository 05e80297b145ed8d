//! Client of a memory node: stores pages at the node, loads them, and makes the node forget them.
//!
//! A page's name is the id of its record. Each store and load also states the address of the slot from which the page is sent or in which
//! it arrives. Only [`Client::connect`] blocks. The pager calls [`Client::progress`] whenever [`Client::fd`] is ready or the pager has
//! queued a request. A request may be rejected ([`Rejected`]); an accepted request completes ([`PageCompletion`]), unless the session ends
//! with an [`Error`]. A load completes only with the bytes that were stored last.
//!
//! | module | idea |
//! |---|---|
//! | `client` | the client, over either transport, or of several nodes |
//! | `address`, `settings`, `request`, `error` | inputs and results of the client |
//! | [`session`] | batching, merging, overtaking and checking, without input and output |
//! | `tcp` | drives a session over a socket |
//! | `shared` | copies pages into memory that the node hands out |
//! | `several` | sessions with several nodes, striped or mirrored |
//! | `meter` | what a session gets from its node: pages and the time in which the node owed some |
//! | `connect` | connecting to a node, with hello and welcome |
//! | [`pulse`] | timing of pings, and detection of a silent node |
//!
//! The pager is a guest in the program's process. Therefore this client uses raw system calls, no thread-local storage, and no heap but
//! this crate's. A slot must be present memory, because a fault on it would wait for the very thread that takes it.

mod address;
mod client;
mod connect;
mod error;
pub mod held;
mod meter;
pub mod pulse;
mod request;
pub mod session;
mod settings;
mod several;
mod shared;
mod tcp;

pub use address::Address;
pub use client::Client;
pub use error::{Error, ErrorKind};
pub use request::{Owed, PageCompletion, Rejected};
pub use settings::{NodeLimits, NodeSettings, Tuning};
pub use several::Redundancy;
