//! A pair of processes: a byte stream, buffers that are lent, and loans.

use crate::returns::{Returns, Watch};
use crate::{Error, LentBuffer, Loan};
use rustix::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use unrack_pool::cache_control::AnyMemory;
use unrack_pool::wire::{Access, PeerProcess};
use unrack_pool::{Arena, Channel, Client};

/// Number of the next side of a link.
static NEXT: AtomicU64 = AtomicU64::new(0);

/// Connection to a peer. Threads may share it; clones are the same link.
///
/// Dropping all clones closes the byte stream. Loans stay until they are dropped, and buffers that are lent until
/// the peer returns them.
#[derive(Clone)]
pub struct PeerLink {
    near: Arc<Near>,
    stream: Arc<UnixStream>,
}

/// This process's part of a link: it exists as long as a handle or a loan of it does.
pub(crate) struct Near {
    /// Number that no other side of a link has in this process.
    number: u64,
    pool: Client,
    returns: Arc<Returns>,
    /// Arena of the endpoint, which all its peers read.
    shared: Arena,
    /// True once this peer can map the shared arena.
    is_shared: Mutex<bool>,
    /// Arena that only this peer has, and may write.
    own: Mutex<Option<Arena>>,
}

impl PeerLink {
    pub(crate) fn new(
        pool: &Client,
        shared: &Arena,
        watch: &Arc<Watch>,
        channel: Channel,
        stream: OwnedFd,
        returns: OwnedFd,
    ) -> Result<PeerLink, Error> {
        // SAFETY: only loans point into the peer's segments, and each has a pin.
        unsafe { channel.unmap_withdrawn() };
        let near = Near {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            pool: pool.clone(),
            returns: watch.add(Arc::new(channel), returns)?,
            shared: shared.clone(),
            is_shared: Mutex::new(false),
            own: Mutex::new(None),
        };
        Ok(PeerLink { near: Arc::new(near), stream: Arc::new(UnixStream::from(stream)) })
    }

    /// Returns the process at the other side, as the kernel and the manager know it.
    pub fn peer(&self) -> &PeerProcess {
        self.near.channel().peer()
    }

    /// Returns the byte stream to the peer, for any protocol. Its end says that the peer has ended the link, or is gone.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Takes a buffer that only this peer will have. It may be lent to it once, and then be written by it.
    ///
    /// # Errors
    /// If the pool or the machine is full, or the peer or the manager is gone.
    pub fn buffer(&self, bytes: u64) -> Result<LentBuffer, Error> {
        LentBuffer::new(&self.near.pool, &self.near.own()?, bytes, Some(self.near.number))
    }

    /// Lends the peer a buffer, and returns the offset that it has to be told. What was written to the buffer is visible to
    /// it from then on, and is not to be written any more. Each time that it is lent has to be received once.
    ///
    /// # Errors
    /// If the buffer is of another link, or the peer or the manager is gone.
    pub fn lend(&self, buffer: &LentBuffer) -> Result<u64, Error> {
        match buffer.owned.only {
            None => self.near.share()?,
            Some(link) if link == self.near.number => {}
            Some(_) => return Err(Error::OtherLink),
        }
        buffer.publish();
        self.near.returns.hold(buffer.offset(), &buffer.owned);
        Ok(buffer.offset())
    }

    /// Returns how many buffers are lent to the peer.
    pub fn lent(&self) -> usize {
        self.near.returns.held()
    }

    /// Receives a buffer that the peer has lent by its [`Endpoint::buffer`](crate::Endpoint::buffer), to read it.
    ///
    /// # Errors
    /// If the peer lends no such bytes.
    pub fn receive(&self, offset: u64, bytes: u64) -> Result<Loan, Error> {
        self.receive_for(offset, bytes, Access::Read)
    }

    /// Receives a buffer that the peer has lent by its [`PeerLink::buffer`], to read and write it.
    ///
    /// # Errors
    /// If the peer lends no such bytes.
    pub fn receive_writable(&self, offset: u64, bytes: u64) -> Result<Loan, Error> {
        self.receive_for(offset, bytes, Access::Write)
    }

    fn receive_for(&self, offset: u64, bytes: u64, access: Access) -> Result<Loan, Error> {
        let pinned = self.near.channel().pin(offset, bytes.max(1), access);
        let not_lent = || Error::NotLent { peer: self.peer().to_string(), offset, bytes };
        let (at, pin) = pinned.ok_or_else(not_lent)?;
        Ok(Loan::new(self.near.clone(), pin, offset, at, bytes, access))
    }
}

impl Near {
    pub(crate) fn memory(&self) -> &AnyMemory {
        self.pool.memory()
    }

    pub(crate) fn returns(&self) -> &Returns {
        &self.returns
    }

    fn channel(&self) -> &Channel {
        &self.returns.channel
    }

    /// Lets the peer map the endpoint's arena. That is done when something is first lent, since many links carry only
    /// their stream.
    fn share(&self) -> Result<(), Error> {
        let mut is_shared = self.is_shared.lock().unwrap_or_else(PoisonError::into_inner);
        if !*is_shared {
            self.shared.share_with(self.channel(), Access::Read)?;
            *is_shared = true;
        }
        Ok(())
    }

    fn own(&self) -> Result<Arena, Error> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(arena) = &*own {
            return Ok(arena.clone());
        }
        let arena = self.pool.arena();
        arena.share_with(self.channel(), Access::Write)?;
        Ok(own.insert(arena).clone())
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        self.returns.end_near();
    }
}
