//! Memory in which every host sees every store: of one host, or kept so by hardware, or never cached.

use super::{Memory, Mode};
use std::sync::atomic::{AtomicU64, Ordering, fence};

/// Hardware keeps copies the same: plain atomics do.
#[derive(Debug, Clone, Copy, Default)]
pub struct Coherent;

impl Memory for Coherent {
    const MODE: Mode = Mode::Coherent;

    #[inline(always)]
    unsafe fn publish(&self, _: *const u8, _: usize) {}

    #[inline(always)]
    unsafe fn refresh(&self, _: *const u8, _: usize) {}

    /// Acquires what the partner released in [`store`](Memory::store).
    #[inline(always)]
    fn load(&self, entry: &AtomicU64) -> u64 {
        entry.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, entry: &AtomicU64, value: u64) {
        entry.store(value, Ordering::Release);
    }
}

/// The mapping is uncachable or write-combining, by MTRR (HydraRPC §5.2) or page attributes: there are no
/// copies, but stores may wait in buffers of the processor.
#[derive(Debug, Clone, Copy, Default)]
pub struct Uncached;

impl Memory for Uncached {
    const MODE: Mode = Mode::Uncached;

    #[inline(always)]
    unsafe fn publish(&self, _: *const u8, _: usize) {
        // Orders write-combined stores too, which a release does not.
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    unsafe fn refresh(&self, _: *const u8, _: usize) {
        fence(Ordering::SeqCst);
    }

    #[inline(always)]
    fn load(&self, entry: &AtomicU64) -> u64 {
        entry.load(Ordering::Acquire)
    }

    #[inline(always)]
    fn store(&self, entry: &AtomicU64, value: u64) {
        entry.store(value, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}
