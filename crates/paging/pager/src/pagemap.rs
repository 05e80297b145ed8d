//! Presence of a process's pages: `/proc/PID/pagemap`.
//!
//! Scans use `PAGEMAP_SCAN` (Linux 6.7), whose cost grows with the number of pages that are present. On older kernels they read the file
//! instead, at 8 bytes for each page of the range, present or not.
//!
//! # References
//! `Documentation/admin-guide/mm/pagemap.rst`.

use crate::sys::{self, PAGE, exchange, read_write};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
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

/// True if scans read the file, because the kernel has no `PAGEMAP_SCAN`, or [`only_read`] was called.
static ONLY_READS: AtomicBool = AtomicBool::new(false);

/// Makes all scans of this process read the file, as on a kernel without `PAGEMAP_SCAN`.
pub fn only_read() {
    ONLY_READS.store(true, Relaxed);
}

/// Returns whether scans take time for each page of their range, as far as this is known yet.
pub(crate) fn is_slow() -> bool {
    ONLY_READS.load(Relaxed)
}

const PAGE_IS_FILE: u64 = 1 << 2;
const PAGE_IS_PRESENT: u64 = 1 << 3;
const PAGE_IS_PFNZERO: u64 = 1 << 5;

/// Finds the pages of `[start, end)` in this process that are present and are not the shared zero page. Writes the runs of such pages to
/// `found` from its beginning; returns the number of runs and the address where the walk stopped.
///
/// # Errors
/// `EINVAL` or `EFAULT` if the range does not consist of whole pages of this process; `EINTR` if a signal ends the process.
pub fn scan_present(
    pagemap: BorrowedFd,
    start: usize,
    end: usize,
    found: &mut [PageRegion],
) -> Result<(usize, usize), Errno> {
    scan(pagemap, start..end, PAGE_IS_PFNZERO, found, find_zero_pages)
}

/// Finds the present pages that are in none of the categories in `without`. If the file has to be read, `find_zeros` finds the zero pages.
fn scan(
    pagemap: BorrowedFd,
    range: core::ops::Range<usize>,
    without: u64,
    found: &mut [PageRegion],
    find_zeros: FindZeros,
) -> Result<(usize, usize), Errno> {
    let scanned = match ONLY_READS.load(Relaxed) {
        true => Err(Errno::NOTTY),
        false => scan_in_kernel(pagemap, range.clone(), without, found),
    };
    match scanned {
        Err(Errno::NOTTY) => {
            only_read();
            scan_by_reading(pagemap, range, without, found, find_zeros)
        }
        other => other,
    }
}

