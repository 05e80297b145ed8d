//! Presence of a process's pages: `/proc/PID/pagemap`.
//!
//! # References
//! `Documentation/admin-guide/mm/pagemap.rst`.

use crate::sys::{PAGE, exchange, read_write};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;

/// Run of pages that `PAGEMAP_SCAN` found.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct PageRegion {
    pub start: u64,
    pub end: u64,
    _categories: u64,
}

#[repr(C)]
struct PagemapScan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Finds the pages of `[start, end)` that are present and are not the shared zero page (Linux 6.7). Writes the runs of such pages to
/// `found` from its beginning; returns the number of runs and the address where the walk stopped.
///
/// # Errors
/// `ENOTTY` if the kernel is older than Linux 6.7; `EINVAL` or `EFAULT` if the range does not consist of whole pages of this process;
/// `EINTR` if a signal ends the process.
pub fn scan_present(
    pagemap: BorrowedFd,
    start: usize,
    end: usize,
    found: &mut [PageRegion],
) -> Result<(usize, usize), Errno> {
    scan(pagemap, start..end, PAGE_IS_PFNZERO, found)
}

/// Finds the present pages that are in none of the categories in `without`.
fn scan(
    pagemap: BorrowedFd,
    range: core::ops::Range<usize>,
    without: u64,
    found: &mut [PageRegion],
) -> Result<(usize, usize), Errno> {
    let mut scan = PagemapScan {
        size: size_of::<PagemapScan>() as u64,
        flags: 0,
        start: range.start as u64,
        end: range.end as u64,
        walk_end: 0,
        vec: found.as_mut_ptr() as u64,
        vec_len: found.len() as u64,
        max_pages: 0,
        category_inverted: without,
        category_mask: PAGE_IS_PRESENT | without,
        category_anyof_mask: 0,
        return_mask: PAGE_IS_PRESENT,
    };
    let runs = exchange::<{ read_write::<PagemapScan>(b'f', 16) }, _>(pagemap, &mut scan)?;
    Ok((runs as usize, scan.walk_end as usize))
}

/// Counts the present pages of `[start, end)`, including pages of files unless `anonymous` is set. A part of the range that cannot be
/// scanned counts as 0 pages.
pub(crate) fn count(pagemap: BorrowedFd, start: usize, end: usize, anonymous: bool) -> u64 {
    let without = if anonymous { PAGE_IS_PFNZERO | PAGE_IS_FILE } else { PAGE_IS_PFNZERO };
    let mut runs = [PageRegion::default(); 64];
    let (mut at, mut pages) = (start, 0);
    while at < end {
        let Ok((len, stopped)) = scan(pagemap, at..end, without, &mut runs) else { break };
        pages += runs[..len].iter().map(|run| (run.end - run.start) / PAGE as u64).sum::<u64>();
        at = stopped.max(at + PAGE);
    }
    pages
}

/// Returns whether the page has contents: in memory, migrating, or swapped out. Returns `None` if `pagemap` cannot be read.
pub fn is_filled(pagemap: BorrowedFd, page: usize) -> Option<bool> {
    const SOMEWHERE: u64 = 3 << 62;
    let mut entry = [0u8; 8];
    let read = rustix::io::pread(pagemap, &mut entry, (page / PAGE * 8) as u64);
    (read == Ok(entry.len())).then(|| u64::from_ne_bytes(entry) & SOMEWHERE != 0)
}
