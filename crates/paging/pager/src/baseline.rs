//! Anonymous pages of a process that do not count as its local memory.
//!
//! Three kinds of pages never count: pages that existed before the program began (the loader's and the pager's); pages that the pager needs
//! for itself later, except those of the arena, which belong to the program; and pages that cannot be evicted ([`crate::kept`]). A page
//! that processes share since a fork counts once in total: if n processes share it, it counts one nth for each, as `unrack` found by
//! looking at all of them. Until `unrack` has looked, pages that a child inherits count for its parent as long as the parent lives.

use crate::control::{ControlHead, ProcessSlot};
use crate::memory::Memory;
use crate::pagemap::count;
use crate::sys::{self, now_ns, used_ns};
use crate::{heap, reserved_region};
use alloc::vec::Vec;
use core::ffi::CStr;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;

/// Number of pages of the first process before its program began, without the pager's pages.
static FIRST: AtomicU64 = AtomicU64::new(u64::MAX);
/// Number of pages of this process when its pager was started, without the pager's pages.
static AT_START: AtomicU64 = AtomicU64::new(0);

/// Inverse of the share of time that may be spent on counting pages. The share is one in a hundred, or one in ten while the run seems to be
/// far over its limit: pages that the program changed in its files since the last count look like an excess, and the pager would evict
/// other pages because of them. Only processor time counts as cost, because otherwise the counts would be a second apart on a busy machine.
const COUNTING_PARTS: [u64; 2] = [100, 10];

/// Measures the baseline. Must be called in the program's thread before the pager's thread starts, because the program continues to touch
/// memory while the pager starts.
pub(crate) fn measure() {
    let open = |path: &CStr| rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).ok();
    let anonymous = |statm: OwnedFd| sys::anonymous_pages(statm.as_fd());
    let pages = open(c"/proc/self/statm").and_then(anonymous).unwrap_or(0);
    let own = open(c"/proc/self/pagemap").map_or(0, |pagemap| own_pages(pagemap.as_fd()));
    let pages = pages.saturating_sub(own);
    AT_START.store(pages, Relaxed);
    let _ = FIRST.compare_exchange(u64::MAX, pages, Relaxed, Relaxed);
}

/// Makes all pages count, because the program began before its pager.
pub(crate) fn count_all() {
    AT_START.store(0, Relaxed);
    FIRST.store(0, Relaxed);
}

/// Result of [`measure`] or [`count_all`], for the pager, and the pager's count of its own pages.
pub(crate) struct Baseline {
    control: &'static ControlHead,
    slot: &'static ProcessSlot,
    first: u64,
    at_start: u64,
    parent: Option<Pid>,
    /// Number of the pager's pages that are present.
    own: u64,
    /// Number of pages that cannot be evicted, at the latest count.
    kept: u64,
    /// Number of pages that could not be evicted when the pager was started.
    kept_at_start: u64,
    /// Buffer for reuse.
    text: Vec<u8>,
    /// Number of pages of the pager's heap when `own` was counted.
    heap: u64,
    /// Time when the latest count ended (monotonic ns).
    counted_ns: u64,
    /// Processor time that the latest count took, in ns.
    cost_ns: u64,
}

impl Baseline {
    pub(crate) fn measured(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        memory: &Memory,
    ) -> Baseline {
        let mut text = Vec::new();
        let kept = memory.kept_pages(&mut text);
        // If all pages count, there are no pages from before the start.
        let kept_at_start = if AT_START.load(Relaxed) == 0 { 0 } else { kept };
        Baseline { kept, kept_at_start, text, ..Baseline::unmeasured(control, slot) }
    }

    /// Makes a baseline for a process whose pages are not counted.
    pub(crate) fn unmeasured(control: &'static ControlHead, slot: &'static ProcessSlot) -> Baseline {
        Baseline {
            kept: 0,
            kept_at_start: 0,
            text: Vec::new(),
            control,
            slot,
            first: FIRST.load(Relaxed),
            at_start: AT_START.load(Relaxed),
            parent: rustix::process::getppid(),
            own: 0,
            heap: 0,
            counted_ns: 0,
            cost_ns: 0,
        }
    }

    /// Returns the number of pages that do not count now, including the pager's own. Counts them anew from time to time, and more often
    /// while the run seems to be far over its limit.
    pub(crate) fn pages(&mut self, memory: &Memory, is_far_over: bool) -> u64 {
        if self.at_start > self.first && rustix::process::getppid() != self.parent {
            self.at_start = self.first;
        }
        if now_ns() >= self.counted_ns + COUNTING_PARTS[usize::from(is_far_over)] * self.cost_ns {
            let begin_ns = used_ns();
            (self.own, self.heap) = (own_pages(memory.pagemap()), heap::used_pages());
            self.kept = memory.kept_pages(&mut self.text);
            (self.counted_ns, self.cost_ns) = (now_ns(), used_ns() - begin_ns);
        }
        self.programs() + self.kept + self.own + heap::used_pages().saturating_sub(self.heap)
    }

    /// Returns the number of the program's pages that could be evicted but do not count for this process.
    fn programs(&self) -> u64 {
        let at_start = self.at_start.saturating_sub(self.kept_at_start);
        if self.slot.shared_generation.load(Relaxed) != self.control.generation() {
            return at_start;
        }
        let is_child = self.at_start > self.first;
        let never = if is_child { 0 } else { at_start };
        never + self.slot.shared_pages.load(Relaxed)
    }
}

/// Returns the number of the pager's own pages that are present.
fn own_pages(pagemap: BorrowedFd) -> u64 {
    reserved_region::own_parts().iter().map(|part| count(pagemap, part.start, part.end, false)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sys::PAGE;

    #[test]
    fn the_pagers_own_pages_are_counted_and_the_arenas_are_not() {
        reserved_region::reserve().unwrap();
        reserved_region::open_heap(0, PAGE).unwrap();
        reserved_region::open_arena(PAGE).unwrap();
        reserved_region::open_block(9, PAGE, 3 * PAGE).unwrap();
        let pagemap = rustix::fs::open(c"/proc/self/pagemap", OFlags::RDONLY, Mode::empty()).unwrap();
        // Another test may start a thread of the pager, which uses a stack.
        let stacks = || {
            let (first, last) = (reserved_region::stack_top(0), reserved_region::stack_top(1));
            count(pagemap.as_fd(), first - reserved_region::STACK_BYTES, last, false)
        };
        let own = || loop {
            let (before, own) = (stacks(), own_pages(pagemap.as_fd()));
            if before == stacks() {
                return own - before;
            }
        };
        let before = own();
        for page in [
            reserved_region::block(9) + PAGE,
            reserved_region::block(9) + 3 * PAGE,
            reserved_region::heap() + 9 * PAGE,
            reserved_region::arena(),
        ] {
            // SAFETY: mapped above, and used by no other test.
            unsafe { (page as *mut u8).write_volatile(1) };
        }
        assert_eq!(own() - before, 3);
    }
}
