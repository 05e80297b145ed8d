//! Calls by reference over shared memory (HydraRPC, USENIX ATC 2024).
//!
//! A request is written where the server reads it, an answer where the client reads it. Nothing is copied or encoded,
//! and the kernel is called only to wake a thread.
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
//! The user's own pool, which `unrack pool serve` serves by default, is at [`unrack_pool::socket::default_socket`].
//!
//! | module | idea |
//! |---|---|
//! | [`client`], [`server`] | the two sides of a call |
//! | [`view`] | messages in place |
//! | [`wait`] | polling, then sleeping |
//! | [`ends`] | a pair of queues: slots, generations, one answer for each entry |
//! | [`queue`] | entries with arrival flags, in lines with one writer |
//! | [`listing`] | services of a pool, and the clients connected to them |
//! | [`tcp`] | calls over TCP, where no memory is shared |
//!
//! Whatever a peer writes is untrusted input. A client can spoil only its own calls; a server can spoil only those of
//! its clients. Deadlines, tasks and errors: `docs/rpc.md`.

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
pub use queue::entry::Status;
pub use server::Server;
pub use wait::Waiting;
