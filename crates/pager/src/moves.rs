//! Pages out of the program and into it, and how many of them really went.
//!
//! `UFFDIO_MOVE` may move pages and not count them. When it finds a page's entry changed under its eyes (another
//! thread frees page tables, the kernel clears the bit that says that a page was used, a page migrates), it looks again,
//! moves the page, takes it for not moved, and stops at the same page, mostly with `EEXIST`. So does Linux 6.18, up to
//! "userfaultfd: reset err to be 0 when `move_pages_ptes` succeeded" (August 2026). A page that is believed to be where it
//! is not would be waited for without end, or be zero where it was not.
//!
//! The den is nobody's but ours, so its end of each move can be looked at: `pagemap` tells what is there.

use crate::sys::{self, PAGE, Uffd};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Bytes that were moved, and why not all.
pub type Moved = (usize, Result<(), Errno>);

/// Moves the program's pages at `address` into empty pages of the den.
pub fn take(uffd: &Uffd, pagemap: BorrowedFd, den: usize, address: usize, len: usize) -> Moved {
    let told = uffd.move_pages(den, address, len, false);
    recount(told, len, |done| sys::is_filled(pagemap, den + done) == Some(true))
}

/// Moves pages of the den into the program, and lets those go on who wait for them, if `wake`.
pub fn give(uffd: &Uffd, pagemap: BorrowedFd, address: usize, den: usize, len: usize, wake: bool) -> Moved {
    let told = uffd.move_pages(address, den, len, wake);
    let moved = recount(told, len, |done| sys::is_filled(pagemap, den + done) == Some(false));
    if wake {
        (told.0..moved.0).step_by(PAGE).for_each(|done| uffd.wake(address + done));
    }
    moved
}

fn recount((told, result): Moved, len: usize, is_moved: impl Fn(usize) -> bool) -> Moved {
    // Nothing was tried; or there was nothing to move, which is for the caller to wonder about.
    if result.is_ok() || told == 0 && matches!(result, Err(Errno::AGAIN | Errno::NOENT)) {
        return (told, result);
    }
    let moved = (told..len).step_by(PAGE).find(|done| !is_moved(*done)).unwrap_or(len);
    match moved {
        _ if moved == len => (moved, Ok(())),
        0 => (0, result),
        // What stopped it says nothing of the next page.
        _ => (moved, Err(Errno::AGAIN)),
    }
}
