//! Transport of calls and source of their buffers: a pool, or TCP. A client selects its transport when it connects;
//! later each operation takes a predictable branch.

use crate::ends::{Caller, QueueLayout};
use crate::error::Error;
use crate::greeting::{RpcGreeting, VERSION};
use crate::tcp::link::Link;
use crate::tcp::memory::{BufferHeap, NoBuffer};
use crate::view::View;
use crate::wait::Pause;
use std::path::Path;
use std::time::Duration;
use unrack_pool::arena::{Arena, Buffer, Cache};
use unrack_pool::cache_control::{AnyMemory, Coherent, MemoryKind, SharedMemory};
use unrack_pool::wire::{Access, Cause, PeerProcess};
use unrack_pool::{Channel, WakesSent, Wakeup};

/// Index of the wakeup by which the server wakes this client.
const WAKEUP: usize = 0;

/// Transport of calls.
pub(super) enum ClientTransport {
    Pool { channel: Channel, pool: unrack_pool::Client },
    Tcp(Link),
}

/// Source of a client's buffers.
#[expect(clippy::large_enum_variant, reason = "a client has one, and mostly the large one")]
pub(super) enum BufferSource {
    Arena(Cache),
    Heap { heap: BufferHeap, peer: String },
}

/// A new connection before its first call.
pub(super) struct Connected {
    pub road: ClientTransport,
    pub caller: Caller<AnyMemory, Buffer>,
    pub buffers: BufferSource,
}

impl Connected {
    /// Connects to a service at the first of several places at which it is reachable: pools or TCP addresses.
    pub(super) fn to(places: &Path, service: &str, patience: Duration) -> Result<Connected, Error> {
        let listed =
            places.to_str().filter(|text| [",tcp://", ",tls://"].iter().any(|next| text.contains(next)));
        let Some(listed) = listed else { return Connected::to_one(places, service, patience) };
        let mut last = None;
        for place in listed.split(',') {
            match Connected::to_one(Path::new(place), service, patience) {
                Err(error) if is_elsewhere(&error) => last = Some(error),
                ended => return ended,
            }
        }
        Err(last.expect("text has a part"))
    }

    /// Connects to a service of a pool or at a TCP address.
    fn to_one(place: &Path, service: &str, patience: Duration) -> Result<Connected, Error> {
        match crate::tcp::address(place) {
            Some(address) => Connected::over_tcp(address, service, patience),
            None => Connected::over_pool(place, service, patience),
        }
    }

    fn over_pool(pool: &Path, service: &str, patience: Duration) -> Result<Connected, Error> {
        let pool = unrack_pool::Client::connect_in_time(pool, patience)?;
        let lines = QueueLayout::fitting(pool.pool().queue_bytes as usize).map_or(0, QueueLayout::lines);
        let hello = RpcGreeting::new(lines).to_bytes();
        let (channel, answer) = match pool.open(service, &hello, WAKEUP, &[], patience) {
            Ok(opened) => opened,
            Err(error) => return Err(refused(error, service)),
        };
        let peer = channel.peer().to_string();
        match RpcGreeting::from_bytes(&answer.bytes) {
            None => return Err(Error::NotRpc { peer }),
            Some(theirs) if theirs.version != VERSION || usize::from(theirs.lines) != lines => {
                return Err(Error::Version { peer, ours: VERSION, theirs: theirs.version });
            }
            Some(_) => {}
        }
        let layout = QueueLayout::fitting(channel.queues().bytes as usize).ok_or(Error::NotRpc { peer })?;
        let arena = Arena::new(&pool);
        arena.share_with(&channel, Access::Write)?;
        let area = channel.queue_base().as_ptr();
        // SAFETY: the area stays mapped as long as the channel, which is dropped after the caller.
        let caller = unsafe { Caller::new(pool.memory().clone(), area, layout) };
        Ok(Connected {
            road: ClientTransport::Pool { channel, pool },
            caller,
            buffers: BufferSource::Arena(arena.cache()),
        })
    }

    fn over_tcp(address: &str, service: &str, patience: Duration) -> Result<Connected, Error> {
        let (link, heap) = Link::connect(address, service, patience)?;
        let peer = link.peer().to_string();
        let (area, layout) = (link.local().area(), link.local().layout());
        // SAFETY: the area exists as long as the link, which is dropped after the caller, and it was zero.
        let caller = unsafe { Caller::new(AnyMemory::Coherent(Coherent), area, layout) };
        Ok(Connected { road: ClientTransport::Tcp(link), caller, buffers: BufferSource::Heap { heap, peer } })
    }
}

/// Returns whether an error means that the service is not reachable at this place, so that the client may try the next
/// place.
fn is_elsewhere(error: &Error) -> bool {
    use unrack_pool::Error as PoolError;
    use unrack_pool::wire::Denied;
    match error {
        Error::Pool(PoolError::NoManager(_) | PoolError::Connect { .. } | PoolError::ManagerGone) => true,
        Error::Pool(PoolError::Denied(denied)) => {
            matches!(denied, Denied::NoService(_) | Denied::HostSilent(_) | Denied::Gone { .. })
        }
        Error::Connect { .. } | Error::Lost { .. } => true,
        _ => false,
    }
}

impl ClientTransport {
    /// Returns the server's process.
    pub(super) fn peer(&self) -> &PeerProcess {
        match self {
            ClientTransport::Pool { channel, .. } => channel.peer(),
            ClientTransport::Tcp(link) => link.peer(),
        }
    }

