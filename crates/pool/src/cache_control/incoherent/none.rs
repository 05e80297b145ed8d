//! A processor on which a program cannot control its cache.

use super::NoFlush;

/// There are none.
#[derive(Debug, Clone, Copy)]
pub enum Instructions {}

impl Instructions {
    pub fn detect() -> Result<Instructions, NoFlush> {
        Err(NoFlush)
    }

    pub fn name(self) -> &'static str {
        match self {}
    }

    /// # Safety
    /// Cannot be called.
    pub unsafe fn write_back(self, _: *const u8) {
        match self {}
    }

    /// # Safety
    /// Cannot be called.
    pub unsafe fn drop_line(self, _: *const u8) {
        match self {}
    }
}

pub fn after_write_back() {}

pub fn after_drop() {}

/// # Safety
/// None: it does nothing.
pub unsafe fn copy_around_cache(_: *mut u8, _: &[u8]) -> usize {
    0
}
