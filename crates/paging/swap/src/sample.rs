//! Contents of a running program's pages, because their compressibility determines the cost of swapping them.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use unrack_basis::{PAGE, SplitMix64};

/// Maximum number of pages in a sample.
const MOST: usize = 4096;
/// Number of pages that are tried in a process at once.
const AT_ONCE: usize = 32;
/// Bit of a present page in `/proc/PID/pagemap` (proc_pid_pagemap(5)).
const PRESENT: u64 = 1 << 63;

/// A uniform sample of the pages that were read (reservoir sampling).
#[derive(Debug)]
pub(crate) struct PageSample {
    pages: Vec<Vec<u8>>,
    seen: u64,
    numbers: SplitMix64,
}

impl PageSample {
    pub(crate) fn new() -> PageSample {
        PageSample { pages: Vec::new(), seen: 0, numbers: SplitMix64::new(1) }
    }

    /// Reads some pages of a process. If the process ends meanwhile, no page is read.
    pub(crate) fn look(&mut self, pid: u32) {
        let of = |name: &str| format!("/proc/{pid}/{name}");
        let (Ok(maps), Ok(pagemap), Ok(memory)) =
            (fs::read_to_string(of("maps")), File::open(of("pagemap")), File::open(of("mem")))
        else {
            return;
        };
        let ranges: Vec<(u64, u64)> = maps.lines().filter_map(anonymous).collect();
        let all: u64 = ranges.iter().map(|(_, pages)| pages).sum();
        for _ in 0..if all == 0 { 0 } else { AT_ONCE } {
            let page = nth(&ranges, self.numbers.next_u64() % all);
            let (mut entry, mut contents) = ([0; 8], vec![0; PAGE]);
            let is_present = pagemap.read_exact_at(&mut entry, page * 8).is_ok()
                && u64::from_ne_bytes(entry) & PRESENT != 0;
            if is_present && memory.read_exact_at(&mut contents, page * PAGE as u64).is_ok() {
                self.keep(contents);
            }
        }
    }

    /// Returns the contents of the sampled pages, one after another.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.pages.concat()
    }

    fn keep(&mut self, page: Vec<u8>) {
        self.seen += 1;
        if self.pages.len() < MOST {
            return self.pages.push(page);
        }
        let at = (self.numbers.next_u64() % self.seen) as usize;
        if let Some(kept) = self.pages.get_mut(at) {
            *kept = page;
        }
    }
}

/// Returns the first page and the number of pages if a line of `/proc/PID/maps` describes a private writable mapping without a file.
fn anonymous(line: &str) -> Option<(u64, u64)> {
    let mut fields = line.split_whitespace();
    let (range, rights, inode) = (fields.next()?, fields.next()?, fields.nth(2)?);
    let (start, end) = range.split_once('-')?;
    let page = |text| Some(u64::from_str_radix(text, 16).ok()? / PAGE as u64);
    let (start, end) = (page(start)?, page(end)?);
    (rights.starts_with("rw") && rights.ends_with('p') && inode == "0" && end > start)
        .then(|| (start, end - start))
}

/// Returns page number `n` of all pages in the ranges, which must contain more than `n` pages.
fn nth(ranges: &[(u64, u64)], mut n: u64) -> u64 {
    for (start, pages) in ranges {
        if n < *pages {
            return start + n;
        }
        n -= pages;
    }
    unreachable!("fewer pages than were counted")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_private_memory_without_a_file_is_anonymous() {
        let heap = "55d0c000-55d2d000 rw-p 00000000 00:00 0                          [heap]";
        assert_eq!(anonymous(heap), Some((0x55d0c, 0x21)));
        for other in [
            "7f00a000-7f00b000 r--p 00000000 00:00 0",
            "7f00a000-7f00b000 rw-s 00000000 00:01 0 /memfd:x",
            "7f00a000-7f00b000 rw-p 00001000 fe:00 4711 /usr/lib/libc.so.6",
            "7f00a000 rw-p",
            "",
        ] {
            assert_eq!(anonymous(other), None, "{other}");
        }
    }

    #[test]
    fn pages_are_counted_over_all_ranges() {
        let ranges = [(10, 2), (20, 1), (30, 5)];
        assert_eq!([0, 1, 2, 3, 7].map(|n| nth(&ranges, n)), [10, 11, 20, 30, 34]);
    }

    #[test]
    fn a_sample_is_of_this_process_and_uniform() {
        let mut sample = PageSample::new();
        let memory = vec![7u8; 64 << 20];
        (0..200).for_each(|_| sample.look(std::process::id()));
        let sevens = sample.pages.iter().filter(|page| page.iter().all(|byte| *byte == 7)).count();
        assert!(sevens * 10 > sample.pages.len() * 8, "{sevens} of {}", sample.pages.len());
        assert_eq!(memory[1], 7);
    }

    #[test]
    fn a_sample_never_grows_beyond_its_bound() {
        let mut sample = PageSample::new();
        (0..3 * MOST).for_each(|n| sample.keep(vec![n as u8; 1]));
        assert_eq!((sample.pages.len(), sample.seen), (MOST, 3 * MOST as u64));
    }
}
