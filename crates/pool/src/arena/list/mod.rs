//! The free buffers of one section: a stack that any thread takes from and gives to, without a lock.
//!
//! Its head is one word, changed by compare-and-swap only: which buffer is on top, how many are free, of which size
//! class they are, and how often the word was changed. Each free buffer has the one below it in its link. A thread
//! that has read the word and links takes nothing unless the word is still the same, and it is not if anything
//! happened in between: links that it read may then be nonsense, and are thrown away.
//!
//! The class is in the word so that a thread which is late does not take from a section that has become
//! another class's. When all buffers are free the section can be closed, by the same compare-and-swap: then nothing
//! can be taken until it is opened for a class.
//!
//! All of this is in private memory of one process. Nobody else writes it, and when the process dies it is of
//! no use to anybody.

use crate::sync::{AtomicU16, AtomicU64, Ordering, spin_loop};
use std::ptr::NonNull;

/// The class of a closed section.
const CLOSED: u64 = CLASS;
/// Buffers of a section at most: those of a line.
pub const MOST: u32 = 1 << 15;

// The word, from the lowest bits: top 15, free 16, class 6, changes 27.
const TOP: u64 = (1 << 15) - 1;
const FREE_AT: u32 = 15;
const FREE: u64 = (1 << 16) - 1;
const CLASS_AT: u32 = 31;
const CLASS: u64 = (1 << 6) - 1;
const CHANGES_AT: u32 = 37;

/// What a link says of a buffer that is not free.
const TAKEN: u16 = u16::MAX;
const CACHED: u16 = u16::MAX - 1;

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

    /// What follows: another top, and number of free buffers; the same class.
    fn then(self, top: u16, free: u32) -> Word {
        self.then_class(top, free, self.class())
    }

    fn then_class(self, top: u16, free: u32, class: u64) -> Word {
        let changes = (self.0 >> CHANGES_AT).wrapping_add(1) << CHANGES_AT;
        Word(changes | class << CLASS_AT | (free as u64) << FREE_AT | top as u64)
    }
}

/// A section's free buffers, by number.
pub struct List {
    word: AtomicU64,
    /// Of a free buffer: the one below. Else [`TAKEN`] or [`CACHED`].
    links: Box<[AtomicU16]>,
}

/// What changed by giving buffers back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Given {
    /// None was free before.
    pub first: bool,
    /// How many are free now.
    pub free: u32,
}

impl List {
    /// A closed section, of at most so many buffers.
    pub fn new(most: u32) -> List {
        assert!(most <= MOST);
        let links = (0..most).map(|_| AtomicU16::new(0)).collect();
        List { word: AtomicU64::new(CLOSED << CLASS_AT), links }
    }

    /// All `count` buffers of a closed section are free, and of a class.
    pub fn open(&self, class: usize, count: u32) {
        let word = self.load();
        assert!(word.class() == CLOSED && (class as u64) < CLOSED && count >= 1);
        for (buffer, link) in self.links[..count as usize].iter().enumerate() {
            link.store(buffer as u16 + 1, Ordering::Relaxed);
        }
        // Nobody changes the word of a closed section but its owner. Releases the links to `take`.
        self.word.store(word.then_class(0, count, class as u64).0, Ordering::Release);
    }

    /// Closes the section if all its `count` buffers are free.
    pub fn close(&self, count: u32) -> bool {
        let word = self.load();
        word.class() != CLOSED && word.free() == count && self.change(word, word.then_class(0, 0, CLOSED))
    }

    /// How many are free.
    pub fn free(&self) -> u32 {
        self.load().free()
    }

    /// The class, while the section is open.
    pub fn class(&self) -> Option<usize> {
        let class = self.load().class();
        (class != CLOSED).then_some(class as usize)
    }

    /// Takes up to `most` buffers, if the section is of this class; calls `taken` with each.
    #[inline]
    pub fn take(&self, class: usize, most: u32, mut taken: impl FnMut(u16)) -> u32 {
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

    /// The buffer that is `count` below another; `None` if the links make no sense, since they changed.
    #[inline]
    fn below(&self, mut buffer: u16, count: u32) -> Option<u16> {
        for _ in 0..count {
            buffer = self.links.get(buffer as usize)?.load(Ordering::Relaxed);
        }
        // The lowest buffer's link is whatever it is: nobody follows it when none is free.
        Some(buffer & TOP as u16)
    }

    /// The buffers are ours: their links are, too.
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

    /// Gives buffers back that were taken; at least one.
    ///
    /// # Panics
    /// If one of them was not taken: somebody freed it twice.
    #[inline]
    pub fn give(&self, buffers: &[u16]) -> Given {
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

    /// Whether somebody took a buffer, or a cache has it.
    fn is_taken(&self, buffer: u16) -> bool {
        self.links[buffer as usize].load(Ordering::Relaxed) >= CACHED
    }

    /// A cache keeps a buffer that was taken.
    ///
    /// # Panics
    /// If it was not: somebody freed it twice.
    #[inline(always)]
    pub fn keep(&self, buffer: u16) -> Kept {
        let link = &self.links[buffer as usize];
        assert!(link.load(Ordering::Relaxed) == TAKEN, "a buffer was freed that is free");
        link.store(CACHED, Ordering::Relaxed);
        Kept(NonNull::from(link))
    }

    fn load(&self) -> Word {
        // Pairs with the releases of `try_change` and `open`: links that were written before are seen.
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

/// A buffer that a cache keeps: where its link is, so that giving it out again looks up nothing.
#[derive(Clone, Copy)]
pub struct Kept(NonNull<AtomicU16>);

// SAFETY: it points to an atomic.
unsafe impl Send for Kept {}

impl Kept {
    /// The cache gives the buffer out again.
    ///
    /// # Safety
    /// The list is still there.
    #[inline(always)]
    pub unsafe fn give_out(self) {
        // SAFETY: a link of the list, the caller says.
        unsafe { self.0.as_ref() }.store(TAKEN, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
