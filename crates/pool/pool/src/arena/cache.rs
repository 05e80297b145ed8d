//! Cache of free buffers, for one thread.

use super::classes::{CLASSES, class_of, size_of_class};
use super::list::CachedBuffer;
use super::{Arena, Buffer, MOST_SMALL};
use crate::SECTION;
use crate::client::Error;

/// Maximum number of buffers of a class that a cache keeps.
const MOST: u64 = 64;
/// Maximum bytes in buffers of a class that a cache keeps.
const MOST_BYTES: u64 = 256 * 1024;

/// Cache of a few free buffers of each size, for one thread at a time. Dropping it returns the buffers to the arena.
pub struct Cache {
    arena: Arena,
    /// Kept buffers by class: the buffer's offset in the pool, and a handle of its link in the list of its section.
    kept: [Vec<(u64, CachedBuffer)>; CLASSES],
}

impl Cache {
    pub(super) fn new(arena: Arena) -> Cache {
        Cache { arena, kept: [const { Vec::new() }; CLASSES] }
    }

    /// Returns the arena that the buffers come from.
    pub fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Takes a buffer of at least `bytes` bytes.
    ///
    /// # Errors
    /// As [`Arena::alloc`].
    #[inline]
    pub fn alloc(&mut self, bytes: u64) -> Result<Buffer, Error> {
        self.arena.inner.client.maker().check()?;
        match self.take_kept(bytes) {
            Some(buffer) => Ok(buffer),
            None if bytes > MOST_SMALL => self.arena.alloc(bytes),
            None => self.refill(class_of(bytes)),
        }
    }

    /// Takes a buffer as [`alloc`](Cache::alloc) does, but only if the cache keeps one of that size.
    #[inline(always)]
    pub fn take_kept(&mut self, bytes: u64) -> Option<Buffer> {
        if bytes > MOST_SMALL {
            return None;
        }
        let class = class_of(bytes);
        let (offset, kept) = self.kept[class].pop()?;
        // SAFETY: the arena, which this cache keeps alive, has the lists of all its sections.
        unsafe { kept.give_out() };
        Some(self.arena.buffer_at(offset, size_of_class(class)))
    }

    /// Gives a buffer of the cache's arena back. Any thread may have taken it.
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

    /// Takes several buffers from the arena, returns one of them, and keeps the others.
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

    /// Returns the oldest kept buffers of a class to the arena, except `keep` of them.
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
        if !self.arena.is_here() {
            return;
        }
        for class in 0..CLASSES {
            if !self.kept[class].is_empty() {
                self.give_back(class, 0);
            }
        }
    }
}

/// Returns the number of buffers of a class that a cache keeps. It is zero for classes whose buffers are larger than
/// all bytes that a cache may keep.
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
