//! The free buffers of one section: a lock-free stack that any thread takes from and gives to.
//!
//! Its head is one word, changed by compare-and-swap only: the number of the buffer on top, how many are free,
//! their size class, and how often the word was changed. The link of each free buffer names the one below it. A
//! thread that has read the word and links takes nothing unless the word is still the same. If anything changed
//! in between, the links it read may be nonsense, and are discarded.
//!
//! The class is in the word so that a late thread does not take from a section that has since become another
//! class's. When all buffers are free the section can be closed, by the same compare-and-swap: then nothing can
//! be taken until it is opened for a class.
//!
//! All of this is in private memory of one process. No other process writes it, and it dies with the process.

use crate::sync::{AtomicU16, AtomicU64, Ordering, spin_loop};
use std::ptr::NonNull;

/// The class of a closed section.
const CLOSED: u64 = CLASS;
/// Most buffers of a section: those of one line each.
pub(super) const MOST: u32 = 1 << 15;

// The word, from the lowest bits: top 15, free 16, class 6, changes 27.
/// Mask of the buffer on top.
const TOP: u64 = (1 << 15) - 1;
const FREE_AT: u32 = 15;
const FREE: u64 = (1 << 16) - 1;
const CLASS_AT: u32 = 31;
const CLASS: u64 = (1 << 6) - 1;
const CHANGES_AT: u32 = 37;

/// Link of a buffer that is in use.
const TAKEN: u16 = u16::MAX;
/// Link of a buffer that a cache keeps.
const CACHED: u16 = u16::MAX - 1;

/// Head of the stack.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Word(u64);

impl Word {
    fn top(self) -> u16 {
        (self.0 & TOP) as u16
    }

    fn free(self) -> u32 {
        (self.0 >> FREE_AT & FREE) as u32
    }

    fn class(self) -> u64 {
        self.0 >> CLASS_AT & CLASS
    }

    /// Returns the word that follows: another top and number of free buffers, the same class, one change more.
    fn then(self, top: u16, free: u32) -> Word {
        self.then_class(top, free, self.class())
    }

    fn then_class(self, top: u16, free: u32, class: u64) -> Word {
        let changes = (self.0 >> CHANGES_AT).wrapping_add(1) << CHANGES_AT;
        Word(changes | class << CLASS_AT | (free as u64) << FREE_AT | top as u64)
    }
}

/// Free buffers of a section, by number.
pub(super) struct List {
    word: AtomicU64,
    /// Link of each buffer. For a free buffer: the number of the one below it; else [`TAKEN`] or [`CACHED`].
    links: Box<[AtomicU16]>,
}

/// Effect of giving buffers back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Given {
    /// True if no buffer was free before.
    pub first: bool,
    /// Number of buffers that are free now.
    pub free: u32,
}

impl List {
    /// Makes the list of a closed section of at most `most` buffers.
    pub(super) fn new(most: u32) -> List {
        assert!(most <= MOST);
        let links = (0..most).map(|_| AtomicU16::new(0)).collect();
        List { word: AtomicU64::new(CLOSED << CLASS_AT), links }
    }

    /// Opens a closed section for a class: all `count` buffers are free.
    pub(super) fn open(&self, class: usize, count: u32) {
        let word = self.load();
        assert!(word.class() == CLOSED && (class as u64) < CLOSED && count >= 1);
        for (buffer, link) in self.links[..count as usize].iter().enumerate() {
            link.store(buffer as u16 + 1, Ordering::Relaxed);
        }
        // Only the section's owner changes the word of a closed section. Releases the links to `take`.
        self.word.store(word.then_class(0, count, class as u64).0, Ordering::Release);
    }

    /// Closes the section if all its `count` buffers are free; returns whether it did.
    pub(super) fn close(&self, count: u32) -> bool {
        let word = self.load();
        word.class() != CLOSED && word.free() == count && self.change(word, word.then_class(0, 0, CLOSED))
    }

    /// Returns the number of free buffers.
    pub(super) fn free(&self) -> u32 {
        self.load().free()
    }

    /// Returns the class, or `None` if the section is closed.
    pub(super) fn class(&self) -> Option<usize> {
        let class = self.load().class();
        (class != CLOSED).then_some(class as usize)
    }

