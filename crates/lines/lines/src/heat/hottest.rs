//! Oracle placement: the hottest pages of a run are in local memory. The oracle knows the heat of each page over the
//! whole run in advance.
//!
//! Pages are ordered by their number of misses, because accesses wait for misses. Between pages with equal numbers of
//! misses, the number of prefetched lines and then the number of written-back lines decide. They have lower priority
//! because almost no access waits for these lines.
//!
//! The oracle does not give an upper bound on performance, because it gives the same weight to misses that overlap with
//! other misses and to misses whose latency is fully exposed.

use super::{HeatTables, RangeHeat};
use crate::window::RecordedWindow;

/// Address ranges that the oracle places in local memory, because no other ranges are hotter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hottest {
    range_bytes: u64,
    /// First addresses of the near ranges, in ascending order.
    near: Vec<u64>,
}

impl Hottest {
    /// Chooses the hottest address ranges of a run, as many as fit into a local memory of `near_bytes` bytes. Of equally
    /// hot ranges, the function prefers those with lower addresses.
    pub fn new(heat: &HeatTables, near_bytes: u64) -> Hottest {
        let count = near_bytes.checked_div(heat.range_bytes).unwrap_or(0) as usize;
        let mut ranges: Vec<&RangeHeat> = heat.ranges.iter().collect();
        let order = |range: &RangeHeat| (range.misses, range.prefetches, range.write_backs);
        ranges.sort_by_key(|range| (std::cmp::Reverse(order(range)), range.address));
        let mut near: Vec<u64> = ranges.into_iter().take(count).map(|range| range.address).collect();
        near.sort_unstable();
        Hottest { range_bytes: heat.range_bytes.max(1), near }
    }

    /// Returns whether the page that contains `address` is in local memory.
    pub fn is_near(&self, address: u64) -> bool {
        self.near.binary_search(&(address & !(self.range_bytes - 1))).is_ok()
    }

    /// Writes this placement into a window. For each line that was requested from memory, the bit with index
    /// `placement` of the line's near mask is set if these ranges contain the line, and is cleared otherwise.
    ///
    /// # Panics
    /// If `placement` exceeds 15.
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
