//! Cache control on processors whose cache a program cannot control.

use super::NoFlush;

/// Instructions for cache control, of which this processor has none.
#[derive(Debug, Clone, Copy)]
pub enum Instructions {}

impl Instructions {
    /// Returns an error: there are no such instructions.
    pub fn detect() -> Result<Instructions, NoFlush> {
        Err(NoFlush)
    }

    /// Returns the names of the instructions; cannot be called.
    pub fn name(self) -> &'static str {
        match self {}
    }

    /// Writes a line back; cannot be called.
    ///
    /// # Safety
    /// Cannot be called.
    pub unsafe fn write_back(self, _: *const u8) {
        match self {}
    }

    /// Drops a line; cannot be called.
    ///
    /// # Safety
    /// Cannot be called.
    pub unsafe fn drop_line(self, _: *const u8) {
        match self {}
    }
}

/// Does nothing.
pub fn after_write_back() {}

/// Does nothing.
pub fn after_drop() {}

/// Copies nothing around the cache; returns 0, the number of bytes that it copied.
///
/// # Safety
/// None: it does nothing.
pub unsafe fn copy_around_cache(_: *mut u8, _: &[u8]) -> usize {
    0
}
