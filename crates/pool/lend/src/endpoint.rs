//! Connection of a process to a pool, and the names under which it listens.

use crate::arenas::Arenas;
use crate::returns::ReturnWatch;
use crate::{Error, LentBuffer, PeerLink};
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};
use unrack_pool::wire::Access;
use unrack_pool::{Client, Offer, Service};

/// Greeting of the two sides of a link, which states the protocol and its version.
const GREETING: &[u8] = b"unrack-lend 2";
/// Code with which a peer is refused because it speaks another protocol.
const OTHER_PROTOCOL: u32 = 1;
/// Code with which an endpoint is refused that opens a link to itself.
const ITSELF: u32 = 2;

/// Connection of a process to a pool, for passing buffers. Clones are the same endpoint.
///
/// An endpoint cannot have a link to itself: a process that opens links to names under which it listens needs an
/// endpoint for each side. Dropping all clones leaves links, listeners, buffers and loans as they are. An endpoint
/// belongs to one process: a child made by `fork` must connect for itself. In the child, operations on all that it has
/// from its parent fail with [`Forked`](unrack_pool::Error::Forked), and dropping these values does not affect the
/// parent; however, loans can still be read. The child also has the socket of each link's stream, but only the parent
/// may use it.
#[derive(Clone)]
pub struct Endpoint {
    inner: Arc<EndpointState>,
}

struct EndpointState {
    pool: Client,
    arenas: Arenas,
    watch: Arc<ReturnWatch>,
}

impl Drop for EndpointState {
    fn drop(&mut self) {
        if self.pool.maker().is_here() {
            self.watch.leave();
        }
    }
}

impl Endpoint {
    /// Connects to the pool at a socket.
    ///
    /// # Errors
    /// If there is no manager, if it refuses the connection, or if the machine has no threads or address space left.
    pub fn connect(pool: impl AsRef<Path>) -> Result<Endpoint, Error> {
        let pool = Client::connect(pool)?;
        let arenas = Arenas::new(&pool);
        let watch = ReturnWatch::start(arenas.clone()).map_err(Error::Socket)?;
        Ok(Endpoint { inner: Arc::new(EndpointState { arenas, pool, watch }) })
    }

    /// Listens for links under a name. A thread accepts the links, so that a peer never waits for the rest of this
    /// program.
    ///
    /// # Errors
    /// If the name is taken or invalid.
    pub fn listen(&self, name: &str) -> Result<Listener, Error> {
        let service = Arc::new(self.inner.pool.register(name)?);
        let queue = Arc::new(Queue {
            links: Mutex::default(),
            changed: Condvar::new(),
            readable: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
        });
        let thread = std::thread::Builder::new().name("unrack-listen".into()).spawn({
            let (endpoint, service, queue) = (self.clone(), service.clone(), queue.clone());
            move || endpoint.accept_all(&service, &queue)
        });
        let thread = Some(thread.map_err(Error::Socket)?);
        Ok(Listener { endpoint: self.clone(), service, queue, thread })
    }

    /// Opens a link to the listener of a name, which has `patience` to accept the link.
    ///
    /// # Errors
    /// If no endpoint listens under the name, if the name belongs to a service with another protocol, or if the
    /// listener does not answer in time.
    pub fn open(&self, name: &str, patience: Duration) -> Result<PeerLink, Error> {
        let (channel, greeting) = self.inner.pool.open(name, GREETING, 0, &[], patience)?;
        let sockets: Result<[OwnedFd; 2], _> = greeting.passed.try_into();
        match (greeting.bytes == GREETING, sockets) {
            (true, Ok([stream, returns])) => self.link(channel, stream, returns),
            _ => Err(Error::Protocol { peer: channel.peer().to_string(), service: name.into() }),
        }
    }

    /// Takes a buffer that can be lent to any number of peers, which may only read it.
    ///
    /// # Errors
    /// If the pool or the machine is full, or if the manager is needed but gone.
    pub fn buffer(&self, bytes: u64) -> Result<LentBuffer, Error> {
        self.take(bytes, Access::Read)
    }

    /// Takes a buffer that can be lent to one peer, which may write it until the peer returns it. Because each peer
    /// that has received a writable buffer can write all writable buffers of the endpoint, such peers have to trust
    /// each other.
    ///
    /// # Errors
    /// As for [`buffer`](Endpoint::buffer).
    pub fn writable_buffer(&self, bytes: u64) -> Result<LentBuffer, Error> {
        self.take(bytes, Access::Write)
    }

