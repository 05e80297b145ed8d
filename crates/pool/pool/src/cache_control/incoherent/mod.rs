//! Cached mappings of memory that other hosts write, without hardware that keeps the copies coherent.

use super::{LINE, SharedMemory, lines};
use crate::sync::{AtomicU64, Ordering};
use arch::Instructions;
use std::ptr;

#[cfg_attr(target_arch = "x86_64", path = "x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "aarch64.rs")]
#[cfg_attr(not(any(target_arch = "x86_64", target_arch = "aarch64")), path = "none.rs")]
mod arch;

/// Memory whose lines are written back and dropped with the best instructions of this processor.
///
/// On x86-64: `clwb` (which keeps the copy of the line), `clflushopt` or `clflush`, `sfence` after writing
/// back and `mfence` after dropping, since younger loads may overtake a flush. On aarch64: `dc cvac`,
/// `dc civac`, `dsb`.
#[derive(Debug, Clone, Copy)]
pub struct Incoherent {
    instructions: Instructions,
}

/// Error of a processor that cannot write lines back.
#[derive(Debug, thiserror::Error)]
#[error("this processor has no instruction that writes a cache line back: use coherent memory")]
pub struct NoFlush;

impl Incoherent {
    /// Chooses the best instructions of this processor.
    ///
    /// # Errors
    /// If a program cannot write lines back or drop them on this processor.
    pub fn detect() -> Result<Incoherent, NoFlush> {
        Ok(Incoherent { instructions: Instructions::detect()? })
    }

    /// Returns the names of the instructions in use, for reports.
    pub fn instructions(&self) -> &'static str {
        self.instructions.name()
    }
}

impl SharedMemory for Incoherent {
    #[inline]
    unsafe fn publish(&self, at: *const u8, bytes: usize) {
        let (first, count) = lines(at, bytes);
        for line in 0..count {
            // SAFETY: the caller has these lines mapped.
            unsafe { self.instructions.write_back(first.wrapping_add(line * LINE)) };
        }
        arch::after_write_back();
    }

    #[inline]
    unsafe fn refresh(&self, at: *const u8, bytes: usize) {
        let (first, count) = lines(at, bytes);
        for line in 0..count {
            // SAFETY: the caller has these lines mapped, with nothing unpublished in them.
            unsafe { self.instructions.drop_line(first.wrapping_add(line * LINE)) };
        }
        arch::after_drop();
    }

    #[inline]
    fn load(&self, entry: &AtomicU64) -> u64 {
        // SAFETY: a reference is mapped; dropping a line writes back what is dirty in it.
        unsafe { self.refresh(ptr::from_ref(entry).cast(), 8) };
        entry.load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, entry: &AtomicU64, value: u64) {
        entry.store(value, Ordering::Release);
        // SAFETY: a reference is mapped, and the entry's line is its writer's alone.
        unsafe { self.publish(ptr::from_ref(entry).cast(), 8) };
    }

    #[inline]
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller has the target mapped writable, and nobody else writes it.
        unsafe {
            let around = arch::copy_around_cache(to, bytes);
            let (to, rest) = (to.wrapping_add(around), &bytes[around..]);
            std::ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len());
            // Its fence covers the stores that bypassed the cache, too.
            self.publish(to, rest.len());
        }
    }
}
