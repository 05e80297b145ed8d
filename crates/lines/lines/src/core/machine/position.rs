//! Position in a window.

use crate::window::{LineAccess, RecordedWindow};

/// Position in a window: the next elements to process.
pub(super) struct WindowPosition<'a> {
    pub(super) window: &'a RecordedWindow,
    /// Index of the next access, and of the end of the current step's accesses.
    pub(super) access: usize,
    pub(super) end: usize,
    /// Number of accesses whose prefetches and write-backs have been processed.
    pub(super) handled: usize,
    /// Indices of the next code fetch, prefetch and write-back.
    pub(super) fetch: usize,
    pub(super) prefetch: usize,
    pub(super) write_back: usize,
}

impl<'a> WindowPosition<'a> {
    /// Creates the position at the beginning of a window.
    pub(super) fn new(window: &'a RecordedWindow) -> WindowPosition<'a> {
        WindowPosition { window, access: 0, end: 0, handled: 0, fetch: 0, prefetch: 0, write_back: 0 }
    }

    /// Moves to a step.
    #[inline(always)]
    pub(super) fn enter(&mut self, number: usize) {
        let next = self.window.steps.get(number + 1);
        self.access = self.window.steps[number].first_access as usize;
        self.end = next.map_or(self.window.accesses.len(), |next| next.first_access as usize);
    }

    /// Consumes and returns the accesses of the next instruction, whose index in its block is `index`.
    #[inline(always)]
    pub(super) fn accesses(&mut self, index: u16) -> &'a [LineAccess] {
        let rest = &self.window.accesses[self.access..self.end];
        let count = rest.iter().take_while(|access| access.instruction == index).count();
        self.access += count;
        &rest[..count]
    }
}
