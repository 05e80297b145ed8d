//! Anonymous pages of a process that do not count as its local memory.
//!
//! Pages that existed before the program began (the loader's, the pager's own) never count. A page that processes
//! share since a fork counts once: one nth for each of n, as `unrack` found by looking at all of them. Until it
//! has, pages that a child inherits count for its parent, as long as that lives.

use crate::control::{ControlHead, ProcessSlot};
use crate::sys::anonymous_pages;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

/// Pages of the first process before its program began.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
/// Pages of this process when its pager was started.
static AT_START: AtomicU64 = AtomicU64::new(0);

/// Measures the baseline. Call in the program's thread, before the pager's starts: the program continues to touch
/// memory while the pager starts.
pub(super) fn measure() {
    let pages = rustix::fs::open(c"/proc/self/statm", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())
        .ok()
        .and_then(|statm| anonymous_pages(statm.as_fd()))
        .unwrap_or(0);
    AT_START.store(pages, Relaxed);
    let _ = FIRST.compare_exchange(u64::MAX, pages, Relaxed, Relaxed);
}

/// Counts all pages: the program began before its pager.
pub(super) fn count_all() {
    AT_START.store(0, Relaxed);
    FIRST.store(0, Relaxed);
}

/// Result of [`measure`] or [`count_all`], for the pager.
pub(super) struct Baseline {
    first: u64,
    at_start: u64,
    parent: Option<Pid>,
}

impl Baseline {
    pub(super) fn measured() -> Baseline {
        Baseline {
            first: FIRST.load(Relaxed),
            at_start: AT_START.load(Relaxed),
            parent: rustix::process::getppid(),
        }
    }

    /// Returns the number of pages now, for the process of `slot`.
    pub(super) fn pages(&mut self, control: &ControlHead, slot: &ProcessSlot) -> u64 {
        if self.at_start > self.first && rustix::process::getppid() != self.parent {
            self.at_start = self.first;
        }
        if slot.shared_generation.load(Relaxed) != control.generation() {
            return self.at_start;
        }
        let is_child = self.at_start > self.first;
        let never = if is_child { 0 } else { self.first };
        never + slot.shared_pages.load(Relaxed)
    }
}
