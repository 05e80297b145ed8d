//! Set-associative array of line numbers with flags, in true LRU order.
//!
//! The ways of a set are stored in order, from the most to the least recently used line. The LRU order therefore needs
//! no extra storage, and a search begins with the way that most likely holds the line.
//!
//! Departure: real first-level caches approximate LRU by a tree of bits, and real last-level caches use insertion
//! policies that no vendor documents. This model uses true LRU instead, because both kinds of policy approximate LRU.

/// Binary logarithm of the bytes of a cache line.
pub(crate) const LINE_SHIFT: u32 = 6;
/// Binary logarithm of the number of lines of a page.
const PAGE_LINES: u32 = 6;
/// Binary logarithm of the number of pages in a run of consecutive physical frames.
const RUN_PAGES: u32 = 6;

/// Flag that is set in each entry that holds a line. An empty entry is 0.
const PRESENT: u64 = 1;
/// Flag of a line that is newer than the copy in memory or in the next level.
pub(crate) const MODIFIED: u64 = 2;
/// Flag of a line that no other private cache holds: MESI's states M and E.
pub(crate) const EXCLUSIVE: u64 = 4;
/// Flag of a line in a first-level cache that a prefetcher requested and that no access has used yet.
pub(crate) const UNUSED: u64 = 8;

const FLAG_BITS: u32 = 8;
const FLAGS: u64 = (1 << FLAG_BITS) - 1;

/// Cache line that is in a cache, or was evicted from a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Address of the line, divided by 64.
    pub number: u64,
    /// Combination of [`MODIFIED`] and [`EXCLUSIVE`].
    pub flags: u64,
}

impl Line {
    /// Returns the line that an entry encodes.
    fn from_entry(entry: u64) -> Line {
        Line { number: entry >> FLAG_BITS, flags: entry & FLAGS & !PRESENT }
    }
}

/// Mapping from a line number to a set of a cache.
#[derive(Clone, Debug)]
enum SetIndex {
    /// Low bits of the line number, as in private caches.
    Low { mask: u64 },
    /// Low bits of the physical address. They consist of the position of the line within its page, and of a hash of the
    /// page number in place of the physical frame that the kernel assigned to the page.
    Physical { mask: u64 },
    /// Low bits of the line number, combined with all higher bits by exclusive or, as in last-level caches whose number
    /// of slices is a power of two. If a cache has n sets, an aligned run of n lines maps exactly one line to each set.
    Folded { bits: u32, mask: u64 },
    /// Remainder of the line number divided by the number of sets, which is arbitrary. `multiplier` is 2^128 / `sets`,
    /// rounded up.
    Remainder { sets: u64, multiplier: u128 },
}

impl SetIndex {
    #[inline(always)]
    fn set(&self, line: u64) -> usize {
        match *self {
            SetIndex::Low { mask } => (line & mask) as usize,
            SetIndex::Physical { mask } => {
                let frame = frame_of(line >> PAGE_LINES);
                ((line & ((1 << PAGE_LINES) - 1) | frame << PAGE_LINES) & mask) as usize
            }
            SetIndex::Folded { bits, mask } => {
                let upper = line >> bits;
                ((line ^ upper ^ (upper >> bits) ^ (upper >> (2 * bits))) & mask) as usize
            }
            SetIndex::Remainder { sets, multiplier } => remainder(line, sets, multiplier) as usize,
        }
    }
}

