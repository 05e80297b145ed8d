//! Key-value store over calls by reference, which is an example of a service, and a driver for YCSB.
//!
//! A value is in the server's memory, which clients may read and only the server may write. A get copies no value: the
//! answer contains the value's position, and the client may read the value there for as long as it likes.
//!
//! ```no_run
//! use unrack_kv::{Client, StoreService};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = "/run/unrack/pool";
//! let _service = StoreService::start(pool, "kv", Default::default())?;
//! let client = Client::connect(pool, "kv", Default::default())?;
//! client.put(b"answer", &42u64.to_le_bytes())?;
//! let value = client.get(b"answer")?.expect("just put");
//! assert_eq!(value.body().get::<u64>(0)?, 42);
//! # Ok(())
//! # }
//! ```
//!
//! # Writes and frees during reads
//!
//! A value never changes. A put writes a new value, to which the key then refers. The old value is freed as soon as no
//! client reads it:
//!
//! - A client has numbered *places*, each of which holds at most one value. A get contains the number of a place. The
//!   server finds the value and holds it in that place in one step, before it answers. Therefore the value is already
//!   held when the client learns its position, and cannot vanish.
//! - A later get into the same place releases the previous value, so a release needs no call. A value of 64 KiB or more
//!   is released as soon as the client has read it, by a message without an answer.
//! - An abandoned get (by its deadline or by cancellation) leaves at most one value in its place, and the place is used
//!   again.
//! - When a client ends or is killed, the manager reports this, and the server releases all places of the client.
//!
//! Therefore there are at most as many old values as places in use, and a process that has ended leaks no value. The
//! kernel lets clients map values only for reading. If the server dies, its memory stays mapped in the clients that
//! read it.
//!
//! A client that shares no memory with the store (`tcp://host:port`) receives copies, but makes the same calls.
//!
//! | module | idea |
//! |---|---|
//! | [`store`] | keys, values, and the places that hold them |
//! | [`service`] | the store's methods |
//! | [`client`] | calls of these methods, and views of values |
//! | [`wire`] | format of requests and answers |
//! | [`driver`] | timed runs of YCSB's operations |

pub mod client;
pub mod driver;
pub mod service;
pub mod store;
pub mod wire;

pub use client::{Client, Error, Value};
pub use service::StoreService;
