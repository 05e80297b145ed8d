//! Sets of segments of a transfer. Segments are numbered from 0, so that a set is a small bit map.

/// Maximum number of segments in a transfer. It is so small that the sum of two segment numbers fits into 32 bits.
pub const MOST_SEGMENTS: u32 = 1 << 31;

/// Set of segment numbers below a fixed limit. A set whose limit is at most 64 allocates no memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SegmentSet {
    words: SegmentWords,
    count: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum SegmentWords {
    One(u64),
    Many(Box<[u64]>),
}

impl SegmentSet {
    /// Creates an empty set of numbers below `limit`.
    pub fn new(limit: u32) -> SegmentSet {
        let words = match limit {
            0..=64 => SegmentWords::One(0),
            _ => SegmentWords::Many(vec![0; limit.div_ceil(64) as usize].into()),
        };
        SegmentSet { words, count: 0 }
    }

    /// Creates the set of all numbers below `limit`.
    pub fn full(limit: u32) -> SegmentSet {
        let mut set = SegmentSet { count: limit, ..SegmentSet::new(limit) };
        let words = match &mut set.words {
            SegmentWords::One(word) => std::slice::from_mut(word),
            SegmentWords::Many(words) => words,
        };
        let last = limit as usize / 64;
        words[..last].fill(u64::MAX);
        if !limit.is_multiple_of(64) {
            words[last] = (1 << (limit % 64)) - 1;
        }
        set
    }

    fn words(&self) -> &[u64] {
        match &self.words {
            SegmentWords::One(word) => std::slice::from_ref(word),
            SegmentWords::Many(words) => words,
        }
    }

    fn word(&mut self, number: u32) -> &mut u64 {
        match &mut self.words {
            SegmentWords::One(word) => word,
            SegmentWords::Many(words) => &mut words[number as usize / 64],
        }
    }

    /// Returns whether a number is in the set.
    pub fn contains(&self, number: u32) -> bool {
        self.words()[number as usize / 64] & (1 << (number % 64)) != 0
    }

    /// Adds a number. Returns whether it was not in the set.
    pub fn insert(&mut self, number: u32) -> bool {
        let (word, bit) = (self.word(number), 1 << (number % 64));
        if *word & bit != 0 {
            return false;
        }
        *word |= bit;
        self.count += 1;
        true
    }

    /// Removes a number. Returns whether it was in the set.
    pub fn remove(&mut self, number: u32) -> bool {
        let (word, bit) = (self.word(number), 1 << (number % 64));
        if *word & bit == 0 {
            return false;
        }
        *word &= !bit;
        self.count -= 1;
        true
    }

    /// Removes all numbers.
    pub fn clear(&mut self) {
        match &mut self.words {
            SegmentWords::One(word) => *word = 0,
            SegmentWords::Many(words) => words.fill(0),
        }
        self.count = 0;
    }

    /// Returns how many numbers are in the set.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the smallest number in the set that is at least `start`.
    pub fn first_present(&self, start: u32) -> Option<u32> {
        let words = self.words();
        let mut at = start as usize / 64;
        let mut mask = u64::MAX << (start % 64);
        while let Some(word) = words.get(at) {
            let present = word & mask;
            if present != 0 {
                return Some(at as u32 * 64 + present.trailing_zeros());
            }
            (at, mask) = (at + 1, u64::MAX);
        }
        None
    }

    /// Returns the smallest number that is at least `start` and not in the set. The result may be the limit of the set or larger.
    pub fn first_absent(&self, start: u32) -> u32 {
        let words = self.words();
        let mut at = start as usize / 64;
        let mut below = (1u64 << (start % 64)) - 1;
        while let Some(word) = words.get(at) {
            let absent = !(word | below);
            if absent != 0 {
                return at as u32 * 64 + absent.trailing_zeros();
            }
            (at, below) = (at + 1, 0);
        }
        (words.len() as u32 * 64).max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn it_is_a_set(limit in 1u32..300, steps in prop::collection::vec((any::<bool>(), any::<u32>()), 0..200)) {
            let (mut set, mut model) = (SegmentSet::new(limit), BTreeSet::new());
            for (insert, number) in steps {
                let number = number % limit;
                match insert {
                    true => prop_assert_eq!(set.insert(number), model.insert(number)),
                    false => prop_assert_eq!(set.remove(number), model.remove(&number)),
                }
                prop_assert_eq!(set.count() as usize, model.len());
                prop_assert_eq!(set.contains(number), insert);
                let absent = (number..limit).find(|n| !model.contains(n)).unwrap_or(limit);
                prop_assert_eq!(set.first_absent(number).min(limit), absent);
                prop_assert_eq!(set.first_present(number), model.range(number..).next().copied());
            }
            (0..limit).for_each(|number| _ = set.insert(number));
            prop_assert_eq!(&set, &SegmentSet::full(limit));
            set.clear();
            prop_assert_eq!(set.first_absent(0), 0);
        }
    }
}