fn scan_in_kernel(
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

fn scan_by_reading(
    pagemap: BorrowedFd,
    range: core::ops::Range<usize>,
    without: u64,
    found: &mut [PageRegion],
    find_zeros: FindZeros,
) -> Result<(usize, usize), Errno> {
    let (mut runs, mut at) = (0, range.start);
    while at < range.end {
        let entries = PageEntries::read(pagemap, at, (range.end - at) / PAGE);
        if entries.len == 0 {
            return Err(Errno::FAULT);
        }
        let zeros = find_zeros(at, &entries);
        for (n, entry) in entries.iter().enumerate() {
            let page = at + n * PAGE;
            let is_left_out = without & PAGE_IS_FILE != 0 && entry.is_of_file() || zeros.has(n);
            if !entry.is_present() || is_left_out {
                continue;
            }
            if runs > 0 && found[runs - 1].end == page as u64 {
                found[runs - 1].end += PAGE as u64;
            } else if runs < found.len() {
                let (start, end) = (page as u64, (page + PAGE) as u64);
                found[runs] = PageRegion { start, end, ..PageRegion::default() };
                runs += 1;
            } else {
                return Ok((runs, page));
            }
        }
        at += entries.len * PAGE;
    }
    Ok((runs, range.end))
}

/// Pages of [`PageEntries`], one bit for each.
struct EntrySet([u64; MOST_ENTRIES / 64]);

impl EntrySet {
    fn has(&self, n: usize) -> bool {
        self.0[n / 64] & 1 << (n % 64) != 0
    }

    fn add(&mut self, n: usize) {
        self.0[n / 64] |= 1 << (n % 64);
    }
}

/// Function that finds those of the pages from this address on that are the shared zero page.
type FindZeros = fn(usize, &PageEntries) -> EntrySet;

/// Finds the zero pages among pages of this process. The file does not distinguish the zero page from a page that processes share since a
/// fork; `move_pages(2)` does, on a kernel that supports several memory nodes (`CONFIG_NUMA`). On other kernels no page is found.
fn find_zero_pages(from: usize, entries: &PageEntries) -> EntrySet {
    let (mut addresses, mut nodes) = ([0usize; MOST_ENTRIES], [0i32; MOST_ENTRIES]);
    let mut asked = 0;
    for (n, _) in entries.iter().enumerate().filter(|(_, entry)| entry.may_be_zero()) {
        addresses[asked] = from + n * PAGE;
        asked += 1;
    }
    let mut zeros = EntrySet([0; MOST_ENTRIES / 64]);
    if asked == 0 {
        return zeros;
    }
    let arguments = [0, asked, addresses.as_ptr().addr(), 0, nodes.as_mut_ptr().addr(), 0];
    // SAFETY: without new nodes, the call only writes the node of each page to `nodes`.
    let answered = unsafe { sys::call(libc::SYS_move_pages, arguments) } == 0;
    for (address, _) in addresses[..asked].iter().zip(nodes).filter(|(_, node)| *node == -libc::EFAULT) {
        if answered {
            zeros.add((address - from) / PAGE);
        }
    }
    zeros
}

fn find_none(_: usize, _: &PageEntries) -> EntrySet {
    EntrySet([0; MOST_ENTRIES / 64])
}

/// Maximum number of entries that are read at once.
const MOST_ENTRIES: usize = 512;

/// Entry of the file: properties of one page.
#[derive(Clone, Copy)]
pub(crate) struct PageEntry(u64);

/// Entries of successive pages.
pub(crate) struct PageEntries {
    bytes: [u8; MOST_ENTRIES * 8],
    pub(crate) len: usize,
}

impl PageEntries {
    /// Reads the entries of up to `pages` pages, and of at most 512, from `page` on. Entries that cannot be read are left out.
    pub(crate) fn read(pagemap: BorrowedFd, page: usize, pages: usize) -> PageEntries {
        let mut entries = PageEntries { bytes: [0; MOST_ENTRIES * 8], len: 0 };
        let wanted = &mut entries.bytes[..pages.min(MOST_ENTRIES) * 8];
        entries.len = rustix::io::pread(pagemap, wanted, (page / PAGE * 8) as u64).unwrap_or(0) / 8;
        entries
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = PageEntry> + '_ {
        let words = self.bytes[..self.len * 8].chunks_exact(8);
        words.map(|word| PageEntry(u64::from_ne_bytes(word.try_into().expect("8 bytes"))))
    }
}

impl PageEntry {
    /// Returns whether the page has contents: in memory, migrating, or swapped out.
    pub(crate) fn is_filled(self) -> bool {
        self.0 & 3 << 62 != 0
    }

    fn is_present(self) -> bool {
        self.0 & 1 << 63 != 0
    }

    fn is_of_file(self) -> bool {
        self.0 & 1 << 61 != 0
    }

    /// Returns whether the page is in memory, and also mapped elsewhere; the zero page always is.
    fn is_shared(self) -> bool {
        self.is_present() && self.0 & 1 << 56 == 0
    }

    fn may_be_zero(self) -> bool {
        self.is_shared() && !self.is_of_file()
    }
}

/// Returns how many of the first `pages` pages from `address` on, in this process, can be taken away from it by copies, and the reason why
/// the next page cannot: `ENOENT` if it has no contents, or is the zero page; `EBUSY` if a fork left it shared.
pub(crate) fn takeable(pagemap: BorrowedFd, address: usize, pages: usize) -> (usize, Result<(), Errno>) {
    let entries = PageEntries::read(pagemap, address, pages);
    let is_takeable = |entry: PageEntry| entry.is_filled() && !entry.is_shared();
    let Some(n) = entries.iter().position(|entry| !is_takeable(entry)) else {
        return (entries.len, if entries.len == pages { Ok(()) } else { Err(Errno::NOENT) });
    };
    let is_filled = entries.iter().nth(n).is_some_and(PageEntry::is_filled);
    match is_filled && !find_zero_pages(address, &entries).has(n) {
        true => (n, Err(Errno::BUSY)),
        false => (n, Err(Errno::NOENT)),
    }
}

/// Counts the present pages of `[start, end)`, including pages of files unless `anonymous` is set. A part of the range that cannot be
/// scanned counts as 0 pages. Where the file has to be read, zero pages count as well.
pub(crate) fn count(pagemap: BorrowedFd, start: usize, end: usize, anonymous: bool) -> u64 {
    let without = if anonymous { PAGE_IS_PFNZERO | PAGE_IS_FILE } else { PAGE_IS_PFNZERO };
    let mut runs = [PageRegion::default(); 64];
    let (mut at, mut pages) = (start, 0);
    while at < end {
        let Ok((len, stopped)) = scan(pagemap, at..end, without, &mut runs, find_none) else { break };
        pages += runs[..len].iter().map(|run| (run.end - run.start) / PAGE as u64).sum::<u64>();
        at = stopped.max(at + PAGE);
    }
    pages
}

/// Returns whether the page has contents: in memory, migrating, or swapped out. Returns `None` if `pagemap` cannot be read.
pub fn is_filled(pagemap: BorrowedFd, page: usize) -> Option<bool> {
    let mut entry = [0u8; 8];
    let read = rustix::io::pread(pagemap, &mut entry, (page / PAGE * 8) as u64);
    (read == Ok(entry.len())).then(|| PageEntry(u64::from_ne_bytes(entry)).is_filled())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsFd;
    use rustix::fs::{Mode, OFlags};
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, mprotect};

    const PAGES: usize = 1500;

    /// Maps pages, of which every third is written, every third is read, and the others stay untouched. Where `n % 7 == 0` none is touched.
    fn mapping() -> usize {
        let rights = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: a new mapping, which only this test uses.
        let at = unsafe {
            mmap_anonymous(core::ptr::null_mut(), PAGES * PAGE, rights, MapFlags::PRIVATE).unwrap() as usize
        };
        // SAFETY: the advice changes no contents.
        unsafe {
            // Another test forks, which would leave the pages shared.
            for advice in [rustix::mm::Advice::LinuxNoHugepage, rustix::mm::Advice::LinuxDontFork] {
                rustix::mm::madvise(at as *mut core::ffi::c_void, PAGES * PAGE, advice).unwrap();
            }
        }
        for n in (0..PAGES).filter(|n| n % 7 != 0) {
            let page = (at + n * PAGE) as *mut u8;
            match n % 3 {
                // SAFETY: in the mapping.
                0 => unsafe { page.write_volatile(1) },
                // SAFETY: in the mapping.
                1 => unsafe { _ = page.read_volatile() },
                _ => {}
            }
        }
        at
    }

    fn pages_of(runs: &[PageRegion], at: usize) -> Vec<usize> {
        let pages = runs.iter().flat_map(|run| (run.start as usize..run.end as usize).step_by(PAGE));
        pages.map(|page| (page - at) / PAGE).collect()
    }

    /// Where both ways exist, they find the same pages, also if the results do not fit at once.
    #[test]
    fn reading_finds_what_a_scan_finds() {
        let (at, pagemap) =
            (mapping(), rustix::fs::open(c"/proc/self/pagemap", OFlags::RDONLY, Mode::empty()).unwrap());
        let written: Vec<usize> = (0..PAGES).filter(|n| n % 7 != 0 && n % 3 == 0).collect();
        for room in [1, 7, PAGES] {
            let mut found = vec![PageRegion::default(); room];
            let (mut from, mut all) = (at, Vec::new());
            while from < at + PAGES * PAGE {
                let range = from..at + PAGES * PAGE;
                let (len, stopped) =
                    scan_by_reading(pagemap.as_fd(), range, PAGE_IS_PFNZERO, &mut found, find_zero_pages)
                        .unwrap();
                all.extend(pages_of(&found[..len], at));
                from = stopped;
            }
            assert_eq!(all, written, "room for {room} runs");
            if let Ok((len, _)) =
                scan_in_kernel(pagemap.as_fd(), at..at + PAGES * PAGE, PAGE_IS_PFNZERO, &mut found)
            {
                assert!(all.starts_with(&pages_of(&found[..len], at)));
            }
        }
        // SAFETY: the mapping of this test.
        unsafe {
            mprotect(at as *mut core::ffi::c_void, PAGES * PAGE, rustix::mm::MprotectFlags::READ).unwrap()
        };
        let (taken, why) = takeable(pagemap.as_fd(), at + 3 * PAGE, 2);
        assert_eq!((taken, why), (1, Err(Errno::NOENT)), "page 4 is the zero page");
        assert_eq!(
            takeable(pagemap.as_fd(), at + 2 * PAGE, 2),
            (0, Err(Errno::NOENT)),
            "page 2 is untouched"
        );
        assert_eq!(takeable(pagemap.as_fd(), at + 3 * PAGE, 1), (1, Ok(())));
    }
}
