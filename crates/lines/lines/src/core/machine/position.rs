//! Position of the core model in a recorded window.

use crate::window::{LineAccess, RecordedWindow};

/// Position in a recorded window: indices of the next elements that the core model has to process.
pub(super) struct WindowPosition<'a> {
    pub(super) window: &'a RecordedWindow,
    /// Index of the next memory access (`access`), and index after the last access of the current step (`end`).
    pub(super) access: usize,
    pub(super) end: usize,
    /// Number of accesses whose prefetches and write-backs have been processed.
    pub(super) handled: usize,
    /// Indices of the next code fetch, the next prefetch and the next write-back.
    pub(super) fetch: usize,
    pub(super) prefetch: usize,
    pub(super) write_back: usize,
}

impl<'a> WindowPosition<'a> {
    /// Creates the position at the beginning of a window.
    pub(super) fn new(window: &'a RecordedWindow) -> WindowPosition<'a> {
        WindowPosition { window, access: 0, end: 0, handled: 0, fetch: 0, prefetch: 0, write_back: 0 }
    }

    /// Moves to the beginning of the step with index `number`.
    #[inline(always)]
    pub(super) fn enter(&mut self, number: usize) {
        let next = self.window.steps.get(number + 1);
        self.access = self.window.steps[number].first_access as usize;
        self.end = next.map_or(self.window.accesses.len(), |next| next.first_access as usize);
    }

    /// Returns the memory accesses of the next instruction and advances past them. `index` is the index of this
    /// instruction in its code block.
    #[inline(always)]
    pub(super) fn accesses(&mut self, index: u16) -> &'a [LineAccess] {
        let rest = &self.window.accesses[self.access..self.end];
        let count = rest.iter().take_while(|access| access.instruction == index).count();
        self.access += count;
        &rest[..count]
    }
}
