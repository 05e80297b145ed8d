//! Calls by reference over shared memory (HydraRPC, USENIX ATC 2024).
//!
//! The client writes a request into memory from which the server reads it, and the server writes the answer into memory
//! from which the client reads it. Therefore no message is copied or encoded, and the kernel is called only to wake a
//! thread.
//!
//! ```no_run
//! use unrack_rpc::{Client, Server, client, server};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = "/run/unrack/pool";
//! let _serving = Server::new("adder", server::Options::default())
//!     .method("add", |call| {
//!         let sum = (0..call.request().len() / 8).map(|i| call.request().get::<u64>(i * 8).unwrap_or(0)).sum::<u64>();
//!         call.answer(8)?.put(0, sum).expect("eight bytes");
//!         Ok(())
//!     })
//!     .serve(pool)?;
//!
//! let client = Client::connect(pool, "adder", client::Options::default())?;
//! let mut request = client.request(16)?;
//! request.body().put(0, [20u64, 22])?;
//! let answer = request.call("add")?;
//! assert_eq!(answer.body().get::<u64>(0)?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! `unrack pool serve` serves the user's pool by default, at the socket [`unrack_pool::socket::default_socket`].
//!
//! | module | idea |
//! |---|---|
//! | [`client`], [`server`] | the two sides of a call |
//! | [`view`] | reading and writing messages in place |
//! | [`wait`] | waiting: polling first, then sleeping |
//! | [`ends`] | the two ends of a pair of queues: slots, generations, one answer for each entry |
//! | [`queue`] | entries with arrival flags, in cache lines with one writer |
//! | [`listing`] | services of a pool, and the clients connected to them |
//! | [`tcp`] | calls over TCP, where no memory is shared |
//!
//! A process treats everything that its peer writes as untrusted input. A malicious client can spoil only its own
//! calls, and a malicious server only the calls of its clients. Deadlines, tasks and errors are described in
//! `docs/rpc.md`.

pub mod client;
pub mod ends;
mod error;
mod greeting;
pub mod listing;
mod lock;
mod method;
pub mod queue;
pub mod server;
pub mod tcp;
pub mod view;
pub mod wait;

pub use client::Client;
pub use error::Error;
pub use method::Method;
pub use queue::entry::EntryStatus;
pub use server::Server;
pub use wait::WaitPolicy;
