//! All sections that an arena ever held, by number in the pool.

use super::classes::{count_of_class, size_of_class};
use super::section::Section;
use crate::SECTION;
use crate::client::Counter;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A section that was held once stays known: late threads look at it, and find it closed.
pub struct Table(Box<[AtomicPtr<Section>]>);

impl Table {
    pub fn new(sections: u64) -> Table {
        Table((0..sections).map(|_| AtomicPtr::default()).collect())
    }

    /// The section in which an offset is, if it was ever held.
    #[inline(always)]
    pub fn get(&self, offset: u64) -> Option<&Section> {
        let slot = self.0.get((offset / SECTION) as usize)?;
        // SAFETY: made below, and dropped with the table.
        unsafe { slot.load(Ordering::Acquire).as_ref() }
    }

    /// The section that begins at an offset of the pool, known from now on. Only by whoever has the arena's books.
    pub fn make(&self, offset: u64) -> *mut Section {
        let slot = &self.0[(offset / SECTION) as usize];
        let known = slot.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        let made = Box::into_raw(Box::new(Section::new(offset)));
        slot.store(made, Ordering::Release);
        made
    }
}

impl Counter for Table {
    fn used_bytes(&self) -> u64 {
        let known = self.0.iter().enumerate().filter_map(|(at, _)| self.get(at as u64 * SECTION));
        let used = known.map(|section| match section.list.class() {
            // Between the two, a thread may have closed it.
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
                // SAFETY: made by `Box::into_raw`, and nobody has the table any more.
                drop(unsafe { Box::from_raw(section) });
            }
        }
    }
}
