//! The one region of a process's address space that is the pager's own.
//!
//! ```text
//! | heap | stacks | doorbell | landings | blocks | arena: one slot per tracked page |
//! ```
//! Reserved at once without access and opened piece by piece, so that it costs address space only. The
//! pager never tracks an address in here.

use crate::sys::PAGE;
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};
use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

pub const HEAP_BYTES: usize = 64 << 30;
pub const STACK_BYTES: usize = 256 << 10;
const STACKS: usize = 2;
pub const DOORBELL_BYTES: usize = PAGE;
/// Pages that can be on their way from a memory node at once.
pub const LANDINGS: usize = 1024;
/// What fast mode needs for each thread of the program; blocks are aligned to this.
pub const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS: usize = 1 << 14;
/// 256 GiB of pages, in use or remote, per process.
pub const ARENA_SLOTS: usize = 1 << 26;
const OPEN_STEP: usize = 32 << 20;

const STACKS_AT: usize = HEAP_BYTES;
const DOORBELL_AT: usize = STACKS_AT + STACKS * STACK_BYTES;
const LANDINGS_AT: usize = DOORBELL_AT + DOORBELL_BYTES;
const BLOCKS_AT: usize = LANDINGS_AT + LANDINGS * PAGE;
const ARENA_AT: usize = BLOCKS_AT + (BLOCKS + 1) * BLOCK_BYTES;
/// Bytes of address space that are reserved in each process.
pub const LEN: usize = ARENA_AT + ARENA_SLOTS * PAGE;

static BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the arena that are usable.
static ARENA_OPENED: AtomicUsize = AtomicUsize::new(0);

/// Reserves the den, unless it is. Comes before anything else here, in the program's first thread.
pub fn reserve() -> Result<(), Errno> {
    if is_reserved() {
        return Ok(());
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address of the kernel's choice.
    let base = unsafe { rustix::mm::mmap_anonymous(std::ptr::null_mut(), LEN, ProtFlags::empty(), flags)? };
    BASE.store(base as usize, Relaxed);
    // Page by page is how memory goes in and out here.
    // SAFETY: our own mapping; the advice changes no contents.
    let _ = unsafe { rustix::mm::madvise(base, LEN, Advice::LinuxNoHugepage) };
    open(DOORBELL_AT, DOORBELL_BYTES + LANDINGS * PAGE)?;
    open(STACKS_AT, STACKS * STACK_BYTES)
}

fn is_reserved() -> bool {
    BASE.load(Relaxed) != 0
}

pub fn contains(address: usize) -> bool {
    address.wrapping_sub(BASE.load(Relaxed)) < LEN
}

pub fn heap() -> usize {
    BASE.load(Relaxed)
}

/// The highest address of stack `n`.
pub fn stack_top(n: usize) -> usize {
    assert!(n < STACKS);
    BASE.load(Relaxed) + STACKS_AT + (n + 1) * STACK_BYTES
}

pub fn doorbell() -> usize {
    BASE.load(Relaxed) + DOORBELL_AT
}

/// Where a page from a memory node lands before it is moved into the program.
pub fn landing(n: u32) -> usize {
    BASE.load(Relaxed) + LANDINGS_AT + n as usize * PAGE
}

/// Where block `n` begins.
pub fn block(n: usize) -> usize {
    (BASE.load(Relaxed) + BLOCKS_AT).next_multiple_of(BLOCK_BYTES) + n * BLOCK_BYTES
}

pub fn is_block(address: usize) -> bool {
    address.wrapping_sub(block(0)) < BLOCKS * BLOCK_BYTES
}

/// Makes `len` bytes of block `n` usable, from `at` on.
pub fn open_block(n: usize, at: usize, len: usize) -> Result<(), Errno> {
    if n >= BLOCKS {
        return Err(Errno::NOMEM);
    }
    open(block(n) + at - BASE.load(Relaxed), len)
}

pub fn arena() -> usize {
    BASE.load(Relaxed) + ARENA_AT
}

/// Where the contents of tracked page `slot` live while the program does not have them.
pub fn slot(slot: u32) -> usize {
    arena() + slot as usize * PAGE
}

/// Makes the first `bytes` of the arena usable.
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
/// In the child of a fork only, before its pager starts: the contents were the parent's.
pub unsafe fn forget_arena() {
    // SAFETY: the caller's promise.
    unsafe {
        forget(landing(0), LANDINGS * PAGE);
        forget(arena(), ARENA_OPENED.load(Relaxed));
    }
}

/// Makes the first `bytes` of the heap usable; `opened` is what was usable before.
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

/// Forgets contents: the pages read as zero, or are missing, from now on.
///
/// # Safety
/// Nothing that lives in `[at, at+len)`, which must be in the den, may be used again.
pub unsafe fn forget(at: usize, len: usize) {
    // SAFETY: ours, and the caller's promise. It cannot fail on a mapped private range.
    let _ = unsafe { rustix::mm::madvise(at as *mut c_void, len, Advice::LinuxDontNeed) };
}
