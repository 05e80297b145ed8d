//! Memory whose kind is known only at run time.

use super::{Coherent, Incoherent, IncoherentModel, SharedMemory, Uncached};
use crate::sync::AtomicU64;

/// One of the kinds of memory. Each access matches on the kind, which costs one branch that is always predicted.
/// Coherent memory comes first and is inlined, because an access to it takes only a few instructions. Accesses to the
/// other kinds are function calls, so that the code of each caller is not generated four times.
#[derive(Clone)]
pub enum AnyMemory {
    Coherent(Coherent),
    Incoherent(Incoherent),
    Uncached(Uncached),
    Model(IncoherentModel),
}

macro_rules! of_its_kind {
    ($any:expr, $memory:ident => $access:expr) => {
        match $any {
            AnyMemory::Coherent($memory) => $access,
            AnyMemory::Incoherent($memory) => $access,
            AnyMemory::Uncached($memory) => $access,
            AnyMemory::Model($memory) => $access,
        }
    };
}

impl AnyMemory {
    #[inline(never)]
    unsafe fn publish_far(&self, at: *const u8, bytes: usize) {
        // SAFETY: the caller guarantees the conditions of `publish`.
        of_its_kind!(self, memory => unsafe { memory.publish(at, bytes) });
    }

    #[inline(never)]
    unsafe fn refresh_far(&self, at: *const u8, bytes: usize) {
        // SAFETY: the caller guarantees the conditions of `refresh`.
        of_its_kind!(self, memory => unsafe { memory.refresh(at, bytes) });
    }

    #[inline(never)]
    fn load_far(&self, entry: &AtomicU64) -> u64 {
        of_its_kind!(self, memory => memory.load(entry))
    }

    #[inline(never)]
    fn store_far(&self, entry: &AtomicU64, value: u64) {
        of_its_kind!(self, memory => memory.store(entry, value));
    }
}

impl SharedMemory for AnyMemory {
    #[inline(always)]
    unsafe fn publish(&self, at: *const u8, bytes: usize) {
        // SAFETY: the caller guarantees the conditions of `publish`.
        unsafe {
            match self {
                AnyMemory::Coherent(memory) => memory.publish(at, bytes),
                _ => self.publish_far(at, bytes),
            }
        }
    }

    #[inline(always)]
    unsafe fn refresh(&self, at: *const u8, bytes: usize) {
        // SAFETY: the caller guarantees the conditions of `refresh`.
        unsafe {
            match self {
                AnyMemory::Coherent(memory) => memory.refresh(at, bytes),
                _ => self.refresh_far(at, bytes),
            }
        }
    }

    #[inline(always)]
    fn load(&self, entry: &AtomicU64) -> u64 {
        match self {
            AnyMemory::Coherent(memory) => memory.load(entry),
            _ => self.load_far(entry),
        }
    }

    #[inline(always)]
    fn store(&self, entry: &AtomicU64, value: u64) {
        match self {
            AnyMemory::Coherent(memory) => memory.store(entry, value),
            _ => self.store_far(entry, value),
        }
    }

    /// Passes the hint to coherent memory. The other kinds ignore it.
    #[inline(always)]
    fn claim(&self, line: *const u8) {
        if let AnyMemory::Coherent(memory) = self {
            memory.claim(line);
        }
    }

    #[inline(always)]
    fn expect(&self, line: *const u8) {
        if let AnyMemory::Coherent(memory) = self {
            memory.expect(line);
        }
    }

    #[inline]
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: the caller guarantees the conditions of `write`.
        of_its_kind!(self, memory => unsafe { memory.write(to, bytes) });
    }
}
