//! The reserved region: one region of a process's address space that belongs to the pager.
//!
//! ```text
//! | heap | stacks | doorbell | landings | stages | blocks | arena: one slot per tracked page |
//! ```
//! The whole reserved region is reserved at once without access rights and opened piece by piece, so that its unused parts cost only
//! address space. The pager never tracks an address in the reserved region.

use crate::sys::PAGE;
use core::ffi::c_void;
use core::ops::Range;
use core::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use rustix::io::Errno;
use rustix::mm::{Advice, MapFlags, MprotectFlags, ProtFlags};

/// Bytes of the pager's heap.
pub const HEAP_BYTES: usize = 64 << 30;
/// Bytes of one of the pager's stacks.
pub const STACK_BYTES: usize = 256 << 10;
const STACKS: usize = 2;
/// Bytes of the doorbell.
pub const DOORBELL_BYTES: usize = PAGE;
/// Maximum number of pages that can be in flight from a memory node at once.
pub const LANDINGS: usize = 1024;
/// Bytes of a stage, which is the maximum length of memory that is set aside at once ([`stage`]).
pub const STAGE_BYTES: usize = 32 * PAGE;
const STAGES: usize = 1 << 13;
/// Bytes of a block, and its alignment. In fast mode, the pager needs one block for each thread of the program.
pub const BLOCK_BYTES: usize = 128 << 10;
const BLOCKS: usize = 1 << 14;
/// Number of slots of the arena: enough for 256 GiB of pages per process, local or remote.
pub const ARENA_SLOTS: usize = 1 << 26;
const OPEN_STEP: usize = 32 << 20;

const STACKS_AT: usize = HEAP_BYTES;
const DOORBELL_AT: usize = STACKS_AT + STACKS * STACK_BYTES;
const LANDINGS_AT: usize = DOORBELL_AT + DOORBELL_BYTES;
const STAGES_AT: usize = LANDINGS_AT + LANDINGS * PAGE;
const BLOCKS_AT: usize = STAGES_AT + STAGES * STAGE_BYTES;
const ARENA_AT: usize = BLOCKS_AT + (BLOCKS + 1) * BLOCK_BYTES;
/// Bytes of address space that the reserved region reserves in each process.
pub const LEN: usize = ARENA_AT + ARENA_SLOTS * PAGE;

static BASE: AtomicUsize = AtomicUsize::new(0);
/// Number of the stage that is in use.
static STAGE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the heap that were ever made usable, and whether this was done for any block.
static HEAP_OPENED: AtomicUsize = AtomicUsize::new(0);
static HAS_BLOCKS: AtomicBool = AtomicBool::new(false);
/// Bytes of the arena that are usable.
static ARENA_OPENED: AtomicUsize = AtomicUsize::new(0);

/// Reserves the reserved region unless it is reserved already. Must be called in the program's first thread, before any other function of
/// this module.
///
/// # Errors
/// `ENOMEM` if the address space, or the part of it that this process may reserve (`ulimit -v`), has no room for [`LEN`] bytes.
pub fn reserve() -> Result<(), Errno> {
    if is_reserved() {
        return Ok(());
    }
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    let base = unsafe { rustix::mm::mmap_anonymous(core::ptr::null_mut(), LEN, ProtFlags::empty(), flags)? };
    BASE.store(base as usize, Relaxed);
    // No huge pages, because the pager moves this memory page by page.
    // SAFETY: our own mapping; the advice changes no contents.
    let _ = unsafe { rustix::mm::madvise(base, LEN, Advice::LinuxNoHugepage) };
    open(DOORBELL_AT, DOORBELL_BYTES + LANDINGS * PAGE)?;
    open(STACKS_AT, STACKS * STACK_BYTES)
}

/// Unmaps the reserved region; the opposite of [`reserve`].
///
/// # Safety
/// The reserved region is no longer in use.
pub(crate) unsafe fn release() {
    let base = BASE.swap(0, Relaxed);
    if base != 0 {
        // SAFETY: the caller guarantees that the reserved region is not in use; it is our own mapping.
        let _ = unsafe { rustix::mm::munmap(base as *mut c_void, LEN) };
    }
}

/// Excludes the reserved region from the address spaces of children of this process, because they get no pager.
pub(crate) fn keep_from_children() {
    // SAFETY: our own mapping, whose contents stay as they are.
    let _ = unsafe { rustix::mm::madvise(heap() as *mut c_void, LEN, Advice::LinuxDontFork) };
}

fn is_reserved() -> bool {
    BASE.load(Relaxed) != 0
}

/// Returns whether an address is in the reserved region.
pub fn contains(address: usize) -> bool {
    address.wrapping_sub(BASE.load(Relaxed)) < LEN
}

/// Returns the address of the pager's heap.
pub fn heap() -> usize {
    BASE.load(Relaxed)
}

/// Returns the highest address of the pager's stack `n`.
pub fn stack_top(n: usize) -> usize {
    assert!(n < STACKS);
    BASE.load(Relaxed) + STACKS_AT + (n + 1) * STACK_BYTES
}

/// Returns the address of the doorbell, a page that a thread reads in order to call the pager.
pub fn doorbell() -> usize {
    BASE.load(Relaxed) + DOORBELL_AT
}

