//! Client: the calling side.
//!
//! | module | idea |
//! |---|---|
//! | [`options`] | configuration |
//! | [`call`] | a call: its request and its answer, blocking or as a future |
//! | [`stream`] | an answer in parts |
//! | [`slot`] | a slot: the state of a call from request to answer |
//! | [`connection`] | state that the calls of a connection share |
//! | [`reactor`] | the thread that waits on behalf of tasks, which must not block |
//! | [`shared`] | a pair of queues that threads share, and waiting for answers |
//! | [`sleepers`] | threads that sleep until their answers are taken from the queue |
//! | [`calls`] | the calls in flight of all threads: slots, buffers, waiting tasks |
//! | [`window`] | the number of calls that a connection has in flight |
//! | [`road`] | the transport (a pool or TCP), which carries calls and provides buffers |
//!
//! Each module uses only modules below it in this table. On its way into the queue, a request passes these functions:
//!
//! | function | why it is needed |
//! |---|---|
//! | [`Request::start`] | public: ends the writing of the request, and returns the call in flight |
//! | `Slot::post` | knows the connection and the window of the call, and waits if there is no room; inlined |
//! | `Shared::post` | locks the calls, and rings the server if it sleeps; compiled once, because of its result (see [`slot`]) |
//! | `Calls::post` | checks queue and window in one step under the lock; has three callers, of which one blocks and one is a task |
//! | [`Caller::post`](crate::ends::Caller::post) | manages slots and generations: publishes the buffer, and keeps the data against which the answer is checked |
//! | [`Sender::send`](crate::queue::Sender::send) | writes the line with its arrival flags |

mod call;
mod calls;
mod connection;
mod options;
mod reactor;
mod shared;
mod sleepers;
mod slot;
mod stream;
mod transport;
mod window;

pub use call::{PendingCall, Request, Response};
pub use options::Options;
pub use stream::{Stream, StreamPart};
pub use window::CallWindow;

use crate::error::Error;
use crate::view::View;
use connection::Connection;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// A connection to a service. It belongs to the process that made it. In a child process made by `fork`, its calls fail
/// with [`Forked`](unrack_pool::Error::Forked), and dropping the client, or its requests and answers, does not affect
/// the parent. However, the memory of requests and answers that the parent is using is mapped in the child, too, and
/// the child must not write it.
///
/// Several threads may share a client. Alternatively, each thread may have a separate [connection](Client::connection),
/// which uses the same queues.
pub struct Client {
    connection: Connection,
    /// Number of the connection that was made last over the same queues.
    numbers: Arc<AtomicU16>,
}

impl Client {
    /// Connects to a service by its name: over the pool at a socket, or at `tcp://host:port` if no memory is shared.
    /// Both transports offer the same operations; see [`tcp`](crate::tcp).
    ///
    /// Several places may be given, separated by commas. For example, `/run/pool.sock,tcp://host:port` calls through
    /// shared memory if the service shares it with this host, and over TCP otherwise (HydraRPC §4).
    /// [`shares_memory`](Client::shares_memory) returns which transport is in use.
    ///
    /// # Errors
    /// If there is no pool, no server at the address, or no such service; or if the service refuses the connection,
    /// speaks another version, or does not answer in time.
    pub fn connect(pool: impl AsRef<Path>, service: &str, options: Options) -> Result<Client, Error> {
        let connection = Connection::open(pool.as_ref(), service, options)?;
        Ok(Client { connection, numbers: Arc::default() })
    }

    /// Returns another connection to the same service, which uses the same queues but has a separate window.
    pub fn connection(&self) -> Client {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Client { connection: self.connection.with_number(number), numbers: self.numbers.clone() }
    }

    /// Reserves a request of `bytes` bytes, to be written in place. The answer may have up to the same length.
    ///
    /// # Errors
    /// If the request is too long, if the pool is full, or if the calls in flight still fill all slots of the server at
    /// the deadline.
    #[inline(always)]
    pub fn request(&self, bytes: usize) -> Result<Request<'_>, Error> {
        Request::new(&self.connection, bytes, bytes)
    }

    /// Reserves a request as [`request`](Client::request) does, with room for an answer of `room` bytes.
    ///
    /// # Errors
    /// As for [`request`](Client::request).
    #[inline(always)]
    pub fn request_with_room(&self, bytes: usize, room: usize) -> Result<Request<'_>, Error> {
        Request::new(&self.connection, bytes, room)
    }

    /// Reserves a request as [`request_with_room`](Client::request_with_room) does, but waits at most `longest` for a
    /// free slot.
    ///
    /// # Errors
    /// As for [`request`](Client::request).
    pub fn request_within(&self, bytes: usize, room: usize, longest: Duration) -> Result<Request<'_>, Error> {
        Request::new_within(&self.connection, bytes, room, longest)
    }

    /// Reserves a request as [`request`](Client::request) does, but does not block the thread while it waits for a free
    /// slot.
    ///
    /// # Errors
    /// As for [`request`](Client::request).
    pub async fn request_async(&self, bytes: usize) -> Result<Request<'_>, Error> {
        Request::new_async(&self.connection, bytes, bytes).await
    }

    /// Reserves a request as [`request_async`](Client::request_async) does, with room for an answer of `room`
    /// bytes.
    ///
    /// # Errors
    /// As for [`request`](Client::request).
    pub async fn request_with_room_async(&self, bytes: usize, room: usize) -> Result<Request<'_>, Error> {
        Request::new_async(&self.connection, bytes, room).await
    }

    /// Returns whether the server can lend memory to this client. It can over a pool, but not over TCP.
    pub fn shares_memory(&self) -> bool {
        self.connection.shared.shares_memory()
    }

    /// Returns a view of bytes that the server lends to its clients ([`Server::lend`](crate::Server::lend)), by the
    /// offset that the server has sent; `None` if the bytes are not lent. The bytes stay mapped as long as the
    /// connection exists. The service must not reuse them for something else meanwhile.
    #[inline]
    pub fn lent(&self, offset: u64, bytes: usize) -> Option<View<'_>> {
        self.connection.shared.lent(offset, bytes)
    }

    /// Returns the server's process and the name that it gave itself.
    pub fn peer(&self) -> &unrack_pool::wire::PeerProcess {
        self.connection.shared.peer()
    }

    /// Checks that this process, and not a parent of it, made the connection.
    ///
    /// # Errors
    /// [`Forked`](unrack_pool::Error::Forked) if a parent made it.
    pub fn check_process(&self) -> Result<(), Error> {
        self.connection.shared.check()
    }

    /// Returns the number of calls that may be in flight in the queues at a time.
    pub fn slots(&self) -> usize {
        self.connection.shared.slots()
    }
}
