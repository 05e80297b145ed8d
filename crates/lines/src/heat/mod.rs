//! Heat of memory: how often each page was asked of memory or written back, over the whole run.
//!
//! Two tables, both bounded: totals by page, from which the hottest pages follow ([`Hottest`]), and a coarser picture by
//! page and time. Where a table would grow beyond its limit, its ranges of addresses double.

mod hottest;
mod picture;
mod ranges;

pub use hottest::Hottest;

use crate::hierarchy::{Hierarchy, Kind, Outcome};
use crate::window::Served;
use picture::Picture;
use ranges::Ranges;
use serde::{Deserialize, Serialize};

/// Ranges of the totals at most: those of 1 GiB in pages of 4 KiB.
const RANGES: usize = 1 << 18;

/// Heat as it is counted.
#[derive(Clone, Debug)]
pub struct Heat {
    totals: Ranges,
    picture: Picture,
}

/// Heat of a process, as it is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeatTables {
    /// Bytes of a range of the totals, a power of two from 4096 on.
    pub range_bytes: u64,
    /// Totals by range, in the order of addresses.
    pub ranges: Vec<RangeHeat>,
    /// Instructions of an epoch, over all threads.
    pub epoch_instructions: u64,
    /// Bytes of a range of the picture, a power of two from 4096 on.
    pub cell_bytes: u64,
    /// Heat by epoch, from the beginning of the run; in each, ranges in the order of addresses.
    pub epochs: Vec<Vec<RangeHeat>>,
}

/// Heat of a range of addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RangeHeat {
    /// First address.
    pub address: u64,
    /// Lines that memory was asked for, by accesses and by prefetchers.
    pub misses: u64,
    /// Lines that were written to memory.
    pub write_backs: u64,
}

impl RangeHeat {
    /// Returns the lines that went to or came from memory.
    pub fn lines(&self) -> u64 {
        self.misses + self.write_backs
    }
}

/// Way that a line went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Miss,
    WriteBack,
}

impl Default for Heat {
    fn default() -> Heat {
        Heat::new()
    }
}

impl Heat {
    /// Creates cold memory.
    pub fn new() -> Heat {
        Heat { totals: Ranges::new(RANGES), picture: Picture::new() }
    }

    /// Counts the lines that went to or came from memory at the last access of the caches, or fetch of code.
    #[inline]
    pub fn count(&mut self, address: u64, kind: Kind, outcome: &Outcome, hierarchy: &Hierarchy) {
        // A store that bypasses the caches is among the write-backs.
        if outcome.served == Served::Memory && kind != Kind::NontemporalStore {
            self.add(address, Way::Miss);
        }
        for prefetched in hierarchy.prefetched().iter().filter(|line| line.served == Served::Memory) {
            self.add(prefetched.line, Way::Miss);
        }
        for written in hierarchy.write_backs() {
            self.add(written.line, Way::WriteBack);
        }
    }

    fn add(&mut self, address: u64, way: Way) {
        self.totals.add(address, way);
        self.picture.add(address, way);
    }

    /// Hears how many instructions all threads have executed.
    pub fn advance(&mut self, instructions: u64) {
        self.picture.advance(instructions);
    }

    /// Returns the tables so far.
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
    use crate::hierarchy::Request;
    use proptest::prelude::*;

    proptest! {
        /// Each line that memory was asked for, and each that was written to it, is counted once in each table.
        #[test]
        fn heat_is_the_traffic_of_memory(
            has_prefetchers: bool,
            accesses in prop::collection::vec((0u64..400, 0u8..4), 1..600),
        ) {
            let prefetchers = if has_prefetchers { "stride-and-streams" } else { "none" };
            let text = format!("zen3:l1=1K/2:l2=2K/2:l3=4K/2:prefetchers={prefetchers}");
            let mut hierarchy = Hierarchy::new(&text.parse().unwrap(), 1, &[]).unwrap();
            let mut heat = Heat::new();
            for (index, (number, kind)) in accesses.into_iter().enumerate() {
                let kind = [Kind::Load, Kind::Load, Kind::Store, Kind::NontemporalStore][usize::from(kind)];
                let request = Request { thread: 0, address: number * 192, kind, instruction: 0 };
                let outcome = hierarchy.access(&request);
                heat.count(request.address, kind, &outcome, &hierarchy);
                heat.advance(index as u64 * 30_000);
            }
            let counters = hierarchy.counters(0);
            let bypassed = counters.stores[Served::Memory as usize];
            let tables = heat.tables();
            let all = [tables.ranges.clone(), tables.epochs.concat()];
            for rows in all {
                let misses: u64 = rows.iter().map(|row| row.misses).sum();
                let write_backs: u64 = rows.iter().map(|row| row.write_backs).sum();
                let memory = Served::Memory as usize;
                prop_assert!(misses >= counters.loads[memory] + counters.prefetches[memory]);
                prop_assert!(misses <= counters.loads[memory] + counters.prefetches[memory] + bypassed);
                prop_assert_eq!(write_backs, counters.write_backs);
            }
        }
    }
}
