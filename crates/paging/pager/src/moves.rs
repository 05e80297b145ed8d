//! Moves of pages out of the program and into it, and the number of pages that really moved.
//!
//! `UFFDIO_MOVE` may move pages without counting them. If the kernel finds that a page's entry has changed (because another thread frees
//! page tables, the kernel clears the accessed bit, or the page migrates), it tries again, moves the page, counts the page as not moved,
//! and stops there, mostly with `EEXIST`. Linux 6.18 does this, up to "userfaultfd: reset err to be 0 when `move_pages_ptes` succeeded"
//! (August 2026). The pager cannot trust such a count, because it would wait endlessly for a page whose recorded location is wrong, or read
//! the page as zeros.
//!
//! Only the pager uses the reserved region. Therefore the end of each move that lies in the reserved region can be checked: `pagemap` shows
//! whether the page is there.

use crate::pagemap::is_filled;
use crate::sys::{PAGE, Uffd};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Number of bytes that were moved, and the reason if fewer than requested were moved.
pub type Moved = (usize, Result<(), Errno>);

/// Moves the program's pages at `address` into empty pages of the reserved region.
pub fn take(uffd: &Uffd, pagemap: BorrowedFd, den: usize, address: usize, len: usize) -> Moved {
    let told = uffd.move_pages(den, address, len, false);
    recount(told, len, |done| is_filled(pagemap, den + done) == Some(true))
}

/// Moves pages of the reserved region into the program; if `wake`, wakes the threads that wait for them.
pub fn give(uffd: &Uffd, pagemap: BorrowedFd, address: usize, den: usize, len: usize, wake: bool) -> Moved {
    let told = uffd.move_pages(address, den, len, wake);
    let moved = recount(told, len, |done| is_filled(pagemap, den + done) == Some(false));
    if wake {
        (told.0..moved.0).step_by(PAGE).for_each(|done| uffd.wake(address + done));
    }
    moved
}

fn recount((told, result): Moved, len: usize, is_moved: impl Fn(usize) -> bool) -> Moved {
    // With `EAGAIN`, the kernel tried no move. With `ENOENT`, there was no page to move, which the caller has to handle.
    if result.is_ok() || told == 0 && matches!(result, Err(Errno::AGAIN | Errno::NOENT)) {
        return (told, result);
    }
    let moved = (told..len).step_by(PAGE).find(|done| !is_moved(*done)).unwrap_or(len);
    match moved {
        _ if moved == len => (moved, Ok(())),
        0 => (0, result),
        // The error concerns the page at which the kernel stopped, and not the next page.
        _ => (moved, Err(Errno::AGAIN)),
    }
}
