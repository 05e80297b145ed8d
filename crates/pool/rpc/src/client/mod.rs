//! Client: the side that calls.
//!
//! | module | idea |
//! |---|---|
//! | [`options`] | configuration |
//! | [`call`] | a call: its request, its answer, blocking or as a future |
//! | [`stream`] | an answer in parts |
//! | [`slot`] | a slot: the state of a call from request to answer |
//! | [`connection`] | what the calls of a connection share |
//! | [`reactor`] | the thread that waits for tasks, which do not block |
//! | [`shared`] | a pair of queues that threads share, and waiting for answers |
//! | [`sleepers`] | threads that sleep until answers are taken |
//! | [`calls`] | the calls that threads have under way: slots, buffers, waiting tasks |
//! | [`window`] | how many calls a connection has under way |
//! | [`road`] | the transport, a pool or TCP: where calls go, and buffers come from |
//!
//! Each module uses those below it only. A request passes these functions on its way into the queue:
//!
//! | function | why it is there |
//! |---|---|
//! | [`Request::start`] | public: ends the writing of the request, and gives the call that is under way |
//! | `Slot::post` | knows connection and window of the call, and waits if there is no room; inlined |
//! | `Shared::post` | locks the calls, and rings a server that sleeps; compiled once, because of its result (see [`slot`]) |
//! | `Calls::post` | checks queue and window in one step under the lock; three callers, of which one blocks and one is a task |
//! | [`Caller::post`](crate::ends::Caller::post) | slots and generations: publishes the buffer, and keeps what the answer is checked against |
//! | [`Sender::send`](crate::queue::Sender::send) | writes the line, with its arrival flags |

mod call;
mod calls;
mod connection;
mod options;
mod reactor;
mod road;
mod shared;
mod sleepers;
mod slot;
mod stream;
mod window;

pub use call::{Pending, Request, Response};
pub use options::Options;
pub use stream::{Stream, StreamPart};
pub use window::Window;

use crate::error::Error;
use crate::view::View;
use connection::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// A connection to a service. It belongs to the process that made it: in a child made by `fork` its calls end with
/// [`Forked`](unrack_pool::Error::Forked), and dropping it, or what came by it, does not affect the parent. What the parent is
/// writing or reading is mapped in the child, too, and not the child's to write.
///
/// Threads may share it, or have [connections](Client::connection) of their own, which
/// use the same queues.
pub struct Client {
    connection: Connection,
    /// Number of the connection that was made last over the same queues.
    numbers: Arc<AtomicU16>,
}

impl Client {
    /// Connects to a service by its name: over the pool at a socket, or, where no memory is shared, at
    /// `tcp://host:port`. Both offer the same operations; see [`tcp`](crate::tcp).
    ///
    /// Several places are separated by commas: `/run/pool.sock,tcp://host:port` calls through memory where that is
    /// shared with the service, and over TCP where it is not (HydraRPC §4). [`shares_memory`](Client::shares_memory) tells
    /// which it is.
    ///
    /// # Errors
    /// If there is no pool, no server at the address, or no such service; if it refuses, speaks another version,
    /// or does not answer in time.
    pub fn connect(pool: impl AsRef<Path>, service: &str, options: Options) -> Result<Client, Error> {
        let connection = Connection::open(pool.as_ref(), service, options)?;
        Ok(Client { connection, numbers: Arc::default() })
    }

    /// Returns another connection to the same service over the same queues, with a window of its own.
    pub fn connection(&self) -> Client {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Client { connection: self.connection.with_number(number), numbers: self.numbers.clone() }
    }

    /// Reserves a request of `bytes` bytes, to be written in place. The answer may be equally long.
    ///
    /// # Errors
    /// If it is too long, the pool is full, or all calls that the server takes are under way until the deadline.
    #[inline(always)]
    pub fn request(&self, bytes: usize) -> Result<Request<'_>, Error> {
        Request::new(&self.connection, bytes, bytes)
    }

    /// Reserves a request as [`request`](Client::request) does, with room for an answer of `room` bytes.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    #[inline(always)]
    pub fn request_with_room(&self, bytes: usize, room: usize) -> Result<Request<'_>, Error> {
        Request::new(&self.connection, bytes, room)
    }

    /// Reserves a request as [`request_with_room`](Client::request_with_room) does, and waits for at most `longest` while all
    /// calls that the server takes are under way.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    pub fn request_within(&self, bytes: usize, room: usize, longest: Duration) -> Result<Request<'_>, Error> {
        Request::new_within(&self.connection, bytes, room, longest)
    }

    /// Reserves a request as [`request`](Client::request) does, without blocking the thread while all calls that
    /// the server takes are under way.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    pub async fn request_async(&self, bytes: usize) -> Result<Request<'_>, Error> {
        Request::new_async(&self.connection, bytes, bytes).await
    }

    /// Reserves a request as [`request_async`](Client::request_async) does, with room for an answer of `room`
    /// bytes.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    pub async fn request_with_room_async(&self, bytes: usize, room: usize) -> Result<Request<'_>, Error> {
        Request::new_async(&self.connection, bytes, room).await
    }

    /// Returns whether the server can lend memory: over a pool, not over TCP.
    pub fn shares_memory(&self) -> bool {
        self.connection.shared.shares_memory()
    }

    /// Returns bytes that the server lends to its clients ([`Server::lend`](crate::Server::lend)), by the offset
    /// that it sent. They are mapped as long as the connection; the service must not use them for something else
    /// meanwhile.
    #[inline]
    pub fn lent(&self, offset: u64, bytes: usize) -> Option<View<'_>> {
        self.connection.shared.lent(offset, bytes)
    }

    /// Returns the server's process and the name it gave itself.
    pub fn peer(&self) -> &unrack_pool::wire::PeerProcess {
        self.connection.shared.peer()
    }

    /// Checks that this process made the connection, and no parent of it.
    ///
    /// # Errors
    /// [`Forked`](unrack_pool::Error::Forked).
    pub fn check_process(&self) -> Result<(), Error> {
        self.connection.shared.check()
    }

    /// Returns the number of calls that the queues take at a time.
    pub fn slots(&self) -> usize {
        self.connection.shared.slots()
    }
}
