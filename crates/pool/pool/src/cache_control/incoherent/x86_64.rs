//! Cache control on x86-64.

use super::NoFlush;
use crate::cache_control::LINE;
use std::arch::asm;
use std::arch::x86_64::{__cpuid, __cpuid_count, _mm_clflush, _mm_mfence, _mm_sfence};

/// Instructions that a processor may have, from the oldest to the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Instructions {
    Clflush,
    Clflushopt,
    Clwb,
}

impl Instructions {
    // Since about Rust 1.94, `__cpuid` is safe; in earlier versions it is not.
    #[allow(unused_unsafe)]
    /// Finds the best instructions of this processor.
    pub(super) fn detect() -> Result<Instructions, NoFlush> {
        // SAFETY: every x86-64 processor has `cpuid`, and leaf 7 is queried only if it exists.
        let (basic, extended) =
            unsafe { (__cpuid(1), if __cpuid(0).eax >= 7 { __cpuid_count(7, 0).ebx } else { 0 }) };
        let line = (basic.ebx >> 8 & 0xff) as usize * 8;
        let has_clflush = basic.edx & 1 << 19 != 0;
        if !has_clflush || line != LINE {
            return Err(NoFlush);
        }
        Ok(match (extended & 1 << 24 != 0, extended & 1 << 23 != 0) {
            (true, true) => Instructions::Clwb,
            (_, true) => Instructions::Clflushopt,
            _ => Instructions::Clflush,
        })
    }

    /// Returns the names of the instructions, for reports.
    pub(super) fn name(self) -> &'static str {
        match self {
            Instructions::Clflush => "clflush",
            Instructions::Clflushopt => "clflushopt",
            Instructions::Clwb => "clwb and clflushopt",
        }
    }

    /// Writes a dirty line back. Keeps its copy if the processor has `clwb`.
    ///
    /// # Safety
    /// The line is mapped.
    #[inline(always)]
    pub(super) unsafe fn write_back(self, line: *const u8) {
        // SAFETY: the line is mapped, the processor has the instruction, and the instruction writes only data that is
        // already in the cache.
        unsafe {
            match self {
                Instructions::Clwb => asm!("clwb [{}]", in(reg) line, options(nostack, preserves_flags)),
                _ => self.drop_line(line),
            }
        }
    }

    /// Writes a dirty line back and drops its copy.
    ///
    /// # Safety
    /// The line is mapped.
    #[inline(always)]
    pub(super) unsafe fn drop_line(self, line: *const u8) {
        // SAFETY: the line is mapped, the processor has the instruction, and a dirty line is written back before it is
        // dropped.
        unsafe {
            match self {
                Instructions::Clflush => _mm_clflush(line),
                _ => asm!("clflushopt [{}]", in(reg) line, options(nostack, preserves_flags)),
            }
        }
    }
}

/// Orders the write-backs before later stores.
#[inline(always)]
pub(super) fn after_write_back() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_sfence() };
}

/// Orders the flushes before later loads.
#[inline(always)]
pub(super) fn after_drop() {
    // SAFETY: every x86-64 processor has the instruction.
    unsafe { _mm_mfence() };
}

/// Copies whole lines with non-temporal stores. It does so only if the target is aligned and long enough for this to be
/// faster than writing to the cache and flushing. Returns the number of bytes copied.
///
/// # Safety
/// The target is mapped writable.
#[inline]
pub(super) unsafe fn copy_around_cache(to: *mut u8, bytes: &[u8]) -> usize {
    use std::arch::x86_64::{__m128i, _mm_loadu_si128, _mm_stream_si128};
    // For fewer bytes, moving lines into the cache and out again costs less than the store buffers that non-temporal
    // stores use.
    const LEAST: usize = 4 * LINE;
    if bytes.len() < LEAST || !(to as usize).is_multiple_of(LINE) {
        return 0;
    }
    let done = bytes.len() / LINE * LINE;
    for at in (0..done).step_by(16) {
        // SAFETY: `at + 16 <= bytes.len()`, and the target is mapped, aligned to lines, and as long as `bytes`.
        unsafe {
            let word = _mm_loadu_si128(bytes.as_ptr().add(at) as *const __m128i);
            _mm_stream_si128(to.add(at) as *mut __m128i, word);
        }
    }
    done
}
