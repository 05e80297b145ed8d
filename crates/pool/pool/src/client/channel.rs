//! One side of a channel: its queue area, the peer's wakeups, the segments that the peer granted, and whether the peer is
//! gone.

use super::channel_link::ChannelLink;
use super::error::Error;
use super::inner::ManagerConnection;
use super::segment::Segment;
use crate::wakeups::PeerWakeup;
use crate::wire::{Access, Cause, ChannelId, Extent, PeerProcess, Request};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One side of a channel. Dropping it unmaps everything that was received by the channel, and notifies the peer.
///
/// [`queues`](Channel::queues) is memory that only the two processes of the channel can access.
/// [`resolve`](Channel::resolve) finds the memory at an offset that the peer sent, and accepts only segments that
/// *this* peer granted. Pointers into the queue area and into granted segments are valid until the channel is dropped,
/// whatever the peer does. The contents are untrusted input.
pub struct Channel {
    client: Arc<ManagerConnection>,
    link: Arc<ChannelLink>,
}

impl Channel {
    pub(super) fn new(client: Arc<ManagerConnection>, link: Arc<ChannelLink>) -> Channel {
        Channel { client, link }
    }

    /// Returns the channel's identity.
    pub fn id(&self) -> ChannelId {
        self.link.id
    }

    /// Returns the process at the other side, as described by the kernel and the manager.
    pub fn peer(&self) -> &PeerProcess {
        &self.link.peer
    }

    /// Returns the place of the queue area in the pool.
    pub fn queues(&self) -> Extent {
        self.link.queues
    }

    /// Returns the address of the queue area. The area consists of whole pages, which are zero at first, and each side
    /// may write all of it.
    pub fn queue_base(&self) -> NonNull<u8> {
        NonNull::new(self.client.link.space().pointer(self.link.queues.offset)).expect("no space is at zero")
    }

    /// Returns the peer's wakeup, by which the caller wakes the peer after it has written something for the peer to find.
    pub fn peer_wakeup(&self) -> PeerWakeup<'_> {
        self.link.wakeups.get(self.link.peer_wakeup)
    }

    /// Returns whether the peer can be woken. A peer on another host can be woken only if both hosts have doorbells;
    /// otherwise the waiting peer must poll.
    pub fn rings(&self) -> bool {
        self.link.rings
    }

    /// Wakes the thread of a peer on another host that sleeps on its wakeup for this channel. The wakeup passes through
    /// the managers of both hosts. Returns false if this host's manager accepts no messages at the moment.
    #[must_use = "a peer that was not woken finds nothing"]
    pub fn ring_far(&self) -> bool {
        self.client.link.ring_far(self.link.id)
    }

    /// Returns why the peer is gone, or `None`. The segments of a peer that is gone stay mapped, and no process writes
    /// them.
    pub fn gone(&self) -> Option<Cause> {
        self.link.gone()
    }

    /// Returns the address, in this process, of a buffer that the peer names by its offset. One segment that this peer
    /// granted by this channel for this access must contain the whole buffer; otherwise the function returns `None`.
    /// Because the segment may have just been granted, an unknown offset makes the function wait once until all
    /// messages that the manager has sent so far are read.
    #[inline]
    pub fn resolve(&self, offset: u64, bytes: u64, access: Access) -> Option<NonNull<u8>> {
        if !self.link.has(offset, bytes, access) && !self.catch_up(offset, bytes, access) {
            return None;
        }
        NonNull::new(self.client.link.space().pointer(offset))
    }

    /// Returns the address as [`resolve`](Channel::resolve) does, but without waiting; therefore a segment that was
    /// just granted may still be unknown.
    #[inline]
    pub fn known(&self, offset: u64, bytes: u64, access: Access) -> Option<NonNull<u8>> {
        let known = self.link.has(offset, bytes, access);
        known.then(|| NonNull::new(self.client.link.space().pointer(offset)).expect("no space is at zero"))
    }

    /// Makes the channel unmap a segment that its owner withdrew as soon as no part of it is [pinned](Channel::pin).
    /// Without this call, withdrawn segments stay mapped, and count against the owner's quota, until the channel is
    /// dropped.
    ///
    /// # Safety
    /// From now on, the caller uses pointers into segments that came by this channel only while they are pinned.
    pub unsafe fn unmap_withdrawn(&self) {
        self.link.unmaps_withdrawn.store(true, Ordering::Release);
    }

    /// Returns the address of a peer's buffer as [`resolve`](Channel::resolve) does, and keeps the buffer mapped until
    /// the pin or the channel is dropped.
    pub fn pin(&self, offset: u64, bytes: u64, access: Access) -> Option<(NonNull<u8>, Pin)> {
        self.client.link.maker().check().ok()?;
        let pinned = || self.link.pin(offset, bytes, access);
        let entry = match pinned() {
            Some(entry) => entry,
            None if self.catch_up(offset, bytes, access) => pinned()?,
            None => return None,
        };
        let pin = Pin { client: self.client.clone(), link: self.link.clone(), entry };
        NonNull::new(self.client.link.space().pointer(offset)).map(|at| (at, pin))
    }

    /// Waits until all earlier messages of the manager are read, and then returns whether the buffer is known. The
    /// manager sent the grant before the peer could send the offset, so the grant is read before the reply to this
    /// request.
    #[cold]
    fn catch_up(&self, offset: u64, bytes: u64, access: Access) -> bool {
        if self.gone().is_some() || self.client.ask(Request::Sync).is_err() {
            return false;
        }
        self.link.has(offset, bytes, access)
    }

    /// Lets the peer map a segment of this process. When this function returns, [`resolve`](Channel::resolve) at the
    /// peer finds the segment.
    ///
    /// A segment that was granted for reading can never be granted for writing, to any peer. A peer that cannot map the
    /// segment because it has no descriptors or memory left gives the channel up ([`Cause::CannotMap`]).
    ///
    /// # Errors
    /// If the peer is gone, does not read its messages, or was already granted too many segments.
    pub fn grant(&self, segment: &Segment, access: Access) -> Result<(), Error> {
        self.grantee().grant(segment, access)
    }

    pub(crate) fn grantee(&self) -> Grantee {
        Grantee { client: self.client.clone(), link: self.link.clone() }
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        let link = &self.client.link;
        link.remove_channel(&self.link);
        // Waits for the manager's reply because other processes must be able to lease this memory as soon as the
        // channel is dropped.
        link.give_up(Request::Close { channel: self.id() });
    }
}

/// Part of a peer's segment that is in use. Once the owner has withdrawn the segment, it is unmapped when its last pin
/// is dropped.
pub struct Pin {
    client: Arc<ManagerConnection>,
    link: Arc<ChannelLink>,
    entry: usize,
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !self.client.link.maker().is_here() {
            return;
        }
        if let Some(offset) = self.link.unpin(self.client.link.space(), self.entry) {
            self.client.link.tell_unmapped(self.link.id, offset);
        }
    }
}

/// The peer of a channel, as the receiver of grants while the channel exists.
pub(crate) struct Grantee {
    client: Arc<ManagerConnection>,
    link: Arc<ChannelLink>,
}

impl Grantee {
    /// Grants a segment to the peer.
    pub(crate) fn grant(&self, segment: &Segment, access: Access) -> Result<(), Error> {
        let request = Request::Grant { channel: self.link.id, offset: segment.extent().offset, access };
        self.client.ask(request).map(drop)
    }

    /// Returns whether the peer is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.gone().is_some()
    }
}
