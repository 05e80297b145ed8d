//! Cache control on processors whose cache programs cannot control.

use super::NoFlush;

/// Instructions for cache control; the type has no values, because this processor has no such instructions.
#[derive(Debug, Clone, Copy)]
pub enum Instructions {}

impl Instructions {
    /// Returns an error, because this processor has no such instructions.
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

/// Does nothing on this architecture. Returns 0, the number of bytes that were copied around the cache.
///
/// # Safety
/// No conditions: the function does nothing.
pub unsafe fn copy_around_cache(_: *mut u8, _: &[u8]) -> usize {
    0
}
