//! A set of segment numbers as sorted, disjoint, half-open ranges.
//!
//! TCP's sets of segments that arrived out of order are empty as long as no segment is lost or reordered. In this common case, the set
//! allocates no memory and takes no time.

use std::ops::Range;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SequenceRanges {
    /// Ranges in ascending order; no two touch.
    ranges: Vec<Range<u32>>,
}

impl SequenceRanges {
    pub(super) fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// Returns one past the largest number of the set.
    pub(super) fn end(&self) -> Option<u32> {
        self.ranges.last().map(|r| r.end)
    }

    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = &Range<u32>> {
        self.ranges.iter()
    }

    /// Returns the range that holds `number`.
    pub(super) fn containing(&self, number: u32) -> Option<&Range<u32>> {
        let at = self.first_ending_after(number);
        self.ranges.get(at).filter(|r| r.start <= number)
    }

    /// Returns the smallest number at or above `number` that is not in the set.
    pub(super) fn gap_from(&self, number: u32) -> u32 {
        self.containing(number).map_or(number, |r| r.end)
    }

    /// Returns how many numbers in the set are below `number`.
    pub(super) fn count_below(&self, number: u32) -> u32 {
        self.ranges.iter().take_while(|r| r.start < number).map(|r| r.end.min(number) - r.start).sum()
    }

    /// Returns the `n`th largest number of the set; `n` 1 is the largest.
    pub(super) fn nth_from_top(&self, mut n: u32) -> Option<u32> {
        for range in self.ranges.iter().rev() {
            let len = range.end - range.start;
            if n <= len {
                return Some(range.end - n);
            }
            n -= len;
        }
        None
    }

    /// Adds a range. Returns how many of its numbers are new.
    pub(super) fn insert(&mut self, new: Range<u32>) -> u32 {
        if new.is_empty() {
            return 0;
        }
        let from = self.ranges.partition_point(|r| r.end < new.start);
        let to = self.ranges.partition_point(|r| r.start <= new.end);
        if from == to {
            self.ranges.insert(from, new.clone());
            return new.end - new.start;
        }
        let merged = self.ranges[from].start.min(new.start)..self.ranges[to - 1].end.max(new.end);
        let before = self.ranges[from..to].iter().map(|r| r.end - r.start).sum::<u32>();
        self.ranges[from] = merged.clone();
        self.ranges.drain(from + 1..to);
        merged.end - merged.start - before
    }

    /// Removes all numbers below `number`.
    pub(super) fn remove_below(&mut self, number: u32) {
        let gone = self.first_ending_after(number);
        self.ranges.drain(..gone);
        if let Some(first) = self.ranges.first_mut() {
            first.start = first.start.max(number);
        }
    }

    fn first_ending_after(&self, number: u32) -> usize {
        self.ranges.partition_point(|r| r.end <= number)
    }
}

#[cfg(test)]
mod tests {
    use super::SequenceRanges;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn is_a_set_of_numbers(
            inserts in prop::collection::vec((0u32..60, 0u32..8), 0..30), floor in 0u32..70, probe in 0u32..70,
        ) {
            let (mut ranges, mut set) = (SequenceRanges::default(), BTreeSet::new());
            for (start, len) in inserts {
                let fresh = (start..start + len).filter(|n| set.insert(*n)).count();
                prop_assert_eq!(ranges.insert(start..start + len) as usize, fresh);
            }
            ranges.remove_below(floor);
            set = set.split_off(&floor);
            prop_assert_eq!(ranges.is_empty(), set.is_empty());
            prop_assert_eq!(ranges.end(), set.last().map(|n| n + 1));
            prop_assert_eq!(ranges.count_below(probe) as usize, set.range(..probe).count());
            prop_assert_eq!(ranges.containing(probe).is_some(), set.contains(&probe));
            prop_assert_eq!(ranges.gap_from(probe), (probe..).find(|n| !set.contains(n)).unwrap());
            prop_assert_eq!(ranges.nth_from_top(3), set.iter().rev().nth(2).copied());
        }

        #[test]
        fn neighbours_merge(a in 0u32..50, b in 1u32..9, c in 1u32..9) {
            let mut ranges = SequenceRanges::default();
            ranges.insert(a + b..a + b + c);
            ranges.insert(a..a + b);
            prop_assert_eq!(ranges.iter().cloned().collect::<Vec<_>>(), vec![a..a + b + c]);
        }
    }
}
