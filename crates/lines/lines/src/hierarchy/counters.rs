//! Counts of the cache accesses of a thread.

use crate::window::ServedBy;
use serde::{Deserialize, Serialize};

/// Counts of a thread's accesses and of the memory traffic that these accesses caused. The loads of page walks are not
/// counted as accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Number of loads by the level that served them, in the order of [`ServedBy`]: L1, L2, L3, a cache of another
    /// core, memory.
    pub loads: [u64; 5],
    /// Number of stores by the level that served them, in the order of [`ServedBy`]. A store that bypasses the caches
    /// counts as served by memory. However, it counts as served by L1 if a write-combining buffer was already gathering
    /// stores to its line.
    pub stores: [u64; 5],
    /// Number of lines written to memory: modified lines that the last-level cache evicted, and lines that were written
    /// by stores that bypass the caches.
    pub write_backs: u64,
    /// Number of lines that hardware prefetchers requested, by the level that served them, in the order of
    /// [`ServedBy`].
    pub prefetches: [u64; 5],
    /// Number of code lines that missed the first-level instruction cache, by the level that served them, in the order
    /// of [`ServedBy`].
    pub fetches: [u64; 5],
    /// Number of page walks.
    pub walks: u64,
    /// Number of loads of page walks that memory served.
    pub walk_misses: u64,
}

impl CacheCounters {
    /// Returns the number of loads and stores.
    pub fn accesses(&self) -> u64 {
        self.loads.iter().chain(&self.stores).sum()
    }

    /// Returns the number of loads and stores that a level served.
    pub fn served(&self, by: ServedBy) -> u64 {
        self.loads[by as usize] + self.stores[by as usize]
    }

    /// Returns the number of loads and stores that memory served.
    pub fn misses(&self) -> u64 {
        self.served(ServedBy::Memory)
    }

    /// Counts an access.
    #[inline(always)]
    pub(super) fn count(&mut self, is_store: bool, served: ServedBy) {
        let counts = if is_store { &mut self.stores } else { &mut self.loads };
        counts[served as usize] += 1;
    }
}