/// Returns the simulated physical frame of a page. Runs of 64 consecutive pages have consecutive frames, and each run
/// begins at a pseudorandom frame, because Linux allocates pages to a core in batches of up to 63 (mm/page_alloc.c,
/// `zone_batchsize`).
#[inline(always)]
fn frame_of(page: u64) -> u64 {
    let mixed = (page >> RUN_PAGES).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let drawn = (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
    drawn + (page & ((1 << RUN_PAGES) - 1))
}

/// Returns `number % divisor` without a division: Lemire, Kaser and Kurz, "Faster remainder by direct computation",
/// Software: Practice and Experience 2019, theorem 1 with 128 bits.
#[inline]
fn remainder(number: u64, divisor: u64, multiplier: u128) -> u64 {
    let fraction = multiplier.wrapping_mul(u128::from(number));
    let low = ((fraction & u128::from(u64::MAX)) * u128::from(divisor)) >> 64;
    let high = (fraction >> 64) * u128::from(divisor);
    ((low + high) >> 64) as u64
}

/// Set-associative cache of lines.
#[derive(Clone, Debug)]
pub(crate) struct Cache {
    entries: Vec<u64>,
    ways: usize,
    index: SetIndex,
}

impl Cache {
    /// Creates an empty private cache that is indexed by the low bits of the line number. `sets` is a power of two.
    pub(crate) fn new(sets: u64, ways: u32) -> Cache {
        assert!(sets.is_power_of_two(), "the sets of a private cache are checked to be a power of two");
        Cache::with_index(sets, ways, SetIndex::Low { mask: sets - 1 })
    }

    /// Creates an empty private cache that is indexed by the low bits of the simulated physical address, as if all
    /// pages had 4 KiB. `sets` is a power of two.
    pub(crate) fn physical(sets: u64, ways: u32) -> Cache {
        assert!(sets.is_power_of_two(), "the sets of a private cache are checked to be a power of two");
        Cache::with_index(sets, ways, SetIndex::Physical { mask: sets - 1 })
    }

    /// Creates an empty shared cache that is indexed by a hash of the line number.
    pub(crate) fn shared(sets: u64, ways: u32) -> Cache {
        let index = if sets == 1 {
            SetIndex::Low { mask: 0 }
        } else if sets.is_power_of_two() {
            SetIndex::Folded { bits: sets.trailing_zeros(), mask: sets - 1 }
        } else {
            SetIndex::Remainder { sets, multiplier: u128::MAX / u128::from(sets) + 1 }
        };
        Cache::with_index(sets, ways, index)
    }

    fn with_index(sets: u64, ways: u32, index: SetIndex) -> Cache {
        let ways = ways as usize;
        Cache { entries: vec![0; sets as usize * ways], ways, index }
    }

    #[inline(always)]
    fn set(&mut self, line: u64) -> &mut [u64] {
        let first = self.index.set(line) * self.ways;
        &mut self.entries[first..first + self.ways]
    }

    /// Makes a line the most recently used line of its set, and returns its flags. Returns `None` if the line is not in
    /// the cache.
    #[inline(always)]
    pub(crate) fn touch(&mut self, line: u64) -> Option<&mut u64> {
        let wanted = line << FLAG_BITS | FLAGS;
        let set = self.set(line);
        if set[0] | (FLAGS & !PRESENT) != wanted {
            let way = position(set, wanted)?;
            move_to_front(&mut set[..=way]);
        }
        Some(&mut set[0])
    }

    /// Returns the flags of a line without changing the LRU order, or `None` if the line is not in the cache.
    #[inline]
    pub(crate) fn find(&mut self, line: u64) -> Option<&mut u64> {
        let set = self.set(line);
        let way = position(set, line << FLAG_BITS | FLAGS)?;
        Some(&mut set[way])
    }

    /// Inserts a line, which must not be in the cache yet, as the most recently used line of its set. Returns the line
    /// that this insertion evicted, if the set was full.
    #[inline]
    pub(crate) fn insert(&mut self, line: u64, flags: u64) -> Option<Line> {
        debug_assert!(self.find(line).is_none(), "line {line:#x} is in the cache already");
        let set = self.set(line);
        let left = set[set.len() - 1];
        set.copy_within(..set.len() - 1, 1);
        set[0] = line << FLAG_BITS | flags | PRESENT;
        (left != 0).then(|| Line::from_entry(left))
    }

    /// Removes a line from the cache and returns the line's flags, or `None` if the line is not in the cache.
    #[inline]
    pub(crate) fn remove(&mut self, line: u64) -> Option<u64> {
        let set = self.set(line);
        let way = position(set, line << FLAG_BITS | FLAGS)?;
        let entry = std::mem::take(&mut set[way]);
        set[way..].rotate_left(1);
        Some(Line::from_entry(entry).flags)
    }

    /// Returns all lines in the cache.
    #[cfg(test)]
    pub(crate) fn lines(&self) -> impl Iterator<Item = Line> {
        self.entries.iter().filter(|entry| **entry != 0).map(|entry| Line::from_entry(*entry))
    }
}

/// Moves the last entry of a slice to the front. The function exchanges entries one by one, which is faster than
/// `memmove` for a few entries.
#[inline(always)]
fn move_to_front(entries: &mut [u64]) {
    let mut carried = entries[entries.len() - 1];
    entries.iter_mut().for_each(|entry| std::mem::swap(entry, &mut carried));
}

#[inline(always)]
fn position(set: &[u64], wanted: u64) -> Option<usize> {
    set.iter().position(|entry| entry | (FLAGS & !PRESENT) == wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_are_in_runs_that_begin_as_if_drawn() {
        let page = 0x7f00_0000u64;
        assert!((0..63).all(|n| frame_of(page + n + 1) == frame_of(page + n) + 1), "a run");
        // 16 x 512 runs are spread by their first frames over 512 groups. For random frames, the number of runs in a
        // group has a mean and a variance of 16, and the standard error of that variance is 1.
        let mut counts = [0f64; 512];
        (0..16 * 512).for_each(|run| counts[(frame_of(page + run * 64) & 511) as usize] += 1.0);
        let variance = counts.iter().map(|count| (count - 16.0).powi(2)).sum::<f64>() / 512.0;
        assert!((12.0..20.0).contains(&variance), "{variance}");
    }

    #[test]
    fn a_remainder_is_that_of_a_division() {
        for sets in [3, 5, 11 * 2048, 28 * 2048 * 11 / 16, 0xffff_fffb, u64::MAX] {
            let multiplier = u128::MAX / u128::from(sets) + 1;
            for line in [0, 1, sets - 1, sets, sets.wrapping_add(1), 0xff_ffff_ffff_ffff, u64::MAX] {
                assert_eq!(remainder(line, sets, multiplier), line % sets, "{line} % {sets}");
            }
        }
    }

    proptest! {
        /// An aligned run fills each set of a shared cache exactly once, wherever the run lies.
        #[test]
        fn a_run_of_lines_fills_a_shared_cache(run in 0u64..1 << 40, bits in 0u32..8, factor in 1u64..4) {
            let sets = factor << bits;
            let mut cache = Cache::shared(sets, 1);
            prop_assert!((run * sets..(run + 1) * sets).all(|line| cache.insert(line, 0).is_none()));
        }

        /// Compares a cache with one list of lines per set.
        #[test]
        fn a_cache_is_a_list_for_each_set(
            bits in 0u32..4,
            ways in 1u32..6,
            steps in prop::collection::vec((0u64..64, 0u8..4), 1..400),
        ) {
            let mut cache = Cache::new(1 << bits, ways);
            let mut sets = vec![Vec::<u64>::new(); 1 << bits];
            for (line, step) in steps {
                let set = &mut sets[(line & ((1 << bits) - 1)) as usize];
                let place = set.iter().position(|other| *other == line);
                match (step, place) {
                    (0, _) => {
                        prop_assert_eq!(cache.remove(line).is_some(), place.is_some());
                        set.retain(|other| *other != line);
                    }
                    (_, Some(place)) => {
                        prop_assert!(cache.touch(line).is_some());
                        set[..=place].rotate_right(1);
                    }
                    (_, None) => {
                        prop_assert!(cache.touch(line).is_none());
                        set.insert(0, line);
                        let oldest = if set.len() > ways as usize { set.pop() } else { None };
                        prop_assert_eq!(cache.insert(line, MODIFIED).map(|line| line.number), oldest);
                    }
                }
            }
            prop_assert_eq!(cache.lines().count(), sets.iter().map(Vec::len).sum::<usize>());
        }
    }
}
