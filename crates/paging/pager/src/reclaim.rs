//! The part of reclaim that both pagers share: it decides whether a process evicts pages of its program, and where the pages to evict are
//! found.

use crate::control::{ControlHead, count};
use crate::residency::Residency;
use crate::scan::Scan;
use crate::sys::now_ns;
use crate::table::PageList;
use core::sync::atomic::Ordering::Relaxed;

/// Number of pages that a process keeps in any case, because an instruction or a system call may need several pages at once.
const LEAST_KEPT: usize = 64;

/// A pager, as seen by reclaim.
pub(crate) trait Reclaim {
    /// Returns the bookkeeping of the pages.
    fn books(&self) -> &Residency;

    /// Returns the record of when the pager scanned.
    fn scans(&self) -> &Scan;

    /// Moves the oldest active pages out of the program, onto the inactive list. Returns how many.
    fn deactivate(&mut self) -> usize;

    /// Searches for pages that are not tracked yet, unless the pager did so just now. Returns whether there were any.
    fn scan(&mut self) -> bool;

    /// Makes sure that enough pages are inactive. Returns false if no page can be evicted now. If more inactive pages are needed and none
    /// are found, the existing ones are evicted without second chances.
    fn find_victims(&mut self) -> bool {
        let now = now_ns();
        if self.books().rests(now) || !can_spare(self.books()) && !self.scan() {
            return false;
        }
        // Untracked pages can never be evicted. Without a scan, old untracked pages would stay in place of tracked ones.
        if self.books().lacks_scan() || self.books().has_unseen() && self.scans().is_spare(now) {
            self.scan();
        }
        !self.books().lacks_inactive()
            || self.deactivate() > 0
            || self.scan()
            || self.books().next_victim().is_some()
    }
}

/// Returns whether a process has more than the few pages that it needs to make progress at all.
fn can_spare(pages: &Residency) -> bool {
    pages.table.len(PageList::Active) + pages.table.len(PageList::Inactive) > LEAST_KEPT
}

/// Returns whether there is memory for copies of `pages` pages, as `unrack` last measured it, and reserves that memory. If there is not
/// enough, pages that processes share since a fork stay shared and local; in a native run, they would also exist only once.
pub(crate) fn takes_spare(control: &ControlHead, pages: usize) -> bool {
    let spare = control.settings.spare_pages.load(Relaxed);
    let left = spare.checked_sub(pages as u64);
    match left {
        _ if spare == u64::MAX => true,
        // Another process may reserve some at the same time. This does no harm, because the number is an estimate.
        Some(left) => {
            control.settings.spare_pages.store(left, Relaxed);
            true
        }
        None => {
            count(&control.counts.kept_shared, 1);
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_pages_are_copied_only_while_memory_is_left() {
        // SAFETY: all fields are atomics, for which zero is valid.
        let control: Box<ControlHead> = unsafe { Box::new(std::mem::zeroed()) };
        let spare = &control.settings.spare_pages;
        spare.store(u64::MAX, Relaxed);
        assert!(takes_spare(&control, 512));
        assert_eq!(spare.load(Relaxed), u64::MAX, "not known");
        spare.store(600, Relaxed);
        assert_eq!([takes_spare(&control, 512), takes_spare(&control, 512)], [true, false]);
        assert_eq!((spare.load(Relaxed), control.counts.kept_shared.load(Relaxed)), (88, 1));
    }
}
