//! A key-value store over calls by reference: an example of a service, and a YCSB driver for it.
//!
//! A value lies in the server's memory, which clients may read and nobody else may write. A get does not copy it: the
//! client is told where it is, and reads it there for as long as it likes.
//!
//! ```no_run
//! use unrack_kv::{Client, Service};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = "/run/unrack/pool";
//! let _service = Service::start(pool, "kv", Default::default())?;
//! let client = Client::connect(pool, "kv", Default::default())?;
//! client.put(b"answer", &42u64.to_le_bytes())?;
//! let value = client.get(b"answer")?.expect("just put");
//! assert_eq!(value.body().get::<u64>(0)?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # What is written or freed while somebody reads
//!
//! A value never changes: a put writes a new one and makes it the key's. The old one is freed when nobody reads it:
//!
//! - A client has numbered *places*, of which each holds one value at most. A get names a place, and the server holds
//!   the value there before it answers, in a step with finding it. So what the client is told of cannot go away.
//! - A later get into the same place lets the value of before go, so letting go needs no call. Values of 64 KiB and more
//!   are let go at once, by a message that nobody answers.
//! - A get that was given up (deadline, cancelled) leaves at most a value in its place, and the place is used again.
//! - A client that ends or is killed is told of by the manager: the server lets all its places go.
//!
//! So what is held beyond keys and their values is bounded by places in use, and nothing is leaked by anybody's end. The
//! kernel lets clients map values to be read only. When the server dies, its memory stays mapped where it is being read.
//!
//! A client that shares no memory with the store (`tcp://host:port`) gets copies, by the same calls.
//!
//! | module | idea |
//! |---|---|
//! | [`store`] | keys, values, who reads which |
//! | [`service`] | the store as methods |
//! | [`client`] | calls of these, and views of values |
//! | [`wire`] | what a request looks like |
//! | [`driver`] | YCSB's operations, timed |

pub mod client;
pub mod driver;
pub mod service;
pub mod store;
pub mod wire;

pub use client::{Client, Error, Value};
pub use service::Service;
