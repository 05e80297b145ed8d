//! Buffers and queues in ordinary memory, for calls over TCP.

use crate::ends::QueueLayout;
use std::alloc::{alloc_zeroed, dealloc};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};
use unrack_pool::LINE;
use unrack_pool::arena::Buffer;

/// A block of whole cache lines, which is zero at first. A large block is a separate mapping, so that pages that were
/// never written take no memory, and a freed block is returned to the machine at once.
pub(crate) struct Block {
    at: NonNull<u8>,
    bytes: usize,
}

// SAFETY: the block owns its bytes, like a box.
unsafe impl Send for Block {}
// SAFETY: a shared reference exposes nothing but the address of the bytes.
unsafe impl Sync for Block {}

impl Block {
    /// Allocates a block; `None` if the machine has no memory left.
    pub(crate) fn new(bytes: usize) -> Option<Block> {
        let bytes = bytes.max(1).next_multiple_of(LINE);
        let at = match bytes < MAPPED {
            // SAFETY: the size is not zero.
            true => unsafe { alloc_zeroed(layout_of(bytes)) },
            false => map(bytes)?,
        };
        Some(Block { at: NonNull::new(at)?, bytes })
    }

    /// Returns the address of the block.
    pub(crate) fn base(&self) -> *mut u8 {
        self.at.as_ptr()
    }

    /// Returns the size of the block in bytes, which is a multiple of the size of a line.
    pub(crate) fn capacity(&self) -> usize {
        self.bytes
    }

    /// Returns the first `length` bytes.
    pub(crate) fn bytes(&self, length: usize) -> &[u8] {
        assert!(length <= self.bytes);
        // SAFETY: the bytes belong to the block, are initialized, and are borrowed.
        unsafe { std::slice::from_raw_parts(self.base(), length) }
    }

    /// Returns the first `length` bytes, to be written.
    pub(crate) fn bytes_mut(&mut self, length: usize) -> &mut [u8] {
        assert!(length <= self.bytes);
        // SAFETY: the bytes belong to the block, are initialized, and are borrowed mutably as long as the returned
        // slice.
        unsafe { std::slice::from_raw_parts_mut(self.base(), length) }
    }

    fn into_raw(self) -> (*mut u8, usize) {
        let raw = (self.base(), self.bytes);
        std::mem::forget(self);
        raw
    }

    /// Makes a block from the parts that [`into_raw`](Block::into_raw) returned.
    ///
    /// # Safety
    /// The parts must come from [`into_raw`](Block::into_raw), and must be used only once.
    unsafe fn from_raw(at: *mut u8, bytes: usize) -> Block {
        Block { at: NonNull::new(at).expect("no block is at zero"), bytes }
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.bytes < MAPPED {
            // SAFETY: allocated with the same layout, like all blocks of this size.
            unsafe { dealloc(self.base(), layout_of(self.bytes)) };
        } else {
            // SAFETY: this is a separate mapping of this size, and no borrow of it exists any more. Unmapping it cannot
            // fail.
            let _ = unsafe { rustix::mm::munmap(self.base().cast(), self.bytes) };
        }
    }
}

/// Smallest size in bytes of a block that is mapped. Under Miri no block is mapped, because Miri has no mappings.
const MAPPED: usize = if cfg!(miri) { usize::MAX } else { 256 << 10 };

fn map(bytes: usize) -> Option<*mut u8> {
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: this makes a new mapping at an address that the kernel chooses.
    let at = unsafe { mmap_anonymous(std::ptr::null_mut(), bytes, protection, MapFlags::PRIVATE) };
    at.ok().map(|at| at.cast())
}

fn layout_of(bytes: usize) -> std::alloc::Layout {
    std::alloc::Layout::from_size_align(bytes, LINE).expect("messages are far below the limit")
}

/// A pair of queues and its buffers, which a client and its link share.
pub(crate) struct Local {
    area: Block,
    layout: QueueLayout,
    /// Address and size in bytes of each buffer, indexed by its offset in lines. The address is null if there is no
    /// buffer.
    buffers: Box<[(AtomicPtr<u8>, AtomicUsize)]>,
}

impl Local {
    /// Allocates a pair of queues of `lines` lines each; `None` if there is no memory.
    pub(crate) fn new(lines: usize) -> Option<Arc<Local>> {
        let bytes = 2 * crate::queue::bytes(lines);
        let buffers = (0..lines).map(|_| Default::default()).collect();
        Some(Arc::new(Local { area: Block::new(bytes)?, layout: QueueLayout::fitting(bytes)?, buffers }))
    }

    /// Returns the address of the area of the two queues.
    pub(crate) fn area(&self) -> *mut u8 {
        self.area.base()
    }

    /// Returns the layout of the queues.
    pub(crate) fn layout(&self) -> QueueLayout {
        self.layout
    }

    /// Returns the address of the buffer at a request's offset.
    pub(crate) fn base(&self, offset: u64) -> *mut u8 {
        // Pairs with the store in `alloc`; the queue orders the two.
        self.buffers[offset as usize / LINE].0.load(Ordering::Acquire)
    }

    fn take(&self, offset: u64) -> Option<Block> {
        let (at, bytes) = &self.buffers[offset as usize / LINE];
        let at = at.swap(std::ptr::null_mut(), Ordering::Relaxed);
        // SAFETY: `alloc` stored these parts, and they are taken only once.
        (!at.is_null()).then(|| unsafe { Block::from_raw(at, bytes.load(Ordering::Relaxed)) })
    }
}

impl Drop for Local {
    /// Frees the buffers of calls that were never answered.
    fn drop(&mut self) {
        for number in 0..self.buffers.len() {
            drop(self.take((number * LINE) as u64));
        }
    }
}

/// Allocator of a client's buffers.
pub(crate) struct BufferHeap {
    local: Arc<Local>,
    free: Vec<u64>,
    most_bytes: usize,
}

/// Reason why a buffer was not allocated.
pub(crate) enum NoBuffer {
    TooLong { most: usize },
    NoMemory,
}

impl BufferHeap {
    /// Makes an allocator of buffers of at most `most_bytes` bytes.
    pub(crate) fn new(local: Arc<Local>, most_bytes: usize) -> BufferHeap {
        let free = (0..local.buffers.len()).rev().map(|number| (number * LINE) as u64).collect();
        BufferHeap { local, free, most_bytes }
    }

    /// Allocates a buffer of at least `bytes` bytes.
    pub(crate) fn alloc(&mut self, bytes: u64) -> Result<Buffer, NoBuffer> {
        if bytes > self.most_bytes as u64 {
            return Err(NoBuffer::TooLong { most: self.most_bytes });
        }
        let (at, bytes) = Block::new(bytes as usize).ok_or(NoBuffer::NoMemory)?.into_raw();
        let offset = self.free.pop().expect("there are as many buffers as slots");
        let place = &self.local.buffers[offset as usize / LINE];
        place.1.store(bytes, Ordering::Relaxed);
        place.0.store(at, Ordering::Release);
        // SAFETY: the buffer stays allocated until `free` frees it, or until `local` is dropped.
        Ok(unsafe { Buffer::of_no_arena(offset, NonNull::new(at).expect("just allocated"), bytes as u64) })
    }

    /// Frees a buffer.
    pub(crate) fn free(&mut self, buffer: Buffer) {
        drop(self.local.take(buffer.offset()));
        self.free.push(buffer.offset());
    }
}
