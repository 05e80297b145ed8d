//! Client of a memory node: stores, loads and forgets pages there.
//!
//! Pages are named by their record's id; each store and load also gives the address of the slot from which the
//! page is sent or in which it arrives. Only [`Client::connect`] blocks; the pager calls [`Client::progress`]
//! whenever [`Client::fd`] is ready, or it has queued something. A request may be rejected ([`Rejected`]); an
//! accepted one completes ([`PageCompletion`]) or the session ends with an [`Error`]. A load never completes with
//! other bytes than were stored last.
//!
//! | module | idea |
//! |---|---|
//! | `client` | the client, over either transport |
//! | `address`, `settings`, `request`, `error` | what it is told, and what it tells |
//! | [`session`] | batching, merging, overtaking and checking, without input and output |
//! | `tcp` | drives a session over a socket |
//! | `shared` | copies pages into memory that the node hands out |
//! | `connect` | connecting to a node, with hello and welcome |
//! | [`pulse`] | timing of pings, and detection of a silent node |
//!
//! Guest rules hold: raw system calls, no thread-local storage, no heap but this crate's. A slot must be present
//! memory: a fault on it would wait for the very thread that takes it.

mod address;
mod client;
mod connect;
mod error;
pub mod held;
pub mod pulse;
mod request;
pub mod session;
mod settings;
mod shared;
mod tcp;

pub use address::Address;
pub use client::Client;
pub use error::{Error, ErrorKind};
pub use request::{Owed, PageCompletion, Rejected};
pub use settings::{NodeLimits, Settings, Tuning};
