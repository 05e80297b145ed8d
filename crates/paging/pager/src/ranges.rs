//! Set of addresses: sorted ranges that neither overlap nor touch.

use alloc::vec;
use alloc::vec::Vec;

/// Set of addresses.
#[derive(Debug, Default)]
pub(crate) struct AddressSet(Vec<(usize, usize)>);

impl AddressSet {
    /// Returns whether an address is in the set.
    pub(crate) fn contains(&self, address: usize) -> bool {
        self.next(address).is_some_and(|(start, _)| start <= address)
    }

    /// Returns whether all of `[start, end)` is in the set.
    pub(crate) fn covers(&self, start: usize, end: usize) -> bool {
        self.next(start).is_some_and(|range| range.0 <= start && end <= range.1)
    }

    /// Returns the first range of the set that ends behind `address`.
    pub(crate) fn next(&self, address: usize) -> Option<(usize, usize)> {
        self.0.get(self.0.partition_point(|range| range.1 <= address)).copied()
    }

    /// Returns the parts of `[start, end)` that are in the set.
    pub(crate) fn parts(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let within = self.within(start, end).iter();
        within.map(|range| (range.0.max(start), range.1.min(end))).collect()
    }

    /// Returns the parts of `[start, end)` that are not in the set.
    pub(crate) fn gaps(&self, start: usize, end: usize) -> Vec<(usize, usize)> {
        let mut rest = AddressSet(vec![(start, end)]);
        for range in self.within(start, end) {
            rest.remove(range.0, range.1);
        }
        rest.0
    }

    /// Returns the ranges of the set that overlap `[start, end)`.
    fn within(&self, start: usize, end: usize) -> &[(usize, usize)] {
        let first = self.0.partition_point(|range| range.1 <= start);
        let last = self.0.partition_point(|range| range.0 < end);
        &self.0[first..last.max(first)]
    }

    /// Adds `[start, end)`.
    pub(crate) fn add(&mut self, start: usize, end: usize) {
        if start >= end {
            return;
        }
        // Ranges that overlap or touch are merged into one.
        let first = self.0.partition_point(|range| range.1 < start);
        let last = self.0.partition_point(|range| range.0 <= end);
        let joined = self.0[first..last].iter().fold((start, end), |a, b| (a.0.min(b.0), a.1.max(b.1)));
        self.0.splice(first..last, [joined]);
    }

    /// Removes `[start, end)`.
    pub(crate) fn remove(&mut self, start: usize, end: usize) {
        let first = self.0.partition_point(|range| range.1 <= start);
        let last = self.0.partition_point(|range| range.0 < end);
        if start >= end || first >= last {
            return;
        }
        let (before, after) = ((self.0[first].0, start), (end, self.0[last - 1].1));
        self.0.splice(first..last, [before, after].into_iter().filter(|range| range.0 < range.1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    proptest::proptest! {
        /// Compares the set with an array that has a flag for each address.
        #[test]
        fn is_a_set(ops in proptest::collection::vec((proptest::bool::ANY, 0usize..60, 0usize..20), 0..40)) {
            let (mut ranges, mut flags) = (AddressSet::default(), [false; 100]);
            for (add, start, len) in ops {
                if add { ranges.add(start, start + len) } else { ranges.remove(start, start + len) }
                flags[start..start + len].fill(add);
                for (address, flag) in flags.iter().enumerate() {
                    assert_eq!(ranges.contains(address), *flag);
                }
                let gaps = AddressSet(ranges.gaps(20, 50));
                let parts = AddressSet(ranges.parts(20, 50));
                assert!((20..50).all(|a| parts.contains(a) != gaps.contains(a)));
                assert!((0..100).all(|a| gaps.contains(a) == ((20..50).contains(&a) && !flags[a])));
                assert_eq!(ranges.covers(start, start + len + 1), flags[start..=start + len].iter().all(|f| *f));
            }
            assert!(ranges.0.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
