//! Buffers, and queues, in ordinary memory.

use crate::ends::Layout;
use std::alloc::{alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use unrack_pool::LINE;
use unrack_pool::arena::Buffer;

/// Whole lines, zeros at first. Long ones are mapped by themselves: what nobody has written takes no memory, and what is freed
/// goes back to the machine at once.
pub struct Block {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: it owns its bytes, as a box does.
unsafe impl Send for Block {}
// SAFETY: a shared one only tells where it is.
unsafe impl Sync for Block {}

impl Block {
    /// `None` if the machine has no memory left.
    pub fn new(bytes: usize) -> Option<Block> {
        let bytes = bytes.max(1).next_multiple_of(LINE);
        let at = match bytes < MAPPED {
            // SAFETY: the size is not zero.
            true => unsafe { alloc_zeroed(layout_of(bytes)) },
            false => map(bytes)?,
        };
        Some(Block { at: NonNull::new(at)?, bytes })
    }

    pub fn base(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    pub fn capacity(&self) -> usize {
        self.bytes
    }

    /// The first so many bytes.
    pub fn bytes(&self, length: usize) -> &[u8] {
        assert!(length <= self.bytes);
        // SAFETY: ours, initialized, and borrowed.
        unsafe { std::slice::from_raw_parts(self.base(), length) }
    }

    pub fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.bytes);
        // SAFETY: ours, initialized, and borrowed by nobody else as long as what is returned.
        unsafe { std::slice::from_raw_parts_mut(self.base(), length) }
    }

    fn into_raw(self) -> (*mut u8, usize) {
        let raw = (self.base(), self.bytes);
        std::mem::forget(self);
        raw
    }

    /// # Safety
    /// What [`into_raw`](Block::into_raw) gave, once.
    unsafe fn from_raw(at: *mut u8, bytes: usize) -> Block {
        Block { at: NonNull::new(at).expect("no block is at zero"), bytes }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes < MAPPED {
            // SAFETY: allocated with the same layout, as all of this size are.
            unsafe { dealloc(self.base(), layout_of(self.bytes)) };
        } else {
            // SAFETY: a mapping of its own and of this size, of which nothing is borrowed any more. It cannot fail.
            let _ = unsafe { rustix::mm::munmap(self.base().cast(), self.bytes) };
        }
    }
}

/// Blocks from this size on are mapped. Miri has no mappings.
const MAPPED: usize = if cfg!(miri) { usize::MAX } else { 256 << 10 };

fn map(bytes: usize) -> Option<*mut u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
    at.ok().map(|at| at.cast())
}

fn layout_of(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, LINE).expect("messages are far below the limit")
}

/// A pair of queues and its buffers, which a client and its link share.
pub struct Local {
    area: Block,
    layout: Layout,
    /// By offset, in lines: where a buffer is, and its bytes. Null: there is none.
    buffers: Box<[(AtomicPtr<u8>, AtomicUsize)]>,
}

impl Local {
    pub fn new(lines: usize) -> Option<Arc<Local>> {
        let bytes = 2 * crate::queue::bytes(lines);
        let buffers = (0..lines).map(|_| Default::default()).collect();
        Some(Arc::new(Local { area: Block::new(bytes)?, layout: Layout::fitting(bytes)?, buffers }))
    }

    pub fn area(&self) -> *mut u8 {
        self.area.base()
    }

    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// Where a buffer is that a request names.
    pub fn base(&self, offset: u64) -> *mut u8 {
        // Pairs with the store in `alloc`, by way of the queue.
        self.buffers[offset as usize / LINE].0.load(Ordering::Acquire)
    }

    fn take(&self, offset: u64) -> Option<Block> {
        let (at, bytes) = &self.buffers[offset as usize / LINE];
        let at = at.swap(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: put there by `alloc`, and taken once.
        (!at.is_null()).then(|| unsafe { Block::from_raw(at, bytes.load(Ordering::Relaxed)) })
    }
}

impl Drop for Local {
    /// Buffers of calls that were never answered are still there.
    fn drop(&mut self) {
        for number in 0..self.buffers.len() {
            drop(self.take((number * LINE) as u64));
        }
    }
}

/// What gives a client its buffers.
pub struct Heap {
    local: Arc<Local>,
    free: Vec<u64>,
    most_bytes: usize,
}

/// Why there is no buffer.
pub enum NoBuffer {
    TooLong { most: usize },
    NoMemory,
}

impl Heap {
    pub fn new(local: Arc<Local>, most_bytes: usize) -> Heap {
        let free = (0..local.buffers.len()).rev().map(|number| (number * LINE) as u64).collect();
        Heap { local, free, most_bytes }
    }

    pub fn alloc(&mut self, bytes: u64) -> Result<Buffer, NoBuffer> {
        if bytes > self.most_bytes as u64 {
            return Err(NoBuffer::TooLong { most: self.most_bytes });
        }
        let (at, bytes) = Block::new(bytes as usize).ok_or(NoBuffer::NoMemory)?.into_raw();
        let offset = self.free.pop().expect("there are as many buffers as slots");
        let place = &self.local.buffers[offset as usize / LINE];
        place.1.store(bytes, Ordering::Relaxed);
        place.0.store(at, Ordering::Release);
        // SAFETY: allocated until it is freed below, or with all of this.
        Ok(unsafe { Buffer::of_no_arena(offset, NonNull::new(at).expect("just allocated"), bytes as u64) })
    }

    pub fn free(&mut self, buffer: Buffer) {
        drop(self.local.take(buffer.offset()));
        self.free.push(buffer.offset());
    }
}
