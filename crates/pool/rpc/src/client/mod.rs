//! Client: the side that calls.
//!
//! | module | idea |
//! |---|---|
//! | [`road`] | the transport, a pool or TCP: where calls go, and buffers come from |
//! | [`shared`] | a pair of queues that threads share, and waiting for answers |
//! | [`calls`] | the calls that threads have under way: slots, buffers, waiting tasks |
//! | [`sleepers`] | threads that sleep until answers are taken |
//! | [`window`] | how many calls a connection has under way |
//! | [`slot`] | a slot: the state of a call from request to answer |
//! | [`call`] | a call: its request, its answer, blocking or as a future |
//! | [`stream`] | an answer in parts |
//! | [`reactor`] | the thread that waits for tasks, which do not block |

mod call;
mod calls;
mod reactor;
mod road;
mod shared;
mod sleepers;
mod slot;
mod stream;
mod window;

pub use call::{Pending, Request, Response};
pub use stream::{Stream, StreamPart};
pub use window::Window;

use crate::error::Error;
use crate::view::View;
use crate::wait::Waiting;
use reactor::Reactor;
use shared::Shared;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

/// Configuration of a client.
#[derive(Debug, Clone)]
pub struct Options {
    /// Trade-off while waiting for answers.
    pub waiting: Waiting,
    /// Number of calls beyond one that a connection has under way.
    pub window: Window,
    /// Longest time that a call may take. `None`: as long as the server lives.
    pub deadline: Option<Duration>,
    /// Time without an answer after which a call is sent again. The server runs it only once.
    pub resend: Option<Duration>,
    /// Longest time that the service may take to accept the connection; over TCP, also the time to try again when
    /// it broke.
    pub patience: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            waiting: Waiting::Adaptive,
            window: Window::Fixed(16),
            deadline: None,
            resend: None,
            patience: Duration::from_secs(5),
        }
    }
}

/// A connection to a service. It belongs to the process that made it: in a child made by `fork` its calls end with
/// [`Forked`](unrack_pool::Error::Forked), and dropping it, or what came by it, does not affect the parent. What the parent is
/// writing or reading is mapped in the child, too, and not the child's to write.
///
/// Threads may share it, or have [connections](Client::connection) of their own, which
/// use the same queues.
pub struct Client {
    shared: Arc<Shared>,
    reactor: Arc<Reactor>,
    connection: u16,
    numbers: Arc<AtomicU16>,
    window: window::Limit,
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
        let window = window::Limit::new(options.window);
        let shared = Arc::new(Shared::connect(pool.as_ref(), service, options)?);
        let reactor = Arc::new(Reactor::new(&shared));
        Ok(Client { shared, reactor, connection: 0, numbers: Arc::default(), window })
    }

    /// Returns another connection to the same service over the same queues, with a window of its own.
    pub fn connection(&self) -> Client {
        let number = self.numbers.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        Client {
            shared: self.shared.clone(),
            reactor: self.reactor.clone(),
            connection: number % crate::queue::entry::MOST_CONNECTIONS,
            numbers: self.numbers.clone(),
            window: window::Limit::new(self.shared.options().window),
        }
    }

    /// Reserves a request of `bytes` bytes, to be written in place. The answer may be equally long.
    ///
    /// # Errors
    /// If it is too long, the pool is full, or all calls that the server takes are under way until the deadline.
    #[inline(always)]
    pub fn request(&self, bytes: usize) -> Result<Request<'_>, Error> {
        Request::new(self, bytes, bytes)
    }

    /// Reserves a request as [`request`](Client::request) does, with room for an answer of `room` bytes.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    #[inline(always)]
    pub fn request_with_room(&self, bytes: usize, room: usize) -> Result<Request<'_>, Error> {
        Request::new(self, bytes, room)
    }

    /// Reserves a request as [`request_with_room`](Client::request_with_room) does, and waits for at most `longest` while all
    /// calls that the server takes are under way.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    pub fn request_within(&self, bytes: usize, room: usize, longest: Duration) -> Result<Request<'_>, Error> {
        Request::new_within(self, bytes, room, longest)
    }

    /// Reserves a request as [`request`](Client::request) does, without blocking the thread while all calls that
    /// the server takes are under way.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    pub async fn request_async(&self, bytes: usize) -> Result<Request<'_>, Error> {
        Request::new_async(self, bytes, bytes).await
    }

    /// Reserves a request as [`request_async`](Client::request_async) does, with room for an answer of `room`
    /// bytes.
    ///
    /// # Errors
    /// As [`request`](Client::request).
    pub async fn request_with_room_async(&self, bytes: usize, room: usize) -> Result<Request<'_>, Error> {
        Request::new_async(self, bytes, room).await
    }

    /// Returns whether the server can lend memory: over a pool, not over TCP.
    pub fn shares_memory(&self) -> bool {
        self.shared.shares_memory()
    }

    /// Returns bytes that the server lends to its clients ([`Server::lend`](crate::Server::lend)), by the offset
    /// that it sent. They are mapped as long as the connection; the service must not use them for something else
    /// meanwhile.
    #[inline]
    pub fn lent(&self, offset: u64, bytes: usize) -> Option<View<'_>> {
        self.shared.lent(offset, bytes)
    }

    /// Returns the server's process and the name it gave itself.
    pub fn peer(&self) -> &unrack_pool::wire::PeerProcess {
        self.shared.peer()
    }

    /// Checks that this process made the connection, and no parent of it.
    ///
    /// # Errors
    /// [`Forked`](unrack_pool::Error::Forked).
    pub fn check_process(&self) -> Result<(), Error> {
        self.shared.check()
    }

    /// Returns the number of calls that the queues take at a time.
    pub fn slots(&self) -> usize {
        self.shared.slots()
    }
}
