//! A buffer of this process, which peers read or write.

use rustix::mm::{Advice, madvise};
use std::ptr::NonNull;
use std::sync::Arc;
use unrack_pool::arena::MOST_SMALL;
use unrack_pool::cache_control::SharedMemory;
use unrack_pool::wire::Access;
use unrack_pool::{Arena, Buffer, Client, PAGE};

use crate::Error;

/// A buffer that its owner fills and lends. Clones are the same buffer. It is freed when the last clone is dropped and
/// the last peer has returned it.
#[derive(Clone)]
pub struct LentBuffer {
    pub(crate) owned: Arc<OwnedBuffer>,
}

/// A buffer that is freed when it is dropped.
pub(crate) struct OwnedBuffer {
    arena: Arena,
    /// `None` only while the buffer is being dropped.
    buffer: Option<Buffer>,
    bytes: u64,
    /// Access that peers have to the buffer.
    pub(crate) access: Access,
    pub(crate) pool: Client,
}

impl LentBuffer {
    /// Takes `bytes` bytes from an arena to which peers have this access.
    pub(crate) fn new(pool: &Client, arena: &Arena, bytes: u64, access: Access) -> Result<LentBuffer, Error> {
        let buffer = arena.alloc(bytes)?;
        if bytes > MOST_SMALL {
            // Populating all pages at once takes three quarters of the time of one page fault for each. If the kernel
            // does not know this call, the page faults happen.
            // SAFETY: the buffer is mapped, and the call changes none of its bytes.
            let _ = unsafe {
                madvise(
                    buffer.as_ptr().cast(),
                    bytes.next_multiple_of(PAGE) as usize,
                    Advice::LinuxPopulateWrite,
                )
            };
        }
        let buffer = Some(buffer);
        let (arena, pool) = (arena.clone(), pool.clone());
        Ok(LentBuffer { owned: Arc::new(OwnedBuffer { arena, buffer, bytes, access, pool }) })
    }

    /// Returns the address of the first byte, which is aligned to a cache line. The bytes may be written until the
    /// buffer is lent, and read until it is dropped. At first their contents are arbitrary.
    pub fn as_ptr(&self) -> NonNull<u8> {
        NonNull::new(self.owned.buffer().as_ptr()).expect("no space is at zero")
    }

    /// Returns the number of bytes that were requested.
    pub fn len(&self) -> u64 {
        self.owned.bytes
    }

    /// Returns whether the buffer has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the buffer's offset in the pool.
    pub(crate) fn offset(&self) -> u64 {
        self.owned.buffer().offset()
    }

    /// Makes the bytes visible to other hosts.
    pub(crate) fn publish(&self) {
        // SAFETY: the buffer is mapped as long as it exists, and until it is lent only this process writes it.
        unsafe { self.owned.pool.memory().publish(self.as_ptr().as_ptr(), self.len() as usize) };
    }
}

impl OwnedBuffer {
    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("only a dropped one has none")
    }
}

impl Drop for OwnedBuffer {
    fn drop(&mut self) {
        let buffer = self.buffer.take().expect("it is dropped once");
        if self.access == Access::Write {
            // SAFETY: the buffer is mapped until the arena frees it below. The peer has published the bytes that it
            // wrote, and has returned the buffer.
            unsafe { self.pool.memory().refresh(buffer.as_ptr(), self.bytes as usize) };
        }
        self.arena.free(buffer);
    }
}
