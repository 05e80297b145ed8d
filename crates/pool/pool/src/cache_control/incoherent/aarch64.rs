//! Cache control on 64-bit ARM.

use super::NoFlush;
use std::arch::asm;

/// Instructions that clean and invalidate lines to the point of coherency. Linux allows programs to use them.
#[derive(Debug, Clone, Copy)]
pub struct Instructions;

impl Instructions {
    /// Checks that all data caches have lines of the expected size.
    pub fn detect() -> Result<Instructions, NoFlush> {
        let types: u64;
        // SAFETY: Linux allows programs to read CTR_EL0.
        unsafe { asm!("mrs {}, ctr_el0", out(reg) types, options(nomem, nostack, preserves_flags)) };
        // DminLine is the log2 of the number of words in the smallest line of any data cache.
        let smallest = 4usize << (types >> 16 & 0xf);
        if smallest == crate::cache_control::LINE { Ok(Instructions) } else { Err(NoFlush) }
    }

    /// Returns the names of the instructions, for reports.
    pub fn name(self) -> &'static str {
        "dc cvac and dc civac"
    }

    /// Writes a dirty line back and keeps its copy.
    ///
    /// # Safety
    /// The line is mapped.
    #[inline(always)]
    pub unsafe fn write_back(self, line: *const u8) {
        // SAFETY: the line is mapped, and the instruction changes only the cache.
        unsafe { asm!("dc cvac, {}", in(reg) line, options(nostack, preserves_flags)) };
    }

    /// Writes a dirty line back and drops its copy.
    ///
    /// # Safety
    /// The line is mapped.
    #[inline(always)]
    pub unsafe fn drop_line(self, line: *const u8) {
        // SAFETY: the line is mapped and is written back before it is dropped; the instruction changes only the cache.
        unsafe { asm!("dc civac, {}", in(reg) line, options(nostack, preserves_flags)) };
    }
}

/// Waits until the lines that were written back have reached memory.
#[inline(always)]
pub fn after_write_back() {
    // SAFETY: the instruction is a barrier.
    unsafe { asm!("dsb sy", options(nostack, preserves_flags)) };
}

/// Waits until the lines are dropped, so that later loads fetch them.
#[inline(always)]
pub fn after_drop() {
    after_write_back();
}

/// Does nothing on this architecture. Returns 0, the number of bytes that were copied around the cache.
///
/// # Safety
/// No conditions: the function does nothing.
#[inline(always)]
pub unsafe fn copy_around_cache(_: *mut u8, _: &[u8]) -> usize {
    0
}
