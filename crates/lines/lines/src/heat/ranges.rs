//! Totals of heat by address range.

use super::{RangeHeat, TransferReason};
use std::collections::HashMap;

/// Binary logarithm of the initial size of an address range, in bytes.
pub(super) const SHIFT: u32 = 12;

/// Totals of heat by address range. When the number of ranges would exceed its limit, the ranges double in size.
#[derive(Clone, Debug)]
pub(super) struct RangeTotals {
    shift: u32,
    most: usize,
    rows: Vec<RangeHeat>,
    /// Index of each range's row, keyed by the number of the range.
    indices: HashMap<u64, u32>,
    /// Range of the last counted line, and the index of its row.
    last: (u64, usize),
}

impl RangeTotals {
    /// Creates an empty table of at most `most` address ranges.
    pub(super) fn new(most: usize) -> RangeTotals {
        RangeTotals { shift: SHIFT, most, rows: Vec::new(), indices: HashMap::new(), last: (u64::MAX, 0) }
    }

    /// Counts a transferred line.
    #[inline]
    pub(super) fn add(&mut self, address: u64, way: TransferReason) {
        let range = address >> self.shift;
        let index = if range == self.last.0 { self.last.1 } else { self.find(address) };
        let row = &mut self.rows[index];
        match way {
            TransferReason::Miss => row.misses += 1,
            TransferReason::Prefetch => row.prefetches += 1,
            TransferReason::WriteBack => row.write_backs += 1,
        }
    }

    fn find(&mut self, address: u64) -> usize {
        let range = address >> self.shift;
        let index = match self.indices.get(&range) {
            Some(index) => *index as usize,
            None if self.rows.len() == self.most => {
                self.double();
                return self.find(address);
            }
            None => {
                self.indices.insert(range, self.rows.len() as u32);
                self.rows.push(RangeHeat { address: range << self.shift, ..RangeHeat::default() });
                self.rows.len() - 1
            }
        };
        self.last = (range, index);
        index
    }

    fn double(&mut self) {
        self.shift += 1;
        self.rows = merged(self.sorted().into_iter(), self.shift);
        let numbered = self.rows.iter().zip(0..);
        self.indices = numbered.map(|(row, index)| (row.address >> self.shift, index)).collect();
        self.last = (u64::MAX, 0);
    }

    /// Returns the size of an address range, in bytes.
    pub(super) fn range_bytes(&self) -> u64 {
        1 << self.shift
    }

    /// Returns the totals in ascending order of addresses.
    pub(super) fn sorted(&self) -> Vec<RangeHeat> {
        let mut rows = self.rows.clone();
        rows.sort_unstable_by_key(|row| row.address);
        rows
    }
}

/// Sums the rows that fall into the same address range of 2^`shift` bytes. The rows must be in ascending order of
/// addresses.
pub(super) fn merged(rows: impl Iterator<Item = RangeHeat>, shift: u32) -> Vec<RangeHeat> {
    let mut merged: Vec<RangeHeat> = Vec::new();
    for row in rows {
        let address = row.address >> shift << shift;
        match merged.last_mut().filter(|last| last.address == address) {
            Some(last) => {
                last.misses += row.misses;
                last.prefetches += row.prefetches;
                last.write_backs += row.write_backs;
            }
            None => merged.push(RangeHeat { address, ..row }),
        }
    }
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        /// Compares the totals with those of a map that uses the final range size of the table.
        #[test]
        fn totals_are_right_at_every_size(
            most in 1usize..40,
            lines in prop::collection::vec((0u64..1 << 30, any::<bool>()), 0..300),
        ) {
            let mut ranges = RangeTotals::new(most);
            for (address, is_miss) in &lines {
                ranges.add(*address, if *is_miss { TransferReason::Miss } else { TransferReason::WriteBack });
            }
            let mut expected = BTreeMap::<u64, RangeHeat>::new();
            for (line, is_miss) in lines {
                let address = line & !(ranges.range_bytes() - 1);
                let row = expected.entry(address).or_insert(RangeHeat { address, ..RangeHeat::default() });
                row.misses += u64::from(is_miss);
                row.write_backs += u64::from(!is_miss);
            }
            let rows = ranges.sorted();
            prop_assert!(rows.len() <= most);
            prop_assert_eq!(&rows, &expected.into_values().collect::<Vec<_>>());
        }
    }

    #[test]
    fn ranges_double_only_where_there_are_too_many() {
        let mut ranges = RangeTotals::new(16);
        (0..16).for_each(|page| ranges.add(page << SHIFT, TransferReason::Miss));
        assert_eq!(ranges.range_bytes(), 4096);
        ranges.add(16 << SHIFT, TransferReason::Miss);
        assert_eq!((ranges.range_bytes(), ranges.sorted().len()), (8192, 9));
    }
}
