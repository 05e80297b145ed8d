//! A buffer of the peer.

use crate::link::LocalLink;
use std::ptr::NonNull;
use std::sync::Arc;
use unrack_pool::Pin;
use unrack_pool::cache_control::SharedMemory;
use unrack_pool::wire::Access;

/// A buffer of a peer. It stays mapped and is kept until the loan is dropped, even if the link or the peer is gone.
///
/// The peer may have the bytes mapped writable. A peer that keeps to the protocol does not write them, but do not rely
/// on that: if bytes must not change between check and use, copy them and check the copy.
pub struct Loan {
    near: Arc<LocalLink>,
    /// Keeps the bytes mapped; `None` only while the loan is being dropped.
    pin: Option<Pin>,
    offset: u64,
    at: NonNull<u8>,
    bytes: u64,
    access: Access,
}

// SAFETY: the address is valid in every thread until the loan is dropped.
unsafe impl Send for Loan {}
// SAFETY: a shared reference exposes nothing but the address.
unsafe impl Sync for Loan {}

impl Loan {
    pub(crate) fn new(
        near: Arc<LocalLink>,
        pin: Pin,
        offset: u64,
        at: NonNull<u8>,
        bytes: u64,
        access: Access,
    ) -> Loan {
        // SAFETY: the whole range is pinned and therefore mapped; this host has written none of it.
        unsafe { near.memory().refresh(at.as_ptr(), bytes as usize) };
        Loan { near, pin: Some(pin), offset, at, bytes, access }
    }

    /// Returns the address of the first byte. The bytes may be written only if the loan was received as writable.
    pub fn as_ptr(&self) -> NonNull<u8> {
        self.at
    }

    /// Returns the number of bytes.
    pub fn len(&self) -> u64 {
        self.bytes
    }

    /// Returns whether the loan has no bytes.
    pub fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Loan {
    fn drop(&mut self) {
        if !self.near.is_here() {
            // The parent process holds the loan as well, and returns it.
            return;
        }
        if self.access == Access::Write {
            // SAFETY: the range is pinned, and only this host writes it until the loan is returned.
            unsafe { self.near.memory().publish(self.at.as_ptr(), self.bytes as usize) };
        }
        // The pin is dropped before the return, so that the owner can then give back the whole segment.
        drop(self.pin.take());
        self.near.returns().give_back(self.offset);
    }
}
