//! Memory whose kind is known when the program runs.

use super::{Coherent, Incoherent, Memory, Model, Uncached};
use crate::sync::AtomicU64;

/// One of the kinds. Which one is asked with each access: a branch that is always foretold.
#[derive(Clone)]
pub enum AnyMemory {
    Coherent(Coherent),
    Incoherent(Incoherent),
    Uncached(Uncached),
    Model(Model),
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

impl Memory for AnyMemory {
    #[inline(always)]
    unsafe fn publish(&self, at: *const u8, bytes: usize) {
        // SAFETY: as the caller says.
        of_its_kind!(self, memory => unsafe { memory.publish(at, bytes) });
    }

    #[inline(always)]
    unsafe fn refresh(&self, at: *const u8, bytes: usize) {
        // SAFETY: as the caller says.
        of_its_kind!(self, memory => unsafe { memory.refresh(at, bytes) });
    }

    #[inline(always)]
    fn load(&self, entry: &AtomicU64) -> u64 {
        of_its_kind!(self, memory => memory.load(entry))
    }

    #[inline(always)]
    fn store(&self, entry: &AtomicU64, value: u64) {
        of_its_kind!(self, memory => memory.store(entry, value));
    }

    #[inline(always)]
    fn claim(&self, line: *const u8) {
        of_its_kind!(self, memory => memory.claim(line));
    }

    #[inline]
    unsafe fn write(&self, to: *mut u8, bytes: &[u8]) {
        // SAFETY: as the caller says.
        of_its_kind!(self, memory => unsafe { memory.write(to, bytes) });
    }
}
