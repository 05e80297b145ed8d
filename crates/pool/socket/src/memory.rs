//! Whether the caller's buffers can be read and written: the kernel answers `EFAULT` where a copy of this library's would end the
//! program by a signal.
//!
//! The kernel is asked for each page once (`MADV_POPULATE_READ`, Linux 5.14); pages that were found good are kept, for as long as
//! the program does not unmap or protect them by the C library's functions.

use crate::kernel;
use libc::c_int;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes of a page, as far as pages are kept: the kernel's may be larger.
const PAGE: usize = 4096;
/// Pages that are kept, each in the place that its number gives.
const KEPT: usize = 4096;
/// Bit of a kept page that can be written.
const WRITABLE: usize = 1;

/// Addresses of pages, with [`WRITABLE`].
static PAGES: [AtomicUsize; KEPT] = [const { AtomicUsize::new(0) }; KEPT];

/// What a buffer is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Touch {
    Read,
    Write,
}

/// Returns true if so many bytes can be read, or written.
#[inline]
pub fn allows(touch: Touch, place: *const u8, bytes: usize) -> bool {
    let begin = place as usize;
    let Some(last) = begin.checked_add(bytes.max(1) - 1) else { return bytes == 0 };
    let first = begin & !(PAGE - 1);
    bytes == 0 || (first..=last).step_by(PAGE).all(|page| is_kept(touch, page)) || ask(touch, first, last)
}

fn is_kept(touch: Touch, page: usize) -> bool {
    let kept = PAGES[page / PAGE % KEPT].load(Ordering::Relaxed);
    kept == page | WRITABLE || touch == Touch::Read && kept == page && page != 0
}

/// Notes that the program unmaps or protects memory.
pub fn forget(place: usize, bytes: usize) {
    let pages = (bytes / PAGE + 2).min(KEPT);
    for i in 0..pages {
        PAGES[(place / PAGE + i) % KEPT].store(0, Ordering::Relaxed);
    }
}

/// Asks the kernel for the pages from one address to another.
#[cold]
fn ask(touch: Touch, first: usize, last: usize) -> bool {
    let before = kernel::errno();
    let is_good = match populate(touch, first, last) {
        0 => true,
        libc::EFAULT => false,
        // Not mapped, protected, or memory of a device, which the kernel does not populate and a program can reach.
        _ => !can_populate() || is_mapped(touch, first, last),
    };
    kernel::fail(before);
    if is_good {
        let mark = if touch == Touch::Write { WRITABLE } else { 0 };
        for page in (first..=last).step_by(PAGE).take(KEPT) {
            PAGES[page / PAGE % KEPT].store(page | mark, Ordering::Relaxed);
        }
    }
    is_good
}

/// Has the kernel map the pages as an access would. Returns the error, or 0.
fn populate(touch: Touch, first: usize, last: usize) -> c_int {
    let advice = match touch {
        Touch::Read => libc::MADV_POPULATE_READ,
        Touch::Write => libc::MADV_POPULATE_WRITE,
    };
    let first = first & !(page_bytes() - 1);
    // SAFETY: pages are mapped as an access would do, and not changed.
    let done = unsafe { libc::syscall(libc::SYS_madvise, first, last - first + 1, advice) };
    if done == 0 { 0 } else { kernel::errno() }
}

fn page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    // SAFETY: a plain number.
    *BYTES.get_or_init(|| unsafe { libc::sysconf(libc::_SC_PAGESIZE) as usize })
}

/// Returns true if the kernel populates pages, which it does with those of this library.
fn can_populate() -> bool {
    static CAN: OnceLock<bool> = OnceLock::new();
    let own = PAGES.as_ptr() as usize;
    *CAN.get_or_init(|| populate(Touch::Read, own, own) == 0)
}

/// Returns true if the list of mappings has all addresses, with that access.
fn is_mapped(touch: Touch, first: usize, last: usize) -> bool {
    let Ok(list) = std::fs::read_to_string("/proc/self/maps") else { return true };
    let mut next = first;
    for line in list.lines() {
        let mut words = line.split_ascii_whitespace();
        let (Some(range), Some(rights)) = (words.next(), words.next()) else { continue };
        let Some((begin, end)) = range.split_once('-') else { continue };
        let number = |text| usize::from_str_radix(text, 16).unwrap_or(0);
        let letter = if touch == Touch::Write { 'w' } else { 'r' };
        if (number(begin)..number(end)).contains(&next) && rights.contains(letter) {
            next = number(end);
        }
    }
    next > last
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Maps pages with these rights.
    fn map(pages: usize, rights: c_int) -> *const u8 {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
        // SAFETY: new memory.
        let made = unsafe { libc::mmap(std::ptr::null_mut(), pages * PAGE, rights, flags, -1, 0) };
        assert!(made != libc::MAP_FAILED);
        made.cast()
    }

    #[test]
    fn what_cannot_be_reached_is_found_before_it_is() {
        let own = [0_u8; 100];
        assert!(allows(Touch::Read, own.as_ptr(), 100) && allows(Touch::Write, own.as_ptr(), 100));
        for bad in [std::ptr::null(), 8 as *const u8, usize::MAX as *const u8] {
            assert!(!allows(Touch::Read, bad, 10) && !allows(Touch::Write, bad, 10), "{bad:?}");
            assert!(allows(Touch::Read, bad, 0));
        }
        let (none, constant) = (map(1, libc::PROT_NONE), map(1, libc::PROT_READ));
        assert!(!allows(Touch::Read, none, 1) && !allows(Touch::Write, none, 1));
        assert!(allows(Touch::Read, constant, PAGE) && !allows(Touch::Write, constant, 1));
    }

    #[test]
    fn what_was_unmapped_is_not_taken_for_what_it_was() {
        let two = map(2, libc::PROT_READ | libc::PROT_WRITE);
        assert!(allows(Touch::Write, two, 2 * PAGE));
        let second = two.wrapping_add(PAGE);
        // SAFETY: memory of the test.
        unsafe { libc::munmap(second.cast_mut().cast(), PAGE) };
        forget(second as usize, PAGE);
        assert!(allows(Touch::Write, two, PAGE) && !allows(Touch::Write, two, PAGE + 1));
    }
}
