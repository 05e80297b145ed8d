//! Counts of a thread.

use crate::window::Served;
use serde::{Deserialize, Serialize};

/// Counts of a thread's accesses, and of what they caused. Page walks are not among the accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Loads by [`Served`]: L1, L2, L3, another core's cache, memory.
    pub loads: [u64; 5],
    /// Stores by [`Served`]. One that bypasses the caches counts as served by memory, or by L1 if its line was gathered
    /// already.
    pub stores: [u64; 5],
    /// Modified lines that left the last level for memory, and lines of stores that bypass the caches.
    pub write_backs: u64,
    /// Lines that hardware prefetchers brought, by [`Served`]: where they were found.
    pub prefetches: [u64; 5],
    /// Lines of code that the first-level instruction cache did not have, by [`Served`].
    pub fetches: [u64; 5],
    /// Page walks.
    pub walks: u64,
    /// Loads of page walks that memory served.
    pub walk_misses: u64,
}

impl CacheCounters {
    /// Returns the number of accesses.
    pub fn accesses(&self) -> u64 {
        self.loads.iter().chain(&self.stores).sum()
    }

    /// Returns the accesses that a place served.
    pub fn served(&self, by: Served) -> u64 {
        self.loads[by as usize] + self.stores[by as usize]
    }

    /// Returns the accesses that memory served.
    pub fn misses(&self) -> u64 {
        self.served(Served::Memory)
    }

    /// Counts an access.
    #[inline(always)]
    pub(super) fn count(&mut self, is_store: bool, served: Served) {
        let counts = if is_store { &mut self.stores } else { &mut self.loads };
        counts[served as usize] += 1;
    }
}
