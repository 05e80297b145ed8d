//! Cached mappings of memory that other hosts write, where hardware does not keep the copies coherent.

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
/// On x86-64, these are `clwb` (which keeps the copy of the line), `clflushopt` or `clflush`, with `sfence` after
/// writing back and `mfence` after dropping. The latter is needed because younger loads may overtake a flush. On
/// aarch64, these are `dc cvac`, `dc civac` and `dsb`.
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
    /// If programs cannot write lines back or drop them on this processor.
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
            // SAFETY: the caller guarantees that the lines are mapped.
            unsafe { self.instructions.write_back(first.wrapping_add(line * LINE)) };
        }
        arch::after_write_back();
    }

    #[inline]
    unsafe fn refresh(&self, at: *const u8, bytes: usize) {
        let (first, count) = lines(at, bytes);
        for line in 0..count {
            // SAFETY: the caller guarantees that the lines are mapped and have no unpublished stores.
            unsafe { self.instructions.drop_line(first.wrapping_add(line * LINE)) };
        }
        arch::after_drop();
    }

    #[inline]
    fn load(&self, entry: &AtomicU64) -> u64 {
        // SAFETY: a reference is mapped, and dropping a line first writes it back if it is dirty.
        unsafe { self.refresh(ptr::from_ref(entry).cast(), 8) };
        entry.load(Ordering::Acquire)
    }

    #[inline]
    fn store(&self, entry: &AtomicU64, value: u64) {
        entry.store(value, Ordering::Release);
        // SAFETY: a reference is mapped, and only one host writes the line of an entry.
        unsafe { self.publish(ptr::from_ref(entry).cast(), 8) };
    }

    #[inline]
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller guarantees that the target is mapped writable and that no other host writes it.
        unsafe {
            let around = arch::copy_around_cache(to, bytes);
            let (to, rest) = (to.wrapping_add(around), &bytes[around..]);
            std::ptr::copy_nonoverlapping(rest.as_ptr(), to, rest.len());
            // The fence in `publish` also orders the stores that bypassed the cache.
            self.publish(to, rest.len());
        }
    }
}
