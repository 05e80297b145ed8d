//! Buffers of a pool that one process fills once, and that other processes read in place.
//!
//! An [`Endpoint`] is the connection of a process to a pool. It listens under names, and opens [`PeerLink`]s to other
//! endpoints. A link has a byte stream, on which its user can speak any protocol, and it passes buffers by reference.
//! The owner [lends](PeerLink::lend) a [`LentBuffer`] and sends its reference to the peer over the stream. The peer
//! [receives](PeerLink::receive) the reference once, as a [`Loan`], and uses the bytes in place.
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
//! | what ends | what remains |
//! |---|---|
//! | the owner's [`LentBuffer`] | its bytes, until every peer has returned all its loans |
//! | a loan | nothing: the owner is informed, and frees the buffer after its last loan |
//! | a [`PeerLink`] | its loans, and the bytes of the buffers that it lent |
//! | the peer, for whatever reason | nothing: its loans count as returned |
//! | the owner, for whatever reason | its bytes, which stay mapped in the peers until their loans end |
//! | the manager | everything, because buffers are lent and returned without the manager |
//!
//! # Access
//!
//! | buffer from | lent to | readers may write |
//! |---|---|---|
//! | [`Endpoint::buffer`] | any number of peers | no: the kernel maps the buffer read-only for them |
//! | [`Endpoint::writable_buffer`] | one peer, once | yes, until the peer returns it |
//!
//! # Memory
//!
//! The memory of freed buffers is used again, which avoids page faults of the owner and of the peers. It returns to the
//! pool when the endpoint has taken no buffer for a second.
//!
//! # Isolation
//!
//! A peer can write the stream, the messages that return loans, and all writable buffers of this process, including
//! those that are lent to other peers. Therefore writable buffers are only for peers that trust each other; peers that
//! only read need not be trusted. A peer that breaks the protocol can return only buffers that were lent to it. When
//! this process receives a buffer, it checks that the peer has granted the memory to which the reference points.
//!
//! | module | idea |
//! |---|---|
//! | [`endpoint`] | connection to a pool, and its names |
//! | [`arenas`] | memory of an endpoint's buffers, by the access that peers have |
//! | [`link`] | a pair of processes: the stream, the lent buffers, and the loans |
//! | [`buffer`] | a buffer of the owner, which the last holder frees |
//! | [`loan`] | a buffer of the peer |
//! | [`mod@reference`] | the numbers that refer to loans, each of which is valid once |
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