    /// Takes up to `most` buffers if the section is of this class, calls `taken` with each, and returns how many.
    #[inline]
    pub(super) fn take(&self, class: usize, most: u32, mut taken: impl FnMut(u16)) -> u32 {
        loop {
            let word = self.load();
            let count = most.min(word.free());
            if count == 0 || word.class() != class as u64 {
                return 0;
            }
            let Some(top) = self.below(word.top(), count) else {
                spin_loop();
                continue;
            };
            if self.change(word, word.then(top, word.free() - count)) {
                self.take_out(word.top(), count, &mut taken);
                return count;
            }
        }
    }

    /// Returns the buffer that is `count` below another; `None` if the links make no sense, since they changed.
    #[inline]
    fn below(&self, mut buffer: u16, count: u32) -> Option<u16> {
        for _ in 0..count {
            buffer = self.links.get(buffer as usize)?.load(Ordering::Relaxed);
        }
        // The lowest buffer's link is arbitrary: it is not followed when no buffer is free.
        Some(buffer & TOP as u16)
    }

    /// Marks the links of buffers that were just taken, which are ours now.
    #[inline]
    fn take_out(&self, mut buffer: u16, count: u32, taken: &mut impl FnMut(u16)) {
        for _ in 0..count {
            let link = &self.links[buffer as usize];
            let next = link.load(Ordering::Relaxed);
            link.store(TAKEN, Ordering::Relaxed);
            taken(buffer);
            buffer = next;
        }
    }

    /// Gives back buffers that were taken; at least one.
    ///
    /// # Panics
    /// If one of them was not taken, so was freed twice.
    #[inline]
    pub(super) fn give(&self, buffers: &[u16]) -> Given {
        for &buffer in buffers {
            assert!(self.is_taken(buffer), "a buffer was freed that is free");
        }
        for pair in buffers.windows(2) {
            self.links[pair[0] as usize].store(pair[1], Ordering::Relaxed);
        }
        let (first, last) = (buffers[0], &self.links[buffers[buffers.len() - 1] as usize]);
        let mut word = self.load();
        loop {
            last.store(word.top(), Ordering::Relaxed);
            let free = word.free() + buffers.len() as u32;
            match self.try_change(word, word.then(first, free)) {
                Ok(()) => return Given { first: word.free() == 0, free },
                Err(now) => word = now,
            }
        }
    }

    /// Returns whether a buffer is in use or kept by a cache.
    fn is_taken(&self, buffer: u16) -> bool {
        self.links[buffer as usize].load(Ordering::Relaxed) >= CACHED
    }

    /// Marks a buffer that was taken as kept by a cache.
    ///
    /// # Panics
    /// If it was not taken, so was freed twice.
    #[inline(always)]
    pub(super) fn keep(&self, buffer: u16) -> Kept {
        let link = &self.links[buffer as usize];
        assert!(link.load(Ordering::Relaxed) == TAKEN, "a buffer was freed that is free");
        link.store(CACHED, Ordering::Relaxed);
        Kept(NonNull::from(link))
    }

    fn load(&self) -> Word {
        // Pairs with the releases of `try_change` and `open`: links that were written before are visible.
        Word(self.word.load(Ordering::Acquire))
    }

    fn change(&self, from: Word, to: Word) -> bool {
        self.try_change(from, to).is_ok()
    }

    fn try_change(&self, from: Word, to: Word) -> Result<(), Word> {
        let changed = self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
        changed.map(drop).map_err(Word)
    }
}

/// Handle of a buffer that a cache keeps: the address of its link, so that giving it out again needs no lookup.
#[derive(Clone, Copy)]
pub(super) struct Kept(NonNull<AtomicU16>);

// SAFETY: it points to an atomic.
unsafe impl Send for Kept {}

impl Kept {
    /// Marks the buffer as in use again.
    ///
    /// # Safety
    /// The list still exists.
    #[inline(always)]
    pub(super) unsafe fn give_out(self) {
        // SAFETY: a link of the list, which the caller says still exists.
        unsafe { self.0.as_ref() }.store(TAKEN, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
