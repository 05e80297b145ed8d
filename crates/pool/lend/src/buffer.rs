//! A buffer of this process that peers read.

use rustix::mm::{Advice, madvise};
use std::ptr::NonNull;
use std::sync::Arc;
use unrack_pool::arena::MOST_SMALL;
use unrack_pool::cache_control::SharedMemory;
use unrack_pool::wire::Access;
use unrack_pool::{Arena, Buffer, Client, PAGE};

use crate::Error;

/// Buffer that its owner fills and lends. Clones are the same buffer; it is freed when the last clone is dropped and the
/// last peer has returned it.
#[derive(Clone)]
pub struct LentBuffer {
    pub(crate) owned: Arc<Owned>,
}

/// Buffer, freed when it is dropped.
pub(crate) struct Owned {
    arena: Arena,
    /// `None` only while it is dropped.
    buffer: Option<Buffer>,
    bytes: u64,
    /// Access that peers have.
    pub(crate) access: Access,
    pub(crate) pool: Client,
}

impl LentBuffer {
    /// Takes `bytes` bytes from an arena to which peers have this access.
    pub(crate) fn new(pool: &Client, arena: &Arena, bytes: u64, access: Access) -> Result<LentBuffer, Error> {
        let buffer = arena.alloc(bytes)?;
        if bytes > MOST_SMALL {
            // Faults for all pages at once take three quarters of the time that one for each takes. Where the kernel does not know
            // this call, there is one for each.
            // SAFETY: the buffer is mapped, and changes in no byte.
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
        Ok(LentBuffer { owned: Arc::new(Owned { arena, buffer, bytes, access, pool }) })
    }

    /// Returns the address of the first byte, aligned to a cache line. The bytes are readable and writable until the
    /// buffer is lent, readable until it is dropped; their contents at first are arbitrary.
    pub fn as_ptr(&self) -> NonNull<u8> {
        NonNull::new(self.owned.buffer().as_ptr()).expect("no space is at zero")
    }

    /// Returns the number of bytes that were asked for.
    pub fn len(&self) -> u64 {
        self.owned.bytes
    }

    /// Returns whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the buffer's offset in the pool.
    pub(crate) fn offset(&self) -> u64 {
        self.owned.buffer().offset()
    }

    /// Makes the bytes visible to other hosts.
    pub(crate) fn publish(&self) {
        // SAFETY: the buffer is mapped as long as it exists, and nobody writes it but this process until it is lent.
        unsafe { self.owned.pool.memory().publish(self.as_ptr().as_ptr(), self.len() as usize) };
    }
}

impl Owned {
    fn buffer(&self) -> &Buffer {
        self.buffer.as_ref().expect("only a dropped one has none")
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let buffer = self.buffer.take().expect("it is dropped once");
        if self.access == Access::Write {
            // SAFETY: mapped until the next line. The peer has published what it wrote, and returned it.
            unsafe { self.pool.memory().refresh(buffer.as_ptr(), self.bytes as usize) };
        }
        self.arena.free(buffer);
    }
}
