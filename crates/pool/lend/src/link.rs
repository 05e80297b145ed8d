//! A link between two processes: a byte stream, lent buffers, and loans.

use crate::arenas::Arenas;
use crate::reference::{self, LoanNumbers};
use crate::returns::{ReturnWatch, Returns, lock};
use crate::{Error, LentBuffer, Loan};
use rustix::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use unrack_pool::cache_control::AnyMemory;
use unrack_pool::wire::{Access, PeerProcess};
use unrack_pool::{Channel, Client};

/// Connection to a peer. Threads may share it; clones are the same link.
///
/// Dropping all clones closes the byte stream. Loans remain until they are dropped, and lent buffers remain until the
/// peer returns them.
#[derive(Clone)]
pub struct PeerLink {
    near: Arc<LocalLink>,
    stream: Arc<UnixStream>,
}

/// This process's part of a link. It exists as long as a handle or a loan of the link does.
pub(crate) struct LocalLink {
    pool: Client,
    returns: Arc<Returns>,
    arenas: Arenas,
    /// Whether the peer can map the arena of readable buffers, and that of writable buffers.
    shared: Mutex<[bool; 2]>,
    /// Numbers of the loans that the peer gets.
    lent: Mutex<LoanNumbers>,
    /// Numbers of the loans that this process gets from the peer.
    received: Mutex<LoanNumbers>,
}

impl PeerLink {
    pub(crate) fn new(
        pool: &Client,
        arenas: &Arenas,
        watch: &Arc<ReturnWatch>,
        channel: Channel,
        stream: OwnedFd,
        returns: OwnedFd,
    ) -> Result<PeerLink, Error> {
        // SAFETY: only loans point into the peer's segments, and each loan has a pin.
        unsafe { channel.unmap_withdrawn() };
        let numbers = || Mutex::new(LoanNumbers::of(channel.id()));
        let (lent, received) = (numbers(), numbers());
        let near = LocalLink {
            pool: pool.clone(),
            returns: watch.add(Arc::new(channel), returns)?,
            arenas: arenas.clone(),
            shared: Mutex::default(),
            lent,
            received,
        };
        Ok(PeerLink { near: Arc::new(near), stream: Arc::new(UnixStream::from(stream)) })
    }

    /// Returns the peer's process, as the kernel and the manager identified it.
    pub fn peer(&self) -> &PeerProcess {
        self.near.channel().peer()
    }

    /// Returns the byte stream to the peer, for any protocol. The stream ends when the peer has ended the link or is
    /// gone.
    pub fn stream(&self) -> &UnixStream {
        &self.stream
    }

    /// Lends a buffer to the peer, and returns a reference, which the program has to send to the peer. The reference is
    /// valid for one [`receive`](PeerLink::receive). From now on the peer can see the bytes of the buffer, so they must
    /// not be written any more. For each time that a buffer is lent, the peer must receive it once, before the link has
    /// lent four million more. A writable buffer may be lent to only one peer.
    ///
    /// # Errors
    /// If the buffer belongs to another endpoint, if the peer or the manager is gone, or if too many segments are
    /// granted to the peer.
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

    /// Checks that this process, and not a parent of it, made the link.
    ///
    /// # Errors
    /// [`Forked`](unrack_pool::Error::Forked) if a parent made it.
    pub fn check_process(&self) -> Result<(), Error> {
        Ok(self.near.pool.maker().check()?)
    }

    /// Returns the number of buffers that are lent to the peer.
    pub fn lent(&self) -> usize {
        self.near.returns.held()
    }

    /// Receives, for reading, a buffer that the peer took with [`Endpoint::buffer`](crate::Endpoint::buffer) and lent.
    ///
    /// # Errors
    /// If the peer does not lend these bytes, or if the reference was received before or belongs to another link.
    pub fn receive(&self, reference: u64, bytes: u64) -> Result<Loan, Error> {
        self.receive_for(reference, bytes, Access::Read)
    }

    /// Receives, for reading and writing, a buffer that the peer took with
    /// [`Endpoint::writable_buffer`](crate::Endpoint::writable_buffer) and lent.
    ///
    /// # Errors
    /// As for [`receive`](PeerLink::receive).
    pub fn receive_writable(&self, reference: u64, bytes: u64) -> Result<Loan, Error> {
        self.receive_for(reference, bytes, Access::Write)
    }

    fn receive_for(&self, reference: u64, bytes: u64, access: Access) -> Result<Loan, Error> {
        self.check_process()?;
        let not_lent = || Error::NotLent { peer: self.peer().to_string(), reference, bytes };
        let offset = reference::offset(reference);
        // The bytes are pinned without holding the lock, because pinning may query the manager.
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

impl LocalLink {
    /// Returns whether this process, and not a parent of it, made the link.
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

    /// Lets the peer map an arena of the endpoint. This happens only when a buffer of the arena is first lent, because
    /// many links carry only their stream.
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

impl Drop for LocalLink {
    fn drop(&mut self) {
        if self.is_here() {
            self.returns.end_near();
        }
    }
}
