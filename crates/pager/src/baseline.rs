//! Anonymous pages of a process that do not count as its local memory.
//!
//! Pages that existed before the program began (the loader's, the pager's own) never count, nor does what the pager
//! needs for itself later. The pages that a forked child inherits are shared with its parent and counted there, as
//! long as the parent lives.

use crate::heap;
use crate::sys::anonymous_pages;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

/// Pages of the first process before its program began, without the pager's.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
/// Pages of this process when its pager was started, without the pager's.
static AT_START: AtomicU64 = AtomicU64::new(0);

/// Measures the baseline. Call in the program's thread, before the pager's starts: the program continues to touch
/// memory while the pager starts. Of the pages there are, `blocks` are in blocks of threads.
pub(crate) fn measure(blocks: u64) {
    let pages = rustix::fs::open(c"/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .ok()
        .and_then(|statm| anonymous_pages(statm.as_fd()))
        .unwrap_or(0)
        .saturating_sub(heap::used_pages() + blocks);
    AT_START.store(pages, Relaxed);
    let _ = FIRST.compare_exchange(u64::MAX, pages, Relaxed, Relaxed);
}

/// Result of [`measure`], for the pager.
pub(crate) struct Baseline {
    first: u64,
    at_start: u64,
    parent: Option<Pid>,
}

impl Baseline {
    pub(crate) fn measured() -> Baseline {
        Baseline {
            first: FIRST.load(Relaxed),
            at_start: AT_START.load(Relaxed),
            parent: rustix::process::getppid(),
        }
    }

    /// Returns the number of pages now, with those of the pager, of which `blocks` are in blocks of threads.
    pub(crate) fn pages(&mut self, blocks: u64) -> u64 {
        if self.at_start > self.first && rustix::process::getppid() != self.parent {
            self.at_start = self.first;
        }
        self.at_start + heap::used_pages() + blocks
    }
}
