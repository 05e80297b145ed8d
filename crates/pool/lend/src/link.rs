//! A pair of processes: a byte stream, buffers that are lent, and loans.

use crate::arenas::Arenas;
use crate::reference::{self, Numbers};
use crate::returns::{Returns, Watch, lock};
use crate::{Error, LentBuffer, Loan};
use rustix::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use unrack_pool::cache_control::AnyMemory;
use unrack_pool::wire::{Access, PeerProcess};
use unrack_pool::{Channel, Client};

/// Connection to a peer. Threads may share it; clones are the same link.
///
/// Dropping all clones closes the byte stream. Loans stay until they are dropped, and buffers that are lent until
/// the peer returns them.
#[derive(Clone)]
pub struct PeerLink {
    near: Arc<Near>,
    stream: Arc<UnixStream>,
}

/// Part of a link that this process has. It exists as long as a handle or a loan of it does.
pub(crate) struct Near {
    pool: Client,
    returns: Arc<Returns>,
    arenas: Arenas,
    /// Access for which this peer can map an arena: to read, and to write.
    shared: Mutex<[bool; 2]>,
    /// Numbers of what is lent to the peer.
    lent: Mutex<Numbers>,
    /// Numbers of what is received from the peer.
    received: Mutex<Numbers>,
}

impl PeerLink {
    pub(crate) fn new(
        pool: &Client,
        arenas: &Arenas,
        watch: &Arc<Watch>,
        channel: Channel,
        stream: OwnedFd,
        returns: OwnedFd,
    ) -> Result<PeerLink, Error> {
        // SAFETY: only loans point into the peer's segments, and each has a pin.
        unsafe { channel.unmap_withdrawn() };
        let numbers = || Mutex::new(Numbers::of(channel.id()));
        let (lent, received) = (numbers(), numbers());
        let near = Near {
            pool: pool.clone(),
            returns: watch.add(Arc::new(channel), returns)?,
            arenas: arenas.clone(),
            shared: Mutex::default(),
            lent,
            received,
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

    /// Lends the peer a buffer, and returns the reference that it has to be told, which is good for one
    /// [`receive`](PeerLink::receive). What was written to the buffer is visible to it from then on, and is not to be written any
    /// more. Each time that it is lent has to be received once, before four million further loans; a writable buffer is lent to one
    /// peer only.
    ///
    /// # Errors
    /// If the buffer is of another endpoint, the peer or the manager is gone, or the peer was granted too many segments.
    pub fn lend(&self, buffer: &LentBuffer) -> Result<u64, Error> {
        self.check_process()?;
        if buffer.owned.pool.id() != self.near.pool.id() {
            return Err(Error::OtherEndpoint);
        }
        self.near.share(buffer.owned.access)?;
        buffer.publish();
        self.near.returns.hold(buffer.offset(), &buffer.owned);
        Ok(lock(&self.near.lent).lend(buffer.offset()))
    }

    /// Checks that this process made the link, and no parent of it.
    ///
    /// # Errors
    /// [`Forked`](unrack_pool::Error::Forked).
    pub fn check_process(&self) -> Result<(), Error> {
        Ok(self.near.pool.maker().check()?)
    }

    /// Returns how many buffers are lent to the peer.
    pub fn lent(&self) -> usize {
        self.near.returns.held()
    }

    /// Receives a buffer that the peer has lent by its [`Endpoint::buffer`](crate::Endpoint::buffer), to read it.
    ///
    /// # Errors
    /// If the peer lends no such bytes, or the reference was received before, or by another link.
    pub fn receive(&self, reference: u64, bytes: u64) -> Result<Loan, Error> {
        self.receive_for(reference, bytes, Access::Read)
    }

    /// Receives a buffer that the peer has lent by its
    /// [`Endpoint::writable_buffer`](crate::Endpoint::writable_buffer), to read and write it.
    ///
    /// # Errors
    /// As [`receive`](PeerLink::receive).
    pub fn receive_writable(&self, reference: u64, bytes: u64) -> Result<Loan, Error> {
        self.receive_for(reference, bytes, Access::Write)
    }

    fn receive_for(&self, reference: u64, bytes: u64, access: Access) -> Result<Loan, Error> {
        self.check_process()?;
        let not_lent = || Error::NotLent { peer: self.peer().to_string(), reference, bytes };
        let offset = reference::offset(reference);
        // Pinned without the lock, since that may ask the manager.
        if !lock(&self.near.received).is_new(reference) {
            return Err(not_lent());
        }
        let (at, pin) = self.near.channel().pin(offset, bytes.max(1), access).ok_or_else(not_lent)?;
        if !lock(&self.near.received).receive(reference) {
            return Err(not_lent());
        }
        Ok(Loan::new(self.near.clone(), pin, offset, at, bytes, access))
    }
}

impl Near {
    /// Returns whether this process made the link, and no parent of it.
    pub(crate) fn is_here(&self) -> bool {
        self.pool.maker().is_here()
    }

    pub(crate) fn memory(&self) -> &AnyMemory {
        self.pool.memory()
    }

    pub(crate) fn returns(&self) -> &Returns {
        &self.returns
    }

    fn channel(&self) -> &Channel {
        &self.returns.channel
    }

    /// Lets the peer map an arena of the endpoint. That is done when something of it is first lent, since many links carry
    /// only their stream.
    fn share(&self, access: Access) -> Result<(), Error> {
        let mut shared = lock(&self.shared);
        let shared = &mut shared[usize::from(access == Access::Write)];
        if !*shared {
            self.arenas.of(access).share_with(self.channel(), access)?;
            *shared = true;
        }
        Ok(())
    }
}

impl Drop for Near {
    fn drop(&mut self) {
        if self.is_here() {
            self.returns.end_near();
        }
    }
}
