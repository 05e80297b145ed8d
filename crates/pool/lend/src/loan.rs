//! A buffer of the peer.

use crate::link::Near;
use std::ptr::NonNull;
use std::sync::Arc;
use unrack_pool::Pin;
use unrack_pool::cache_control::SharedMemory;
use unrack_pool::wire::Access;

/// Buffer of a peer, mapped and kept until this is dropped, also when the link or the peer is gone.
///
/// The peer may have the bytes mapped writable. One that keeps to the protocol does not write them; check a copy of what
/// must not change between check and use.
pub struct Loan {
    near: Arc<Near>,
    /// Keeps the bytes mapped; `None` only while the loan is dropped.
    pin: Option<Pin>,
    offset: u64,
    at: NonNull<u8>,
    bytes: u64,
    access: Access,
}

// SAFETY: the address is valid until the loan is dropped, in every thread.
unsafe impl Send for Loan {}
// SAFETY: a shared reference tells the address only.
unsafe impl Sync for Loan {}

impl Loan {
    pub(crate) fn new(
        near: Arc<Near>,
        pin: Pin,
        offset: u64,
        at: NonNull<u8>,
        bytes: u64,
        access: Access,
    ) -> Loan {
        // SAFETY: all of it is pinned, and so mapped; this host has written none of it.
        unsafe { near.memory().refresh(at.as_ptr(), bytes as usize) };
        Loan { near, pin: Some(pin), offset, at, bytes, access }
    }

    /// Returns the address of the first byte. Bytes of a loan that was received as writable may be written, all others only read.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if !self.near.is_here() {
            // The parent has it, and returns it.
            return;
        }
        if self.access == Access::Write {
            // SAFETY: pinned, and written by this host only, until it is returned.
            unsafe { self.near.memory().publish(self.at.as_ptr(), self.bytes as usize) };
        }
        // First, so that the owner can give back all of the segment.
        drop(self.pin.take());
        self.near.returns().give_back(self.offset);
    }
}