    fn take(&self, bytes: u64, access: Access) -> Result<LentBuffer, Error> {
        self.inner.pool.maker().check()?;
        self.inner.watch.note_taken();
        LentBuffer::new(&self.inner.pool, self.inner.arenas.of(access), bytes, access)
    }

    fn link(
        &self,
        channel: unrack_pool::Channel,
        stream: OwnedFd,
        returns: OwnedFd,
    ) -> Result<PeerLink, Error> {
        let EndpointState { pool, arenas, watch } = &*self.inner;
        PeerLink::new(pool, arenas, watch, channel, stream, returns)
    }

    fn accept_all(&self, service: &Service, queue: &Queue) {
        // An error means that the manager is gone, and that no other manager has taken over.
        while let Ok(Some(offer)) = service.accept(Duration::MAX) {
            // A peer that ended meanwhile, or that was refused, gets no link.
            if let Ok(Some(link)) = self.accept(offer) {
                queue.push(link);
            }
        }
        queue.end();
    }

    fn accept(&self, mut offer: Offer) -> Result<Option<PeerLink>, Error> {
        if offer.greeting().bytes != GREETING {
            offer.refuse(OTHER_PROTOCOL, "it lends buffers: use the same release of both programs");
            return Ok(None);
        }
        if offer.peer().id == self.inner.pool.id() {
            offer.refuse(
                ITSELF,
                "an endpoint has no link to itself: open it from another endpoint of the process",
            );
            return Ok(None);
        }
        // The accepting side makes the sockets, so that the peer has no descriptor of this end and cannot change how
        // this end is read.
        let pair = |kind| socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None);
        let (stream, far_stream) = pair(SocketType::STREAM)?;
        let (returns, far_returns) = pair(SocketType::SEQPACKET)?;
        let channel = offer.accept(GREETING, 0, &[far_stream.as_fd(), far_returns.as_fd()])?;
        self.link(channel, stream, returns).map(Some)
    }
}

/// A name under which an endpoint accepts links. Dropping it frees the name; links that it accepted remain.
pub struct Listener {
    endpoint: Endpoint,
    service: Arc<Service>,
    queue: Arc<Queue>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl Listener {
    /// Returns the endpoint that listens.
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        self.service.name()
    }

    /// Returns the next link, or `None` if none comes in time. [`Duration::MAX`] waits without a limit.
    ///
    /// # Errors
    /// If the manager of the pool is gone.
    pub fn accept(&self, patience: Duration) -> Result<Option<PeerLink>, Error> {
        self.endpoint.inner.pool.maker().check()?;
        self.queue.pop(patience)
    }

    /// Returns an eventfd for event loops, which is readable when [`accept`](Listener::accept) may return at once. Only
    /// poll it, and never read it.
    pub fn readable(&self) -> BorrowedFd<'_> {
        self.queue.readable.as_fd()
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if !self.endpoint.inner.pool.maker().is_here() {
            // The thread runs in the parent process, which listens, so a child cannot join it.
            return std::mem::forget(self.thread.take());
        }
        self.service.close();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Links that were accepted, but that the program has not taken yet.
struct Queue {
    links: Mutex<EndpointLinks>,
    changed: Condvar,
    /// Counter that is above zero as long as a link is waiting, or once the listener has ended.
    readable: OwnedFd,
}

#[derive(Default)]
struct EndpointLinks {
    over: bool,
    waiting: VecDeque<PeerLink>,
}

impl Queue {
    fn push(&self, link: PeerLink) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).waiting.push_back(link);
        self.changed();
    }

    fn end(&self) {
        self.links.lock().unwrap_or_else(PoisonError::into_inner).over = true;
        self.changed();
    }

    fn changed(&self) {
        let _ = rustix::io::write(&self.readable, &1u64.to_ne_bytes());
        self.changed.notify_all();
    }

    fn pop(&self, patience: Duration) -> Result<Option<PeerLink>, Error> {
        let deadline = Instant::now().checked_add(patience);
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(link) = links.waiting.pop_front() {
                if links.waiting.is_empty() && !links.over {
                    let _ = rustix::io::read(&self.readable, &mut [0; 8]);
                }
                return Ok(Some(link));
            }
            if links.over {
                return Err(unrack_pool::Error::ManagerGone.into());
            }
            let left = deadline.map_or(Duration::MAX, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                return Ok(None);
            }
            // A longer wait is divided into waits of an hour, because not all systems can wait for longer.
            let left = left.min(Duration::from_secs(3600));
            links = self.changed.wait_timeout(links, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}
