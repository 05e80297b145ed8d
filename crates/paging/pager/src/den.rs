//! The den: one region of a process's address space that belongs to the pager.
//!
//! ```text
//! | heap | stacks | doorbell | landings | blocks | arena: one slot per tracked page |
//! ```
//! It is reserved at once without access and opened piece by piece, so that it costs address space only. The
//! pager never tracks an address in here.

use crate::sys::PAGE;
use core::ffi::c_void;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// Bytes of the pager's heap.
pub const HEAP_BYTES: usize = 64 << 30;
/// Bytes of a stack.
pub const STACK_BYTES: usize = 256 << 10;
const STACKS: usize = 2;
/// Bytes of the doorbell.
pub const DOORBELL_BYTES: usize = PAGE;
/// Most pages that can be under way from a memory node at once.
pub const LANDINGS: usize = 1024;
/// Bytes of a block, which fast mode needs for each thread of the program; blocks are aligned to this.
pub const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS: usize = 1 << 14;
/// Number of slots: 256 GiB of pages, in use or remote, per process.
pub const ARENA_SLOTS: usize = 1 << 26;
const OPEN_STEP: usize = 32 << 20;

const STACKS_AT: usize = HEAP_BYTES;
const DOORBELL_AT: usize = STACKS_AT + STACKS * STACK_BYTES;
const LANDINGS_AT: usize = DOORBELL_AT + DOORBELL_BYTES;
const BLOCKS_AT: usize = LANDINGS_AT + LANDINGS * PAGE;
const ARENA_AT: usize = BLOCKS_AT + (BLOCKS + 1) * BLOCK_BYTES;
/// Places of the pager's own memory, from the heap on: the heap, stacks and blocks.
pub(crate) const OWN: [core::ops::Range<usize>; 2] = [0..DOORBELL_AT, BLOCKS_AT..ARENA_AT];
/// Bytes of address space that are reserved in each process.
pub const LEN: usize = ARENA_AT + ARENA_SLOTS * PAGE;

static BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the arena that are usable.
static ARENA_OPENED: AtomicUsize = AtomicUsize::new(0);

/// Reserves the den, if it is not yet. Called first, in the program's first thread.
///
/// # Errors
/// `ENOMEM` if the address space, or what this process may reserve of it (`ulimit -v`), has no room for [`LEN`] bytes.
pub fn reserve() -> Result<(), Errno> {
    if is_reserved() {
        return Ok(());
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), LEN, ProtFlags::empty(), flags)? };
    BASE.store(base as usize, Relaxed);
    // Memory is moved page by page here.
    // SAFETY: our own mapping; the advice changes no contents.
    let _ = unsafe { rustix::mm::madvise(base, LEN, Advice::LinuxNoHugepage) };
    open(DOORBELL_AT, DOORBELL_BYTES + LANDINGS * PAGE)?;
    open(STACKS_AT, STACKS * STACK_BYTES)
}

/// Ends [`reserve`].
///
/// # Safety
/// Nothing uses the den any more.
pub(crate) unsafe fn release() {
    let base = BASE.swap(0, Relaxed);
    if base != 0 {
        // SAFETY: as the caller says; our own mapping.
        let _ = unsafe { rustix::mm::munmap(base as *mut c_void, LEN) };
    }
}

/// Keeps the den from children of this process, which get no pager.
pub(crate) fn keep_from_children() {
    // SAFETY: our own mapping, of which nothing changes here.
    let _ = unsafe { rustix::mm::madvise(heap() as *mut c_void, LEN, Advice::LinuxDontFork) };
}

fn is_reserved() -> bool {
    BASE.load(Relaxed) != 0
}

/// Returns whether an address is in the den.
pub fn contains(address: usize) -> bool {
    address.wrapping_sub(BASE.load(Relaxed)) < LEN
}

/// Returns the address of the heap.
pub fn heap() -> usize {
    BASE.load(Relaxed)
}

