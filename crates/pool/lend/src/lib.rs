//! Buffers of the pool that one process fills once, and others read in place.
//!
//! An [`Endpoint`] is a process's connection to a pool. It listens under names and opens [`PeerLink`]s to others. A link has
//! a byte stream, for whatever protocol its user has, and passes buffers by reference: the owner [lends](PeerLink::lend) a
//! [`LentBuffer`] and tells the peer its reference over the stream; the peer [receives](PeerLink::receive) it once, as a
//! [`Loan`], whose bytes it uses where they are.
//!
//! ```no_run
//! use std::time::Duration;
//! use unrack_lend::Endpoint;
//! # fn main() -> Result<(), unrack_lend::Error> {
//! # let pool = "/run/unrack/pool";
//! let listener = Endpoint::connect(pool)?.listen("tables")?;
//! let reader = Endpoint::connect(pool)?.open("tables", Duration::from_secs(5))?;
//! let link = listener.accept(Duration::MAX)?.expect("it has just been opened");
//!
//! let buffer = listener.endpoint().buffer(1 << 20)?;
//! let reference = link.lend(&buffer)?;
//! drop(buffer); // Freed when its readers are done.
//! let loan = reader.receive(reference, 1 << 20)?; // The reference goes over `link.stream()`.
//! # drop(loan);
//! # Ok(())
//! # }
//! ```
//!
//! # Lifetimes
//!
//! | what ends | what stays |
//! |---|---|
//! | the owner's [`LentBuffer`] | its bytes, until each peer has returned each of its loans |
//! | a loan | nothing: the owner is told, and frees the buffer after the last one |
//! | a [`PeerLink`] | its loans, and the bytes of buffers that are lent by it |
//! | the peer, however it ends | nothing: its loans are returned |
//! | the owner, however it ends | its bytes, mapped in the peers, until their loans end |
//! | the manager | everything: buffers are lent and returned without it |
//!
//! # Access
//!
//! | buffer from | lent to | readers may write |
//! |---|---|---|
//! | [`Endpoint::buffer`] | any number of peers | no: the kernel maps it for them to read |
//! | [`Endpoint::writable_buffer`] | one peer, once | yes: it is theirs until they return it |
//!
//! # Memory
//!
//! Memory of buffers that were freed is used again, which costs no page faults on either side, and goes back to the pool
//! when the endpoint has taken no buffer for a second.
//!
//! # Isolation
//!
//! The peer writes the stream, the messages that return loans, and writable buffers: all of this process's, also those that
//! others have. So writable buffers are for peers that trust each other; those that only read need not be trusted. A peer that
//! breaks the protocol returns only what was lent to it. What it names to be received is checked against what it granted.
//!
//! | module | idea |
//! |---|---|
//! | [`endpoint`] | connection to a pool; names |
//! | [`arenas`] | memory of an endpoint's buffers, by the access of peers |
//! | [`link`] | a pair of processes: stream, buffers that are lent, loans |
//! | [`buffer`] | a buffer of the owner, freed by its last holder |
//! | [`loan`] | a buffer of the peer |
//! | [`mod@reference`] | what a peer is told of a loan, good once |
//! | [`returns`] | messages by which loans are returned, and the endpoint's thread |

mod arenas;
mod buffer;
mod endpoint;
mod error;
mod link;
mod loan;
mod reference;
mod returns;

pub use buffer::LentBuffer;
pub use endpoint::{Endpoint, Listener};
pub use error::Error;
pub use link::PeerLink;
pub use loan::Loan;
