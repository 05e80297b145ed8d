//! Checks whether the caller's buffers can be read and written. The kernel returns `EFAULT` for a bad buffer, whereas a copy by this
//! library would end the program with a signal.
//!
//! The kernel is asked about each page once (`MADV_POPULATE_READ`, Linux 5.14). Pages that were found good are remembered until the program
//! unmaps or protects them through the C library's functions.

use crate::kernel;
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Size of a page in the cache of good pages, in bytes. The kernel's pages may be larger.
const PAGE: usize = 4096;
/// Number of pages that the cache holds. The number of a page determines its place.
const KEPT: usize = 4096;
/// Bit of a cached page that can be written.
const WRITABLE: usize = 1;

/// Cache of good pages: their addresses, combined with [`WRITABLE`].
static PAGES: [AtomicUsize; KEPT] = [const { AtomicUsize::new(0) }; KEPT];

/// How a call accesses a buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BufferUse {
    Read,
    Write,
}

/// Returns whether the bytes at `place` can be accessed in this way.
#[inline]
pub fn allows(touch: BufferUse, place: *const u8, bytes: usize) -> bool {
    let begin = place as usize;
    let Some(last) = begin.checked_add(bytes.max(1) - 1) else { return bytes == 0 };
    let first = begin & !(PAGE - 1);
    bytes == 0 || (first..=last).step_by(PAGE).all(|page| is_kept(touch, page)) || ask(touch, first, last)
}

fn is_kept(touch: BufferUse, page: usize) -> bool {
    let kept = PAGES[page / PAGE % KEPT].load(Ordering::Relaxed);
    kept == page | WRITABLE || touch == BufferUse::Read && kept == page && page != 0
}

/// Removes pages from the cache, because the program unmaps or protects them.
pub fn forget(place: usize, bytes: usize) {
    let pages = (bytes / PAGE + 2).min(KEPT);
    for i in 0..pages {
        PAGES[(place / PAGE + i) % KEPT].store(0, Ordering::Relaxed);
    }
}

/// Asks the kernel about the pages between two addresses.
#[cold]
fn ask(touch: BufferUse, first: usize, last: usize) -> bool {
    let before = kernel::errno();
    let is_good = match populate(touch, first, last) {
        0 => true,
        libc::EFAULT => false,
        // Unmapped memory, protected memory, or memory of a device, which a program can access but the kernel does not populate.
        _ => !can_populate() || is_mapped(touch, first, last),
    };
    kernel::fail(before);
    if is_good {
        let mark = if touch == BufferUse::Write { WRITABLE } else { 0 };
        for page in (first..=last).step_by(PAGE).take(KEPT) {
            PAGES[page / PAGE % KEPT].store(page | mark, Ordering::Relaxed);
        }
    }
    is_good
}

/// Makes the kernel map the pages as an access would. Returns the error, or 0.
fn populate(touch: BufferUse, first: usize, last: usize) -> c_int {
    let advice = match touch {
        BufferUse::Read => libc::MADV_POPULATE_READ,
        BufferUse::Write => libc::MADV_POPULATE_WRITE,
    };
    let first = first & !(page_bytes() - 1);
    // SAFETY: pages are mapped as by an access, and their content does not change.
    let done = unsafe { libc::syscall(libc::SYS_madvise, first, last - first + 1, advice) };
    if done == 0 { 0 } else { kernel::errno() }
}

fn page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    // SAFETY: only a plain number is passed.
    *BYTES.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize })
}

/// Returns whether the kernel supports populating pages, which is tried on a page of this library.
fn can_populate() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let own = PAGES.as_ptr() as usize;
    *CAN.get_or_init(|| populate(BufferUse::Read, own, own) == 0)
}

/// Returns whether `/proc/self/maps` lists all these addresses with the right to access them in this way.
fn is_mapped(touch: BufferUse, first: usize, last: usize) -> bool {
    let Ok(list) = std::fs::read_to_string("/proc/self/maps") else { return true };
    let mut next = first;
    for line in list.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((begin, end)) = range.split_once('-') else { continue };
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let letter = if touch == BufferUse::Write { 'w' } else { 'r' };
        if (number(begin)..number(end)).contains(&next) && rights.contains(letter) {
            next = number(end);
        }
    }
    next > last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps pages with these access rights.
    fn map(pages: usize, rights: c_int) -> *const u8 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: the kernel chooses new memory.
        let made = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, rights, flags, -1, 0) };
        assert!(made != libc::MAP_FAILED);
        made.cast()
    }

    #[test]
    fn what_cannot_be_reached_is_found_before_it_is() {
        let own = [0_u8; 100];
        assert!(allows(BufferUse::Read, own.as_ptr(), 100) && allows(BufferUse::Write, own.as_ptr(), 100));
        for bad in [std::ptr::null(), 8 as *const u8, usize::MAX as *const u8] {
            assert!(!allows(BufferUse::Read, bad, 10) && !allows(BufferUse::Write, bad, 10), "{bad:?}");
            assert!(allows(BufferUse::Read, bad, 0));
        }
        let (none, constant) = (map(1, libc::PROT_NONE), map(1, libc::PROT_READ));
        assert!(!allows(BufferUse::Read, none, 1) && !allows(BufferUse::Write, none, 1));
        assert!(allows(BufferUse::Read, constant, PAGE) && !allows(BufferUse::Write, constant, 1));
    }

    #[test]
    fn what_was_unmapped_is_not_taken_for_what_it_was() {
        let two = map(2, libc::PROT_READ | libc::PROT_WRITE);
        assert!(allows(BufferUse::Write, two, 2 * PAGE));
        let second = two.wrapping_add(PAGE);
        // SAFETY: memory that this test mapped.
        unsafe { libc::munmap(second.cast_mut().cast(), PAGE) };
        forget(second as usize, PAGE);
        assert!(allows(BufferUse::Write, two, PAGE) && !allows(BufferUse::Write, two, PAGE + 1));
    }
}
