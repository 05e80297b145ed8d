//! The free buffers of one section: a lock-free stack from which any thread takes buffers, and to which any thread
//! gives them.
//!
//! The head of the stack is one word, which is changed only by compare-and-swap. It has the number of the buffer on
//! top, the number of free buffers, their size class, and a count of the changes of the word. The link of each free
//! buffer names the buffer below it. A thread that has read the word and links takes buffers only if the word is still
//! the same. If the word has changed meanwhile, the links may have been invalid, so the thread discards them and starts
//! again.
//!
//! The word includes the class so that a slow thread does not take buffers from a section that now belongs to another
//! class. When all buffers are free, the section can be closed by the same compare-and-swap; then no buffer can be
//! taken until the section is opened for a class.
//!
//! All of this is in private memory of one process. No other process writes it, and it ends with the process.

use crate::sync::{AtomicU16, AtomicU64, Ordering, spin_loop};
use std::ptr::NonNull;

/// Class of a closed section.
const CLOSED: u64 = CLASS;
/// Maximum number of buffers of a section: those of the smallest class, which have one line each.
pub(super) const MOST: u32 = 1 << 15;

// Bits of the word, from the lowest: top 15, free 16, class 6, changes 27.
/// Mask of the number of the buffer on top.
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
struct StackHead(u64);

impl StackHead {
    fn top(self) -> u16 {
        (self.0 & TOP) as u16
    }

    fn free(self) -> u32 {
        (self.0 >> FREE_AT & FREE) as u32
    }

    fn class(self) -> u64 {
        self.0 >> CLASS_AT & CLASS
    }

    /// Returns the next word: it has another top and number of free buffers, the same class, and one more change.
    fn then(self, top: u16, free: u32) -> StackHead {
        self.then_class(top, free, self.class())
    }

    fn then_class(self, top: u16, free: u32, class: u64) -> StackHead {
        let changes = (self.0 >> CHANGES_AT).wrapping_add(1) << CHANGES_AT;
        StackHead(changes | class << CLASS_AT | (free as u64) << FREE_AT | top as u64)
    }
}

/// Free buffers of a section, by number.
pub(super) struct FreeList {
    word: AtomicU64,
    /// Link of each buffer. The link of a free buffer is the number of the buffer below it; any other link is [`TAKEN`]
    /// or [`CACHED`].
    links: Box<[AtomicU16]>,
}

/// Result of giving buffers back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct GiveBackEffect {
    /// True if no buffer was free before.
    pub first: bool,
    /// Number of buffers that are free now.
    pub free: u32,
}

impl FreeList {
    /// Makes the list of a closed section with room for `most` buffers.
    pub(super) fn new(most: u32) -> FreeList {
        assert!(most <= MOST);
        let links = (0..most).map(|_| AtomicU16::new(0)).collect();
        FreeList { word: AtomicU64::new(CLOSED << CLASS_AT), links }
    }

    /// Opens a closed section for a class. All `count` buffers are free then.
    pub(super) fn open(&self, class: usize, count: u32) {
        let word = self.load();
        assert!(word.class() == CLOSED && (class as u64) < CLOSED && count >= 1);
        for (buffer, link) in self.links[..count as usize].iter().enumerate() {
            link.store(buffer as u16 + 1, Ordering::Relaxed);
        }
        // Only the section's owner changes the word of a closed section, so no compare-and-swap is needed. The release
        // makes the links visible to `take`.
        self.word.store(word.then_class(0, count, class as u64).0, Ordering::Release);
    }

    /// Closes the section if all its `count` buffers are free. Returns whether it was closed.
    pub(super) fn close(&self, count: u32) -> bool {
        let word = self.load();
        word.class() != CLOSED && word.free() == count && self.change(word, word.then_class(0, 0, CLOSED))
    }

    /// Returns the number of free buffers.
    pub(super) fn free(&self) -> u32 {
        self.load().free()
    }

    /// Returns the section's class, or `None` if the section is closed.
    pub(super) fn class(&self) -> Option<usize> {
        let class = self.load().class();
        (class != CLOSED).then_some(class as usize)
    }

    /// Takes up to `most` buffers if the section is of this class. Calls `taken` with each buffer, and returns their
    /// number.
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

    /// Returns the buffer that is `count` places below another. Returns `None` if the links are invalid, because
    /// another thread changed them meanwhile.
    #[inline]
    fn below(&self, mut buffer: u16, count: u32) -> Option<u16> {
        for _ in 0..count {
            buffer = self.links.get(buffer as usize)?.load(Ordering::Relaxed);
        }
        // The link of the lowest buffer is arbitrary, but it is not used while no buffer is free.
        Some(buffer & TOP as u16)
    }

    /// Marks the links of buffers that this thread has just taken.
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

    /// Gives back buffers that were taken. There must be at least one.
    ///
    /// # Panics
    /// If one of the buffers is free already, because it was freed twice.
    #[inline]
    pub(super) fn give(&self, buffers: &[u16]) -> GiveBackEffect {
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
                Ok(()) => return GiveBackEffect { first: word.free() == 0, free },
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
    /// If the buffer is not in use, because it was freed twice.
    #[inline(always)]
    pub(super) fn keep(&self, buffer: u16) -> CachedBuffer {
        let link = &self.links[buffer as usize];
        assert!(link.load(Ordering::Relaxed) == TAKEN, "a buffer was freed that is free");
        link.store(CACHED, Ordering::Relaxed);
        CachedBuffer(NonNull::from(link))
    }

    fn load(&self) -> StackHead {
        // Pairs with the releases of `try_change` and `open`, so that links that were written before are visible.
        StackHead(self.word.load(Ordering::Acquire))
    }

    fn change(&self, from: StackHead, to: StackHead) -> bool {
        self.try_change(from, to).is_ok()
    }

    fn try_change(&self, from: StackHead, to: StackHead) -> Result<(), StackHead> {
        let changed = self.word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Acquire);
        changed.map(drop).map_err(StackHead)
    }
}

/// Handle of a buffer that a cache keeps. It is the address of the buffer's link, so that handing the buffer out again
/// needs no lookup.
#[derive(Clone, Copy)]
pub(super) struct CachedBuffer(NonNull<AtomicU16>);

// SAFETY: the handle points to an atomic.
unsafe impl Send for CachedBuffer {}

impl CachedBuffer {
    /// Marks the buffer as in use again.
    ///
    /// # Safety
    /// The list still exists.
    #[inline(always)]
    pub(super) unsafe fn give_out(self) {
        // SAFETY: the link is in the list, and the caller guarantees that the list still exists.
        unsafe { self.0.as_ref() }.store(TAKEN, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests;
