//! The buffers that one thread keeps.

use super::classes::{CLASSES, class_of, size_of_class};
use super::{Arena, Buffer, MOST_SMALL};
use crate::SECTION;
use crate::client::Error;

/// Buffers of a class that a cache keeps at most, and their bytes.
const MOST: usize = 64;
const MOST_BYTES: u64 = 256 * 1024;

/// A few free buffers of each size, for one thread at a time. They go back to the arena when it is dropped.
pub struct Cache {
    arena: Arena,
    /// Offsets, by class.
    kept: [Vec<u64>; CLASSES],
}

impl Cache {
    pub(super) fn new(arena: Arena) -> Cache {
        Cache { arena, kept: [const { Vec::new() }; CLASSES] }
    }

    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// A buffer of at least so many bytes.
    ///
    /// # Errors
    /// As [`Arena::alloc`].
    #[inline]
    pub fn alloc(&mut self, bytes: u64) -> Result<Buffer, Error> {
        if bytes > MOST_SMALL {
            return self.arena.alloc(bytes);
        }
        let class = class_of(bytes);
        let offset = match self.kept[class].pop() {
            Some(offset) => {
                let section = self.arena.section_of(offset);
                section.list.mark_taken(section.number(class, offset));
                offset
            }
            None => self.refill(class)?,
        };
        Ok(self.arena.buffer_at(offset, size_of_class(class)))
    }

    /// Gives a buffer back: of the cache's arena, whoever took it.
    ///
    /// # Panics
    /// As [`Arena::free`].
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        let section = self.arena.section_of(buffer.offset());
        let Some(class) = section.list.class() else { return self.arena.free(buffer) };
        section.list.mark_cached(section.number(class, buffer.offset()));
        let kept = &mut self.kept[class];
        kept.push(buffer.offset());
        if kept.len() > keeps(class) {
            self.give_back(class, keeps(class) / 2);
        }
    }

    /// Takes one, and some more to keep.
    #[cold]
    fn refill(&mut self, class: usize) -> Result<u64, Error> {
        let Cache { arena, kept } = self;
        arena.take(class, (keeps(class) as u32 / 2).max(1), |offset| kept[class].push(offset))?;
        let first = kept[class].pop().expect("one was taken");
        for &offset in &kept[class] {
            let section = arena.section_of(offset);
            section.list.mark_cached(section.number(class, offset));
        }
        Ok(first)
    }

    /// Gives the oldest back, all but so many.
    #[cold]
    fn give_back(&mut self, class: usize, keep: usize) {
        let Cache { arena, kept } = self;
        let kept = &mut kept[class];
        let count = kept.len() - keep;
        let mut chain: Vec<u16> = Vec::with_capacity(count);
        let mut oldest = kept.drain(..count).peekable();
        while let Some(offset) = oldest.next() {
            let section = arena.section_of(offset);
            chain.push(section.number(class, offset));
            if oldest.peek().is_none_or(|next| next / SECTION != offset / SECTION) {
                arena.give(section, class, &chain);
                chain.clear();
            }
        }
    }
}

impl Drop for Cache {
    fn drop(&mut self) {
        for class in 0..CLASSES {
            if !self.kept[class].is_empty() {
                self.give_back(class, 0);
            }
        }
    }
}

/// How many buffers of a class a cache keeps: none of those larger than what it may keep altogether.
fn keeps(class: usize) -> usize {
    MOST.min((MOST_BYTES / size_of_class(class)) as usize)
}
