//! Segment: a part of the pool that this process has leased.

use super::inner::ManagerConnection;
use crate::wire::{Extent, Request};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// A segment that this process has leased. Dropping it releases the segment.
pub struct Segment {
    extent: Extent,
    client: Arc<ManagerConnection>,
}

impl Segment {
    pub(super) fn new(client: Arc<ManagerConnection>, extent: Extent) -> Segment {
        Segment { extent, client }
    }

    /// Returns the segment's place in the pool.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns the address of the segment's first byte. All of its bytes are readable and writable until the segment is
    /// dropped.
    pub fn base(&self) -> *mut u8 {
        self.client.link.space().pointer(self.extent.offset)
    }

    /// Returns a descriptor of the segment's file, which can be passed to a process that is not a client of the pool.
    /// Returns `None` if the segment lies in a device. The manager never leases the same file again, so the file stays
    /// usable for the process that has the descriptor.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        self.client.link.segment(self.extent.offset)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: users of the segment either borrow it, or guarantee by their contracts that they no longer use it.
        unsafe { self.client.link.remove_segment(self.extent) };
        self.client.link.give_up(Request::Release { offset: self.extent.offset });
    }
}
