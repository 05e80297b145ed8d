//! State of one section that an arena holds.

use super::classes::{count_of_class, size_of_class};
use super::list::{FreeList, MOST};
use crate::{LINE, SECTION};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// One section: it is closed, divided into buffers of one class, or the first section of a large buffer.
pub(super) struct ArenaSection {
    /// Offset in the pool at which the section begins.
    pub offset: u64,
    pub list: FreeList,
    /// 2^32 divided by the number of lines of a buffer, rounded up; with it, the number of a buffer is found without a
    /// division.
    inverse: AtomicU32,
    /// Number of sections of the large buffer that begins here; zero if no large buffer begins here.
    large: AtomicU64,
}

impl ArenaSection {
    /// Makes a closed section that begins at an offset of the pool.
    pub(super) fn new(offset: u64) -> ArenaSection {
        let list = FreeList::new(MOST);
        ArenaSection { offset, list, inverse: AtomicU32::new(0), large: AtomicU64::new(0) }
    }

    /// Divides a closed section into buffers of a class. The caller has locked the arena's books.
    pub(super) fn open(&self, class: usize) {
        let lines = size_of_class(class) / LINE as u64;
        // For buffers of a single line, 2^32 does not fit in the word. With 2^32 - 1, numbers are the same except for
        // rounding, which `number` corrects.
        self.inverse.store((1u64 << 32).div_ceil(lines).min(u32::MAX as u64) as u32, Ordering::Relaxed);
        self.list.open(class, count_of_class(class));
    }

    /// Closes the section if all its buffers are free, and returns whether it was closed. The caller has locked the
    /// arena's books.
    pub(super) fn close(&self) -> bool {
        self.list.class().is_some_and(|class| self.list.close(count_of_class(class)))
    }

    /// Sets the number of sections of the large buffer that begins here; zero for none.
    pub(super) fn set_large(&self, sections: u64) {
        self.large.store(sections, Ordering::Relaxed);
    }

    /// Returns the number of sections of the large buffer that begins here; zero if there is none.
    pub(super) fn large(&self) -> u64 {
        self.large.load(Ordering::Relaxed)
    }

    /// Returns the offset in the pool of a buffer of a class.
    #[inline(always)]
    pub(super) fn place(&self, class: usize, buffer: u16) -> u64 {
        self.offset + buffer as u64 * size_of_class(class)
    }

    /// Returns the number of the buffer that begins at an offset in this section.
    ///
    /// # Panics
    /// If no buffer begins at the offset.
    #[inline(always)]
    pub(super) fn number(&self, class: usize, offset: u64) -> u16 {
        let inside = offset % SECTION;
        let line = inside / LINE as u64;
        let inverse = self.inverse.load(Ordering::Relaxed) as u64;
        let number = (line * inverse + (inverse == u32::MAX as u64) as u64 * line) >> 32;
        assert!(number * size_of_class(class) == inside, "no buffer begins at {offset:#x}");
        number as u16
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::classes::CLASSES;

    #[test]
    fn numbers_are_found_without_a_division() {
        for class in 0..CLASSES {
            let section = ArenaSection::new(SECTION * 3);
            section.open(class);
            for buffer in 0..count_of_class(class) {
                assert_eq!(section.number(class, section.place(class, buffer as u16)), buffer as u16);
            }
        }
    }

    #[test]
    #[should_panic(expected = "no buffer begins")]
    fn the_middle_of_a_buffer_is_none() {
        let section = ArenaSection::new(SECTION);
        section.open(3);
        section.number(3, SECTION + 64);
    }
}
