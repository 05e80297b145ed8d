//! Heat of memory. For each page, it consists of three counts: accesses that missed all caches, lines that prefetchers
//! read from memory, and lines that were written back.
//!
//! The heat is counted in two tables of bounded size. The first table contains totals of the whole run by address
//! range, from which [`Hottest`] chooses the hottest pages. The second table is a coarser picture by address range and
//! time. An address range is initially a page. When a table would exceed its limit, its address ranges double in size.

mod hottest;
mod picture;
mod ranges;

pub use hottest::Hottest;

use crate::hierarchy::Hierarchy;
use crate::window::ServedBy;
use picture::HeatPicture;
use ranges::RangeTotals;
use serde::{Deserialize, Serialize};

/// Maximum number of address ranges in the table of totals. If each range has 4 KiB, these ranges cover 1 GiB.
const RANGES: usize = 1 << 18;

/// Heat tables of a process while the program runs.
#[derive(Clone, Debug)]
pub struct HeatCounts {
    totals: RangeTotals,
    picture: HeatPicture,
}

/// Heat tables of a process in the form in which they are stored after the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatTables {
    /// Size of each address range in `ranges`, in bytes. It is a power of two of at least 4096.
    pub range_bytes: u64,
    /// Totals of the whole run by address range, in ascending order of addresses.
    pub ranges: Vec<RangeHeat>,
    /// Length of an epoch, in instructions of all threads together.
    pub epoch_instructions: u64,
    /// Size of each address range in `epochs`, in bytes. It is a power of two of at least 4096.
    pub cell_bytes: u64,
    /// Heat of the address ranges in each epoch. Epochs are in order of time, from the beginning of the run. Within an
    /// epoch, ranges are in ascending order of addresses.
    pub epochs: Vec<Vec<RangeHeat>>,
}

/// Heat of one range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeHeat {
    /// First address of the range.
    pub address: u64,
    /// Number of loads and stores that memory served, counted like the misses of
    /// [`CacheCounters`](crate::hierarchy::CacheCounters).
    pub misses: u64,
    /// Number of lines that prefetchers or code fetches requested from memory.
    pub prefetches: u64,
    /// Number of lines that were written to memory.
    pub write_backs: u64,
}

impl RangeHeat {
    /// Returns the number of lines that were transferred to or from memory.
    pub fn lines(&self) -> u64 {
        self.misses + self.prefetches + self.write_backs
    }
}

/// Reason for the transfer of a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TransferReason {
    Miss,
    Prefetch,
    WriteBack,
}

impl Default for HeatCounts {
    fn default() -> HeatCounts {
        HeatCounts::new()
    }
}

impl HeatCounts {
    /// Creates empty tables.
    pub fn new() -> HeatCounts {
        HeatCounts { totals: RangeTotals::new(RANGES), picture: HeatPicture::new() }
    }

    /// Counts the lines that the last access of `hierarchy` transferred to or from memory. A store that bypasses the
    /// caches counts as a miss and also as a write-back.
    #[inline]
    pub fn count(&mut self, address: u64, served: ServedBy, hierarchy: &Hierarchy) {
        if served == ServedBy::Memory {
            self.add(address, TransferReason::Miss);
        }
        self.count_moved(hierarchy);
    }

    /// Counts the lines that the last code fetch of `hierarchy` transferred to or from memory.
    #[inline]
    pub fn count_code(&mut self, address: u64, served: ServedBy, hierarchy: &Hierarchy) {
        if served == ServedBy::Memory {
            self.add(address, TransferReason::Prefetch);
        }
        self.count_moved(hierarchy);
    }

    #[inline]
    fn count_moved(&mut self, hierarchy: &Hierarchy) {
        for prefetched in hierarchy.prefetched().iter().filter(|line| line.served == ServedBy::Memory) {
            self.add(prefetched.line, TransferReason::Prefetch);
        }
        for written in hierarchy.write_backs() {
            self.add(written.line, TransferReason::WriteBack);
        }
    }

    fn add(&mut self, address: u64, way: TransferReason) {
        self.totals.add(address, way);
        self.picture.add(address, way);
    }

    /// Advances the current time of the heat tables to `instructions`, which is the number of instructions that all
    /// threads together have executed.
    pub fn advance(&mut self, instructions: u64) {
        self.picture.advance(instructions);
    }

    /// Returns the heat tables up to the current time.
    pub fn tables(&self) -> HeatTables {
        HeatTables {
            range_bytes: self.totals.range_bytes(),
            ranges: self.totals.sorted(),
            epoch_instructions: self.picture.epoch_instructions(),
            cell_bytes: self.picture.range_bytes(),
            epochs: self.picture.epochs(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hierarchy::{Kind, Request};
    use proptest::prelude::*;

    proptest! {
        /// Each line that is requested from memory, and each that is written to it, is counted once in each table.
        #[test]
        fn heat_is_the_traffic_of_memory(
            has_prefetchers: bool,
            accesses in prop::collection::vec((0u64..400, 0u8..4), 1..600),
        ) {
            let prefetchers = if has_prefetchers { "stride-and-streams" } else { "none" };
            let text = format!("zen3:l1=1K/2:l2=2K/2:l3=4K/2:prefetchers={prefetchers}");
            let mut hierarchy = Hierarchy::new(&text.parse().unwrap(), 1, &[]).unwrap();
            let mut heat = HeatCounts::new();
            for (index, (number, kind)) in accesses.into_iter().enumerate() {
                let kind = [Kind::Load, Kind::Load, Kind::Store, Kind::NontemporalStore][usize::from(kind)];
                let request = Request { thread: 0, address: number * 192, kind, instruction: 0 };
                let outcome = hierarchy.access(&request);
                heat.count(request.address, outcome.served, &hierarchy);
                heat.advance(index as u64 * 30_000);
            }
            let counters = hierarchy.counters(0);
            let tables = heat.tables();
            let all = [tables.ranges.clone(), tables.epochs.concat()];
            for rows in all {
                let misses: u64 = rows.iter().map(|row| row.misses).sum();
                let write_backs: u64 = rows.iter().map(|row| row.write_backs).sum();
                let prefetches: u64 = rows.iter().map(|row| row.prefetches).sum();
                prop_assert_eq!(misses, counters.misses());
                prop_assert_eq!(prefetches, counters.prefetches[ServedBy::Memory as usize]);
                prop_assert_eq!(write_backs, counters.write_backs);
            }
        }
    }
}
