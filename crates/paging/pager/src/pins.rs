//! Pages that are never evicted: those of each thread's control block.
//!
//! The kernel writes to a control block in situations where it cannot wait for a pager: when a thread has ended (the word that
//! `pthread_join` waits for), and on return to the program (restartable sequences). The pager's own threads share the control block of the
//! thread that created the pager. A page stays pinned after its thread has ended, because the C library reuses the page for another thread.

use crate::sys::PAGE;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const SLOTS: usize = 1 << 14;
/// Open hash table of page addresses; 0 marks a free slot.
static PINNED: [AtomicUsize; SLOTS] = [const { AtomicUsize::new(0) }; SLOTS];
/// Upper bound of the bytes of `struct pthread`, which lies above the thread pointer on x86-64 and below it on aarch64.
const CONTROL_BLOCK: usize = 4096;

/// Returns an address in this library's own zeroed data, which is never evicted. Zeroed data begins in the last page that the file fills,
/// and the middle of this table is far behind that page.
pub(crate) fn own_data() -> usize {
    PINNED[SLOTS / 2].as_ptr() as usize
}

/// Pins the calling thread's control block.
pub fn pin_this_thread() {
    control_block(thread_pointer()).for_each(pin);
}

/// Pins the pages of `[start, end)`.
pub(crate) fn pin_range(start: usize, end: usize) {
    (start / PAGE..end.div_ceil(PAGE)).for_each(|page| pin(page * PAGE));
}

/// Returns the table of pinned pages. [`slots`] returns the indices at which to look for a page.
pub fn table() -> *const AtomicUsize {
    PINNED.as_ptr()
}

/// Returns the pages of the control block of a thread that has this thread pointer.
pub fn control_block(pointer: usize) -> impl Iterator<Item = usize> {
    let pages = pointer.saturating_sub(CONTROL_BLOCK) / PAGE..=pointer.saturating_add(CONTROL_BLOCK) / PAGE;
    pages.map(|page| page * PAGE)
}

/// Returns the indices in the table at which a page may be stored. A search begins at the first index and ends at the page or at a slot
/// that is 0.
pub fn slots(page: usize) -> impl Iterator<Item = usize> {
    let start = (page / PAGE).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
    (0..SLOTS).map(move |n| (start + n) % SLOTS)
}

/// Returns whether a page is pinned.
pub fn is_pinned(page: usize) -> bool {
    probes(page).map(|slot| slot.load(Relaxed)).take_while(|held| *held != 0).any(|held| held == page)
}

fn pin(page: usize) {
    for slot in probes(page) {
        match slot.compare_exchange(0, page, Relaxed, Relaxed) {
            Err(held) if held != page => continue,
            _ => return,
        }
    }
}

fn probes(page: usize) -> impl Iterator<Item = &'static AtomicUsize> {
    slots(page).map(|slot| &PINNED[slot])
}

fn thread_pointer() -> usize {
    let pointer: usize;
    #[cfg(target_arch = "x86_64")]
    // SAFETY: on x86-64, the thread control block begins with its own address.
    unsafe {
        core::arch::asm!("mov {}, fs:0", out(reg) pointer, options(nostack, readonly, preserves_flags));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: reads a register.
    unsafe {
        core::arch::asm!("mrs {}, tpidr_el0", out(reg) pointer, options(nostack, nomem));
    }
    pointer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_threads_control_block_is_pinned_and_the_rest_is_not() {
        pin_this_thread();
        pin_this_thread();
        assert!(is_pinned(thread_pointer() / PAGE * PAGE));
        assert!(!is_pinned(thread_pointer() / PAGE * PAGE + 64 * PAGE));
    }
}
