//! Cache counts of a thread.

use crate::window::ServedBy;
use serde::{Deserialize, Serialize};

/// Counts of a thread's accesses and of the traffic that they caused. The loads of page walks are not counted as
/// accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheCounters {
    /// Loads by the level that [`Served`] them: L1, L2, L3, another core's cache, memory.
    pub loads: [u64; 5],
    /// Stores by the level that [`Served`] them. A store that bypasses the caches counts as served by memory, or by
    /// L1 if its line was already being gathered in a write-combining buffer.
    pub stores: [u64; 5],
    /// Modified lines evicted from the last level to memory, and lines written by stores that bypass the caches.
    pub write_backs: u64,
    /// Lines brought by hardware prefetchers, by the level that [`Served`] them.
    pub prefetches: [u64; 5],
    /// Code lines that missed the first-level instruction cache, by the level that [`Served`] them.
    pub fetches: [u64; 5],
    /// Page walks.
    pub walks: u64,
    /// Page-walk loads that were served by memory.
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
