//! One side of a channel: its queue area, the peer's bells, the segments that the peer granted, and the peer's
//! end.

use super::channel_link::ChannelLink;
use super::error::Error;
use super::inner::Inner;
use super::segment::Segment;
use crate::bells::PeerBell;
use crate::wire::{Access, Cause, ChannelId, Extent, PeerProcess, Request};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// One side of a channel. Dropping it unmaps all that came by it, and tells the peer.
///
/// [`queues`](Channel::queues) is memory that only these two processes have. [`resolve`](Channel::resolve) finds
/// the memory that a peer's offset names, and knows only segments that *this* peer granted. Pointers from both
/// are valid until the channel is dropped, whatever the peer does; the contents are untrusted input.
pub struct Channel {
    client: Arc<Inner>,
    link: Arc<ChannelLink>,
}

impl Channel {
    pub(super) fn new(client: Arc<Inner>, link: Arc<ChannelLink>) -> Channel {
        Channel { client, link }
    }

    /// Returns the channel's identity.
    pub fn id(&self) -> ChannelId {
        self.link.id
    }

    /// Returns the process at the other side, as the kernel and the manager know it.
    pub fn peer(&self) -> &PeerProcess {
        &self.link.peer
    }

    /// Returns the queue area's place in the pool.
    pub fn queues(&self) -> Extent {
        self.link.queues
    }

    /// Returns the address of the queue area. The area is whole pages, zeros at first, and both sides may write
    /// all of it.
    pub fn queue_base(&self) -> NonNull<u8> {
        NonNull::new(self.client.link.space().pointer(self.link.queues.offset)).expect("no space is at zero")
    }

    /// Returns the peer's bell, to ring when there is something for the peer to find.
    pub fn peer_bell(&self) -> PeerBell<'_> {
        self.link.bells.get(self.link.peer_bell)
    }

    /// Returns whether the peer can be woken. One on another host can if both hosts have doorbells; otherwise whoever
    /// waits for such a peer has to look by itself.
    pub fn rings(&self) -> bool {
        self.link.rings
    }

    /// Wakes the peer's thread that sleeps on its bell for this channel, on another host, by way of the managers. Returns
    /// false if this host's manager takes no messages now.
    #[must_use = "a peer that was not woken finds nothing"]
    pub fn ring_far(&self) -> bool {
        self.client.link.ring_far(self.link.id)
    }

    /// Returns why the other side is gone, or `None`. Its segments stay mapped, and nobody writes them.
    pub fn gone(&self) -> Option<Cause> {
        self.link.gone()
    }

    /// Returns the address in this process of a peer's buffer, if one segment that this peer granted by this
    /// channel for this access contains all of it. The segment may have just been granted: for an unknown offset,
    /// this waits once for all that the manager has sent.
    #[inline]
    pub fn resolve(&self, offset: u64, bytes: u64, access: Access) -> Option<NonNull<u8>> {
        if !self.link.has(offset, bytes, access) && !self.catch_up(offset, bytes, access) {
            return None;
        }
        NonNull::new(self.client.link.space().pointer(offset))
    }

    /// Returns the address as [`resolve`](Channel::resolve) does, without waiting: a segment that was just
    /// granted may not be known yet.
    #[inline]
    pub fn known(&self, offset: u64, bytes: u64, access: Access) -> Option<NonNull<u8>> {
        let known = self.link.has(offset, bytes, access);
        known.then(|| NonNull::new(self.client.link.space().pointer(offset)).expect("no space is at zero"))
    }

    /// Has segments that their owner withdraws unmapped, as soon as nothing in them is [pinned](Channel::pin). Without
    /// this call they stay mapped, and count for their owner, until the channel is dropped.
    ///
    /// # Safety
    /// From now on, pointers into segments that came by this channel are used only while they are pinned.
    pub unsafe fn unmap_withdrawn(&self) {
        self.link.unmaps_withdrawn.store(true, Ordering::Release);
    }

    /// Returns the address of a peer's buffer as [`resolve`](Channel::resolve) does, and keeps it mapped until the pin is
    /// dropped, or the channel is.
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

    /// Waits until earlier messages of the manager were read. The peer's grant was sent before its offset, so it
    /// is read before the manager's reply.
    #[cold]
    fn catch_up(&self, offset: u64, bytes: u64, access: Access) -> bool {
        if self.gone().is_some() || self.client.ask(Request::Sync).is_err() {
            return false;
        }
        self.link.has(offset, bytes, access)
    }

    /// Lets the peer map a segment of this process, before this returns.
    ///
    /// A segment granted for reading can never be granted for writing, to anybody. A peer that cannot map it,
    /// since it has no descriptors or memory left, gives the channel up ([`Cause::CannotMap`]).
    ///
    /// # Errors
    /// If the peer is gone or does not read its messages, or was granted too many segments.
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
        // Waits for the reply: once a program has dropped a channel, others can have its memory.
        link.give_up(Request::Close { channel: self.id() });
    }
}

/// Part of a peer's segment that is in use. Dropping it lets the segment be unmapped, once it was withdrawn.
pub struct Pin {
    client: Arc<Inner>,
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

/// The other side of a channel, to which segments are granted while the channel exists.
pub(crate) struct Grantee {
    client: Arc<Inner>,
    link: Arc<ChannelLink>,
}

impl Grantee {
    /// Grants the other side a segment.
    pub(crate) fn grant(&self, segment: &Segment, access: Access) -> Result<(), Error> {
        let request = Request::Grant { channel: self.link.id, offset: segment.extent().offset, access };
        self.client.ask(request).map(drop)
    }

    /// Returns whether the other side is gone.
    pub(crate) fn is_gone(&self) -> bool {
        self.link.gone().is_some()
    }
}