/// Returns the address of landing `n`, where a page from a memory node arrives before the pager moves it into the program.
pub fn landing(n: u32) -> usize {
    BASE.load(Relaxed) + LANDINGS_AT + n as usize * PAGE
}

/// Returns whether an address is in a landing.
pub(crate) fn is_landing(address: usize) -> bool {
    address.wrapping_sub(landing(0)) < LANDINGS * PAGE
}

/// Returns the address of the stage, where pages are set aside between their place in the program and their slots, or `None` if all stages
/// were given up. Only a pager that copies pages uses it ([`crate::copies`]).
pub(crate) fn stage() -> Option<usize> {
    let number = STAGE.load(Relaxed);
    (number < STAGES).then(|| BASE.load(Relaxed) + STAGES_AT + number * STAGE_BYTES)
}

/// Makes the stage usable again after its first `len` bytes were possibly unmapped. If the program may have a mapping there meanwhile,
/// gives that stage up and continues with the next one.
pub(crate) fn mend_stage(len: usize) {
    let Some(at) = stage() else { return };
    let flags = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
    // SAFETY: replaces nothing.
    let mended = unsafe { rustix::mm::mmap_anonymous(at as *mut c_void, len, ProtFlags::empty(), flags) };
    if mended.map(|mended| mended as usize) != Ok(at) {
        STAGE.fetch_add(1, Relaxed);
    }
}

/// Returns the address of block `n`.
pub fn block(n: usize) -> usize {
    (BASE.load(Relaxed) + BLOCKS_AT).next_multiple_of(BLOCK_BYTES) + n * BLOCK_BYTES
}

/// Returns whether an address is in any block.
pub fn is_block(address: usize) -> bool {
    address.wrapping_sub(block(0)) < BLOCKS * BLOCK_BYTES
}

/// Makes `len` bytes of block `n` usable, from offset `at` on.
///
/// # Errors
/// `ENOMEM` if `n` is not the number of a block, or if the kernel has no memory for these bytes.
pub fn open_block(n: usize, at: usize, len: usize) -> Result<(), Errno> {
    if n >= BLOCKS {
        return Err(Errno::NOMEM);
    }
    HAS_BLOCKS.store(true, Relaxed);
    open(block(n) + at - BASE.load(Relaxed), len)
}

/// Returns the address of the arena, which consists of the slots.
pub fn arena() -> usize {
    BASE.load(Relaxed) + ARENA_AT
}

/// Returns the address of a slot of the arena. The slot holds the contents of the tracked page with the same number while the page is not
/// in the program.
pub fn slot(slot: u32) -> usize {
    arena() + slot as usize * PAGE
}

/// Returns the parts of the reserved region that may hold the pager's own state: the heap, the stacks and the blocks. Parts that were never
/// usable are left out.
pub(crate) fn own_parts() -> [Range<usize>; 3] {
    let base = BASE.load(Relaxed);
    let blocks = if HAS_BLOCKS.load(Relaxed) { BLOCKS_AT..ARENA_AT } else { 0..0 };
    [0..HEAP_OPENED.load(Relaxed), STACKS_AT..DOORBELL_AT, blocks]
        .map(|part| base + part.start..base + part.end)
}

/// Makes the first `bytes` of the arena usable.
///
/// # Errors
/// `ENOMEM` if the arena is shorter, or if the kernel has no memory for these bytes.
pub fn open_arena(bytes: usize) -> Result<(), Errno> {
    let opened = ARENA_OPENED.load(Relaxed);
    if bytes > opened {
        ARENA_OPENED.store(open_more(ARENA_AT, opened, bytes, ARENA_SLOTS * PAGE)?, Relaxed);
    }
    Ok(())
}

/// Empties all slots of the arena and all landings.
///
/// # Safety
/// May be called only in the child of a fork and before the child's pager starts, because the contents are the parent's.
pub unsafe fn forget_arena() {
    // SAFETY: the caller guarantees that the contents are not needed.
    unsafe {
        forget(landing(0), LANDINGS * PAGE);
        forget(arena(), ARENA_OPENED.load(Relaxed));
    }
}

/// Makes the first `bytes` of the pager's heap usable, of which `opened` bytes are usable already; returns the new number of usable bytes.
///
/// # Errors
/// `ENOMEM` if the heap is shorter ([`HEAP_BYTES`]), or if the kernel has no memory for these bytes.
pub fn open_heap(opened: usize, bytes: usize) -> Result<usize, Errno> {
    let opened = open_more(0, opened, bytes, HEAP_BYTES)?;
    HEAP_OPENED.fetch_max(opened, Relaxed);
    Ok(opened)
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
    // SAFETY: the range is inside our own reservation.
    unsafe { rustix::mm::mprotect(start, len, MprotectFlags::READ | MprotectFlags::WRITE) }
}

/// Drops the contents of a range of the reserved region: afterwards its pages read as zero, or are missing.
///
/// # Safety
/// The contents of `[at, at+len)`, which must be in the reserved region, are not used again.
pub unsafe fn forget(at: usize, len: usize) {
    // SAFETY: the range is ours, and the caller guarantees that its contents are not needed. The call cannot fail on a mapped private
    // range.
    let _ = unsafe { rustix::mm::madvise(at as *mut c_void, len, Advice::LinuxDontNeed) };
}
