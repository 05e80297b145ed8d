//! The pager's own allocator, which neither uses nor appears in the program's heap.
//!
//! Sizes are rounded up to powers of two. Each size has a free list, and new memory comes from the end of the reserved region's heap. A
//! spin lock suffices, because the pager is one thread and the few other callers run before the program does. In the child of a fork, whose
//! pager starts afresh, [`reset`] drops all allocations at once.

use crate::reserved_region;
use crate::sys::PAGE;
use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};

/// Allocator of the pager's heap.
pub struct PagerHeap;

struct State {
    /// First free block of each size; a free block begins with the address of the next one.
    free: [usize; 48],
    used: usize,
    opened: usize,
}

struct LockedHeap {
    lock: AtomicBool,
    state: UnsafeCell<State>,
}

// SAFETY: `state` is only accessed while `lock` is held.
unsafe impl Sync for LockedHeap {}

static HEAP: LockedHeap = LockedHeap {
    lock: AtomicBool::new(false),
    state: UnsafeCell::new(State { free: [0; 48], used: 0, opened: 0 }),
};

fn with_state<T>(f: impl FnOnce(&mut State) -> T) -> T {
    while HEAP.lock.swap(true, Acquire) {
        core::hint::spin_loop();
    }
    // SAFETY: this thread holds the lock.
    let result = f(unsafe { &mut *HEAP.state.get() });
    HEAP.lock.store(false, Release);
    result
}

/// Returns log2 of the block size that serves `layout`; a block has at least 16 bytes.
fn class(layout: Layout) -> usize {
    layout.size().max(layout.align()).max(16).next_power_of_two().trailing_zeros() as usize
}

impl State {
    fn take(&mut self, class: usize) -> Option<usize> {
        let block = self.free[class];
        if block != 0 {
            // SAFETY: a free block begins with the next one's address.
            self.free[class] = unsafe { *(block as *const usize) };
            return Some(block);
        }
        let size = 1usize << class;
        let at = self.used.next_multiple_of(size);
        self.opened = reserved_region::open_heap(self.opened, at + size).ok()?;
        self.used = at + size;
        Some(reserved_region::heap() + at)
    }
}

// SAFETY: blocks are disjoint, aligned to their size, and live until `dealloc`.
unsafe impl GlobalAlloc for PagerHeap {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if reserved_region::reserve().is_err() {
            return core::ptr::null_mut();
        }
        with_state(|state| state.take(class(layout)).map_or(core::ptr::null_mut(), |block| block as *mut u8))
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        with_state(|state| {
            let class = class(layout);
            // SAFETY: the block is ours again and holds at least 16 bytes.
            unsafe { *(block as *mut usize) = state.free[class] };
            state.free[class] = block as usize;
        })
    }
}

/// Returns an upper bound of the number of memory pages that the pager's heap uses.
pub fn used_pages() -> u64 {
    with_state(|state| state.used.div_ceil(PAGE) as u64)
}

/// Drops every allocation in the pager's heap at once.
///
/// # Safety
/// May be called only in the child of a fork, with one thread, if no earlier allocation is used again.
pub unsafe fn reset() {
    HEAP.lock.store(false, Release);
    with_state(|state| {
        // SAFETY: the caller guarantees that no allocation is used again.
        unsafe { reserved_region::forget(reserved_region::heap(), state.opened) };
        state.free = [0; 48];
        state.used = 0;
    })
}
