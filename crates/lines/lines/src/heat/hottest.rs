//! Oracle placement: the hottest pages are near, as known from the whole run.
//!
//! Pages are ordered by their misses, because accesses wait for these. Lines that prefetchers read and lines that are
//! written back only decide between pages with equal misses, because almost no access waits for them.
//!
//! The oracle is not an upper bound on performance: it gives misses that overlap with others the same weight as
//! misses whose latency is fully exposed.

use super::{HeatTables, RangeHeat};
use crate::window::RecordedWindow;

/// Ranges of addresses that are near, because no other ranges have more misses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hottest {
    range_bytes: u64,
    /// First addresses of the near ranges, in ascending order.
    near: Vec<u64>,
}

impl Hottest {
    /// Chooses the hottest ranges of a run that together fit into `near_bytes`. If ranges are equally hot, the ones
    /// with lower addresses are chosen.
    pub fn new(heat: &HeatTables, near_bytes: u64) -> Hottest {
        let count = near_bytes.checked_div(heat.range_bytes).unwrap_or(0) as usize;
        let mut ranges: Vec<&RangeHeat> = heat.ranges.iter().collect();
        let order = |range: &RangeHeat| (range.misses, range.prefetches, range.write_backs);
        ranges.sort_by_key(|range| (std::cmp::Reverse(order(range)), range.address));
        let mut near: Vec<u64> = ranges.into_iter().take(count).map(|range| range.address).collect();
        near.sort_unstable();
        Hottest { range_bytes: heat.range_bytes.max(1), near }
    }

    /// Returns whether the page of an address is near.
    pub fn is_near(&self, address: u64) -> bool {
        self.near.binary_search(&(address & !(self.range_bytes - 1))).is_ok()
    }

    /// Sets the bit of a placement in a window according to these ranges, for all lines that were requested from
    /// memory.
    ///
    /// # Panics
    /// If `placement` is not 0 to 15.
    pub fn mark(&self, window: &mut RecordedWindow, placement: u32) {
        window.mark(placement, |address| self.is_near(address));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::window::WriteBack;
    use proptest::prelude::*;

    fn heat(lines: &[u64]) -> HeatTables {
        let row = |(page, misses): (u64, &u64)| RangeHeat {
            address: page << 12,
            misses: *misses,
            prefetches: 0,
            write_backs: 1,
        };
        let ranges = (0..).zip(lines).map(row).collect();
        HeatTables { range_bytes: 4096, ranges, ..HeatTables::default() }
    }

    proptest! {
        /// No other choice of as many pages has more of the misses.
        #[test]
        fn the_hottest_pages_are_near(lines in prop::collection::vec(0u64..50, 1..40), pages in 0u64..45) {
            let hottest = Hottest::new(&heat(&lines), pages * 4096 + 100);
            let (mut near, mut far) = (Vec::new(), Vec::new());
            for (page, count) in lines.iter().enumerate() {
                let side = if hottest.is_near(((page as u64) << 12) + 77) { &mut near } else { &mut far };
                side.push(*count);
            }
            prop_assert_eq!(near.len() as u64, pages.min(lines.len() as u64));
            prop_assert!(near.iter().min() >= far.iter().max() || near.is_empty() || far.is_empty());
        }
    }

    #[test]
    fn a_page_that_is_waited_for_is_hotter_than_one_that_is_prefetched() {
        let row = |page: u64, misses, prefetches| RangeHeat {
            address: page << 12,
            misses,
            prefetches,
            write_backs: 64,
        };
        let ranges = vec![row(0, 2, 62), row(1, 9, 0), row(2, 2, 90)];
        let heat = HeatTables { range_bytes: 4096, ranges, ..HeatTables::default() };
        let near = |pages: u64| {
            (0..3).filter(|page| Hottest::new(&heat, pages * 4096).is_near(page << 12)).collect::<Vec<_>>()
        };
        assert_eq!((near(1), near(2)), (vec![1], vec![1, 2]));
    }

    #[test]
    fn a_window_is_marked_in_one_bit() {
        let hottest = Hottest::new(&heat(&[1, 9]), 4096);
        let write_back = |line, near| WriteBack { after: 0, line, near };
        let write_backs = vec![write_back(0, 0b111), write_back(4096 + 64, 0b101)];
        let mut window = RecordedWindow { write_backs, ..RecordedWindow::default() };
        hottest.mark(&mut window, 1);
        assert_eq!(window.write_backs, [write_back(0, 0b101), write_back(4096 + 64, 0b111)]);
        assert!(!Hottest::new(&HeatTables::default(), 4096).is_near(0));
    }
}
