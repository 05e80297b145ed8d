//! Reclaim, as far as both pagers do the same: whether a process takes pages from its program, and where they come
//! from.

use crate::control::{ControlHead, count};
use crate::residency::Residency;
use crate::scan::Scan;
use crate::sys::now_ns;
use crate::table::PageList;
use core::sync::atomic::Ordering::Relaxed;

/// Number of pages that a process keeps in any case: an instruction, or a system call, may need several at once.
const LEAST_KEPT: usize = 64;

/// A pager, as reclaim sees it.
pub(crate) trait Reclaim {
    /// Returns the books.
    fn books(&self) -> &Residency;

    /// Returns when it scanned.
    fn scans(&self) -> &Scan;

    /// Takes the oldest active pages from the program. Returns how many.
    fn deactivate(&mut self) -> usize;

    /// Looks for pages that are not tracked yet, unless it did just now. Returns whether there were any.
    fn scan(&mut self) -> bool;

    /// Sees to it that enough pages are inactive. Returns false if nothing can be taken now; if more are needed
    /// and none are found, the inactive ones go without second chances.
    fn find_victims(&mut self) -> bool {
        let now = now_ns();
        if self.books().rests(now) || !can_spare(self.books()) && !self.scan() {
            return false;
        }
        // Pages that are not tracked stay, however old they are, in place of those that are.
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

/// Returns whether there is memory for copies of so many pages, by `unrack`'s last look, and takes that. Otherwise pages that
/// processes share since a fork stay shared, and local: natively they would be there once, too.
pub(crate) fn takes_spare(control: &ControlHead, pages: usize) -> bool {
    let spare = control.settings.spare_pages.load(Relaxed);
    let left = spare.checked_sub(pages as u64);
    match left {
        _ if spare == u64::MAX => true,
        // Another process may take some at the same time: it is an estimate.
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
