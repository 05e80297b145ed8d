//! Counts of a thread.

use crate::window::Served;

/// Counts of a thread's accesses, and of what they caused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Accesses by [`Served`]: L1, L2, L3, another core's cache, memory. Page walks are not among them.
    pub served: [u64; 5],
    /// Modified lines that left the last level for memory, and lines of stores that bypass the caches.
    pub write_backs: u64,
    /// Page walks.
    pub walks: u64,
    /// Loads of page walks that memory served.
    pub walk_misses: u64,
}

impl Counters {
    /// Returns the number of accesses.
    pub fn accesses(&self) -> u64 {
        self.served.iter().sum()
    }

    /// Returns the accesses that memory served.
    pub fn misses(&self) -> u64 {
        self.served[Served::Memory as usize]
    }
}