/// Returns the highest address of stack `n`.
pub fn stack_top(n: usize) -> usize {
    assert!(n < STACKS);
    BASE.load(Relaxed) + STACKS_AT + (n + 1) * STACK_BYTES
}

/// Returns the address of the doorbell.
pub fn doorbell() -> usize {
    BASE.load(Relaxed) + DOORBELL_AT
}

/// Returns the address of landing `n`, where a page from a memory node arrives before it is moved into the
/// program.
pub fn landing(n: u32) -> usize {
    BASE.load(Relaxed) + LANDINGS_AT + n as usize * PAGE
}

/// Returns the address of block `n`.
pub fn block(n: usize) -> usize {
    (BASE.load(Relaxed) + BLOCKS_AT).next_multiple_of(BLOCK_BYTES) + n * BLOCK_BYTES
}

/// Returns whether an address is in a block.
pub fn is_block(address: usize) -> bool {
    address.wrapping_sub(block(0)) < BLOCKS * BLOCK_BYTES
}

/// Makes `len` bytes of block `n` usable, from `at` on.
///
/// # Errors
/// `ENOMEM` if there is no block of this number, or the kernel has no memory for it.
pub fn open_block(n: usize, at: usize, len: usize) -> Result<(), Errno> {
    if n >= BLOCKS {
        return Err(Errno::NOMEM);
    }
    open(block(n) + at - BASE.load(Relaxed), len)
}

/// Returns the address of the arena.
pub fn arena() -> usize {
    BASE.load(Relaxed) + ARENA_AT
}

/// Returns the address of a slot, which holds the contents of the tracked page of that number while the program
/// does not have them.
pub fn slot(slot: u32) -> usize {
    arena() + slot as usize * PAGE
}

/// Makes the first `bytes` of the arena usable.
///
/// # Errors
/// `ENOMEM` if the arena is not that long, or the kernel has no memory for it.
pub fn open_arena(bytes: usize) -> Result<(), Errno> {
    let opened = ARENA_OPENED.load(Relaxed);
    if bytes > opened {
        ARENA_OPENED.store(open_more(ARENA_AT, opened, bytes, ARENA_SLOTS * PAGE)?, Relaxed);
    }
    Ok(())
}

/// Empties all slots and landings.
///
/// # Safety
/// Called only in the child of a fork, before its pager starts: the contents were the parent's.
pub unsafe fn forget_arena() {
    // SAFETY: as the caller says.
    unsafe {
        forget(landing(0), LANDINGS * PAGE);
        forget(arena(), ARENA_OPENED.load(Relaxed));
    }
}

/// Makes the first `bytes` of the heap usable, of which `opened` are already; returns the new number.
///
/// # Errors
/// `ENOMEM` if the heap is not that long ([`HEAP_BYTES`]), or the kernel has no memory for it.
pub fn open_heap(opened: usize, bytes: usize) -> Result<usize, Errno> {
    open_more(0, opened, bytes, HEAP_BYTES)
}

fn open_more(at: usize, opened: usize, bytes: usize, most: usize) -> Result<usize, Errno> {
    if bytes <= opened {
        return Ok(opened);
    }
    let target = bytes.next_multiple_of(OPEN_STEP).min(most);
    if target < bytes {
        return Err(Errno::NOMEM);
    }
    open(at + opened, target - opened)?;
    Ok(target)
}

fn open(at: usize, len: usize) -> Result<(), Errno> {
    let start = (BASE.load(Relaxed) + at) as *mut c_void;
    // SAFETY: inside our own reservation.
    unsafe { rustix::mm::mprotect(start, len, MprotectFlags::READ | MprotectFlags::WRITE) }
}

/// Drops contents: from now on the pages read as zero, or are missing.
///
/// # Safety
/// The contents of `[at, at+len)`, which must be in the den, are not used again.
pub unsafe fn forget(at: usize, len: usize) {
    // SAFETY: ours, and as the caller says. It cannot fail on a mapped private range.
    let _ = unsafe { rustix::mm::madvise(at as *mut c_void, len, Advice::LinuxDontNeed) };
}
