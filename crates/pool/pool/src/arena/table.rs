//! All sections that an arena has ever held, by their section number in the pool.

use super::classes::{count_of_class, size_of_class};
use super::section::ArenaSection;
use crate::SECTION;
use crate::client::Counter;
use std::sync::atomic::{AtomicPtr, Ordering};

/// Table of sections. A section stays in the table after the arena has returned it, because a slow thread may still
/// access it; that thread finds the section closed.
pub(super) struct Table(Box<[AtomicPtr<ArenaSection>]>);

impl Table {
    /// Makes an empty table for a pool of this many sections.
    pub(super) fn new(sections: u64) -> Table {
        Table((0..sections).map(|_| AtomicPtr::default()).collect())
    }

    /// Returns the section that contains an offset, if the arena has ever held it.
    #[inline(always)]
    pub(super) fn get(&self, offset: u64) -> Option<&ArenaSection> {
        let slot = self.0.get((offset / SECTION) as usize)?;
        // SAFETY: `make` made the section, and it is dropped with the table.
        unsafe { slot.load(Ordering::Acquire).as_ref() }
    }

    /// Returns the section that begins at an offset of the pool, and makes it if the arena has never held it. The
    /// caller has locked the arena's books.
    pub(super) fn make(&self, offset: u64) -> *mut ArenaSection {
        let slot = &self.0[(offset / SECTION) as usize];
        let known = slot.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let made = Box::into_raw(Box::new(ArenaSection::new(offset)));
        slot.store(made, Ordering::Release);
        made
    }
}

impl Counter for Table {
    fn used_bytes(&self) -> u64 {
        let known = self.0.iter().enumerate().filter_map(|(at, _)| self.get(at as u64 * SECTION));
        let used = known.map(|section| match section.list.class() {
            // The section may have been closed after `class` was read.
            Some(class) => {
                count_of_class(class).saturating_sub(section.list.free()) as u64 * size_of_class(class)
            }
            None => section.large() * SECTION,
        });
        used.sum()
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        for slot in &self.0 {
            let section = slot.load(Ordering::Relaxed);
            if !section.is_null() {
                // SAFETY: `Box::into_raw` made the pointer, and no thread has the table any more.
                drop(unsafe { Box::from_raw(section) });
            }
        }
    }
}
