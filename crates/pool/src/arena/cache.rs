//! The buffers that one thread keeps.

use super::classes::{CLASSES, class_of, size_of_class};
use super::list::Kept;
use super::{Arena, Buffer, MOST_SMALL};
use crate::SECTION;
use crate::client::Error;

/// Buffers of a class that a cache keeps at most, and their bytes.
const MOST: u64 = 64;
const MOST_BYTES: u64 = 256 * 1024;

/// A few free buffers of each size, for one thread at a time. They go back to the arena when it is dropped.
pub struct Cache {
    arena: Arena,
    /// By class: offsets, and what the section's list knows of them.
    kept: [Vec<(u64, Kept)>; CLASSES],
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
        match self.take_kept(bytes) {
            Some(buffer) => Ok(buffer),
            None if bytes > MOST_SMALL => self.arena.alloc(bytes),
            None => self.refill(class_of(bytes)),
        }
    }

    /// As [`alloc`](Cache::alloc), if the cache has one.
    #[inline(always)]
    pub fn take_kept(&mut self, bytes: u64) -> Option<Buffer> {
        if bytes > MOST_SMALL {
            return None;
        }
        let class = class_of(bytes);
        let (offset, kept) = self.kept[class].pop()?;
        // SAFETY: the arena, which we have, keeps the lists of all its sections.
        unsafe { kept.give_out() };
        Some(self.arena.buffer_at(offset, size_of_class(class)))
    }

    /// Gives a buffer back: of the cache's arena, whoever took it.
    ///
    /// # Panics
    /// As [`Arena::free`].
    #[inline]
    pub fn free(&mut self, buffer: Buffer) {
        if buffer.capacity() > MOST_SMALL {
            return self.arena.free(buffer);
        }
        let class = class_of(buffer.capacity());
        let section = self.arena.section_of(buffer.offset());
        let kept = &mut self.kept[class];
        kept.push((buffer.offset(), section.list.keep(section.number(class, buffer.offset()))));
        if kept.len() > keeps(class) {
            self.give_back(class, keeps(class) / 2);
        }
    }

    /// Takes one, and some more to keep.
    #[cold]
    fn refill(&mut self, class: usize) -> Result<Buffer, Error> {
        let Cache { arena, kept } = self;
        let mut first = None;
        arena.take(class, (keeps(class) as u32 / 2).max(1), |offset| {
            if first.is_none() {
                first = Some(offset);
                return;
            }
            let section = arena.section_of(offset);
            kept[class].push((offset, section.list.keep(section.number(class, offset))));
        })?;
        Ok(arena.buffer_at(first.expect("one was taken"), size_of_class(class)))
    }

    /// Gives the oldest back, all but so many.
    #[cold]
    fn give_back(&mut self, class: usize, keep: usize) {
        let Cache { arena, kept } = self;
        let kept = &mut kept[class];
        let count = kept.len() - keep;
        let mut chain: Vec<u16> = Vec::with_capacity(count);
        let mut oldest = kept.drain(..count).peekable();
        while let Some((offset, _)) = oldest.next() {
            let section = arena.section_of(offset);
            chain.push(section.number(class, offset));
            if oldest.peek().is_none_or(|(next, _)| next / SECTION != offset / SECTION) {
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
#[inline(always)]
fn keeps(class: usize) -> usize {
    const KEEPS: [u8; CLASSES] = {
        let mut keeps = [0; CLASSES];
        let mut class = 0;
        while class < CLASSES {
            let fit = MOST_BYTES / size_of_class(class);
            keeps[class] = if fit < MOST { fit as u8 } else { MOST as u8 };
            class += 1;
        }
        keeps
    };
    KEEPS[class] as usize
}
