//! Segment: part of the pool that this process leased.

use super::inner::Inner;
use crate::wire::{Extent, Request};
use rustix::fd::OwnedFd;
use std::sync::Arc;

/// Segment that this process leased. Dropping it releases it.
pub struct Segment {
    extent: Extent,
    client: Arc<Inner>,
}

impl Segment {
    pub(super) fn new(client: Arc<Inner>, extent: Extent) -> Segment {
        Segment { extent, client }
    }

    /// Returns the segment's place in the pool.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// Returns the address of the first byte; all bytes are readable and writable until the segment is dropped.
    pub fn base(&self) -> *mut u8 {
        self.client.link.space().pointer(self.extent.offset)
    }

    /// Returns a descriptor of the segment's file, to pass to a process that is no client of the pool; none if the segment
    /// lies in a device. The file stays as it is for a process that has it: it is never leased again.
    pub fn descriptor(&self) -> Option<OwnedFd> {
        self.client.link.segment(self.extent.offset)
    }
}

impl Drop for Segment {
    fn drop(&mut self) {
        // SAFETY: users of the segment borrowed it, or their own contract says that they are done.
        unsafe { self.client.link.remove_segment(self.extent) };
        self.client.link.give_up(Request::Release { offset: self.extent.offset });
    }
}