    /// Returns why the server is gone, or `None` if it is not.
    #[inline(always)]
    pub(super) fn gone(&self) -> Option<Cause> {
        match self {
            ClientTransport::Pool { channel, .. } => channel.gone(),
            ClientTransport::Tcp(link) => link.lost().map(|_| Cause::Died),
        }
    }

    /// Returns the error of calls to a server that is gone.
    pub(super) fn error_of(&self, cause: Cause) -> Error {
        let peer = self.peer().to_string();
        match self {
            ClientTransport::Tcp(link) => {
                Error::Lost { peer, why: link.lost().unwrap_or("it is closed").into() }
            }
            ClientTransport::Pool { .. } => Error::Gone { peer, cause },
        }
    }

    /// Returns whether the server's thread that takes requests may be asleep.
    #[inline(always)]
    pub(super) fn is_seen_asleep(&self) -> bool {
        match self {
            ClientTransport::Pool { channel, .. } => {
                channel.peer_wakeup().is_seen_asleep(&WakesSent::default())
            }
            ClientTransport::Tcp(_) => true,
        }
    }

    /// Wakes the server's thread that takes requests. Returns false if the thread announces a sleep but cannot be
    /// woken.
    pub(super) fn wake(&self) -> bool {
        match self {
            ClientTransport::Pool { channel, .. } => channel.peer_wakeup().wake(),
            ClientTransport::Tcp(link) => {
                link.ring();
                true
            }
        }
    }

    /// Returns whether the server wakes this client when it has written answers. A server on another host can do
    /// so only if the hosts have doorbells.
    pub(super) fn can_wake(&self) -> bool {
        match self {
            ClientTransport::Pool { channel, .. } => channel.rings(),
            ClientTransport::Tcp(_) => true,
        }
    }

    /// Returns whether the server is on another host of the pool.
    pub(super) fn is_far(&self) -> bool {
        matches!(self, ClientTransport::Pool { channel, .. } if channel.peer().is_far())
    }

    /// Returns the channel to the server if the server is on another host and can be woken there; otherwise `None`.
    pub(super) fn far_that_wakes(&self) -> Option<&Channel> {
        match self {
            ClientTransport::Pool { channel, .. } if channel.peer().is_far() && channel.rings() => {
                Some(channel)
            }
            _ => None,
        }
    }

    /// Returns how to pause between two polls for answers.
    pub(super) fn pause(&self) -> Pause {
        match self {
            ClientTransport::Pool { channel, pool } => Pause::new(pool.pool().mode, !channel.peer().is_far()),
            ClientTransport::Tcp(_) => Pause::new(MemoryKind::Coherent, true),
        }
    }

    /// Returns the wakeup on which a thread sleeps until answers come.
    pub(super) fn wakeup(&self) -> &Wakeup {
        match self {
            ClientTransport::Pool { pool, .. } => pool.wakeup(WAKEUP),
            ClientTransport::Tcp(link) => link.wakeup(),
        }
    }

    /// Returns a view of bytes that the server granted for reading; `None` if the range is not granted.
    #[inline]
    pub(super) fn lent(&self, offset: u64, bytes: usize) -> Option<View<'_>> {
        let ClientTransport::Pool { channel, pool } = self else { return None };
        let base = channel.resolve(offset, bytes as u64, Access::Read)?;
        // SAFETY: the whole range is granted, hence mapped until the channel is dropped, and this host only reads it.
        unsafe {
            pool.memory().refresh(base.as_ptr(), bytes);
            Some(View::new(base.as_ptr(), bytes))
        }
    }
}

impl BufferSource {
    /// Takes a buffer of this size if the arena kept one that was freed recently.
    #[inline(always)]
    pub(super) fn take_kept(&mut self, bytes: u64) -> Option<Buffer> {
        match self {
            BufferSource::Arena(cache) => cache.take_kept(bytes),
            BufferSource::Heap { .. } => None,
        }
    }

    /// Allocates a buffer.
    pub(super) fn alloc(&mut self, bytes: u64) -> Result<Buffer, Error> {
        match self {
            BufferSource::Arena(cache) => Ok(cache.alloc(bytes)?),
            BufferSource::Heap { heap, peer } => heap.alloc(bytes).map_err(|no| no_buffer(&no, peer, bytes)),
        }
    }

    /// Frees a buffer.
    #[inline(always)]
    pub(super) fn free(&mut self, buffer: Buffer) {
        match self {
            BufferSource::Arena(cache) => cache.free(buffer),
            BufferSource::Heap { heap, .. } => heap.free(buffer),
        }
    }
}

#[cold]
fn no_buffer(no: &NoBuffer, peer: &str, bytes: u64) -> Error {
    match *no {
        NoBuffer::TooLong { most } => {
            Error::TooLongForPeer { peer: peer.into(), asked: bytes as usize, most }
        }
        NoBuffer::NoMemory => std::io::Error::from(std::io::ErrorKind::OutOfMemory).into(),
    }
}

/// Returns the error of a refused connection. A refusal because of the version has a form that older and newer releases
/// understand.
fn refused(error: unrack_pool::Error, service: &str) -> Error {
    use unrack_pool::wire::Denied;
    match error {
        unrack_pool::Error::Denied(Denied::Refused(refused))
            if refused.code == crate::server::WRONG_VERSION =>
        {
            let theirs = refused.text.parse().unwrap_or(0);
            Error::Version { peer: format!("{service:?}"), ours: VERSION, theirs }
        }
        error => Error::Pool(error),
    }
}
