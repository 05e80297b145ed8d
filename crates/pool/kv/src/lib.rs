//! Key-value store over calls by reference: an example of a service, with a YCSB driver.
//!
//! A value lies in the server's memory, which clients may read and only the server may write. A get copies nothing: its
//! answer is the value's position, and the client reads the value there for as long as it likes.
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
//! A value never changes. A put writes a new value, to which the key then refers. The old value is freed when no client
//! reads it:
//!
//! - A client has numbered *places*, each of which holds at most one value. A get names a place. The server finds the
//!   value and holds it in that place in one step, before it answers. So a value cannot vanish once a client knows its
//!   position.
//! - A later get into the same place releases the previous value, so a release needs no call. Values of 64 KiB and more
//!   are released at once, by a message without an answer.
//! - An abandoned get (deadline, cancelled) leaves at most one value in its place, and the place is used again.
//! - When a client ends or is killed, the manager reports it, and the server releases all of its places.
//!
//! Old values are therefore at most as many as the places in use, and no ended process leaks a value. The kernel lets
//! clients map values for reading only. If the server dies, its memory stays mapped in the clients that read it.
//!
//! A client that shares no memory with the store (`tcp://host:port`) gets copies, by the same calls.
//!
//! | module | idea |
//! |---|---|
//! | [`store`] | keys, values, and the places that hold them |
//! | [`service`] | the store's methods |
//! | [`client`] | calls of these methods, and views of values |
//! | [`wire`] | format of requests |
//! | [`driver`] | timed run of YCSB's operations |

pub mod client;
pub mod driver;
pub mod service;
pub mod store;
pub mod wire;

pub use client::{Client, Error, Value};
pub use service::StoreService;
