//! The DRAM cache of a host (DRack §5.2). Each part has its own line size, and caches the buffers of one class.
//!
//! Each set evicts its least recently used line. Sets are allocated when they are first used, because most of a large
//! cache is never used. A load of a line that is still being fetched counts as a hit, and waits for the line.

use super::memory::LINE;
use unrack_rack::PoolCache as Spec;
use unrack_units::Time;

#[derive(Clone)]
pub(crate) struct Cache {
    parts: Vec<CachePart>,
    ways: usize,
    /// Number of loads of 64 B.
    pub loads: u64,
    /// Number of loads that found their line in the cache or being fetched.
    pub hits: u64,
    uses: u64,
}

#[derive(Clone)]
struct CachePart {
    line: u64,
    sets: u64,
    /// Pages of [`PAGE`] sets each; `None` until a set of the page is used.
    pages: Vec<Option<Box<[Entry]>>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry {
    /// Number of the line in the pool, or [`NONE`].
    number: u64,
    ready: Time,
    used: u64,
}

const NONE: u64 = u64::MAX;
const EMPTY: Entry = Entry { number: NONE, ready: Time::ZERO, used: 0 };
/// Number of sets that are allocated at once.
const PAGE: u64 = 64;

impl Cache {
    /// Creates an empty cache.
    pub(super) fn new(spec: &Spec) -> Cache {
        // The paper defines the parts: "the capacity of each part is different, but the total number of lines is the
        // same".
        let (ways, line_bytes) =
            (u64::from(spec.ways), spec.lines.iter().map(|line| line.get()).sum::<u64>());
        let sets = (spec.size.get() / line_bytes / ways).max(1);
        let pages = sets.div_ceil(PAGE) as usize;
        let part = |line: u64| CachePart { line, sets, pages: vec![None; pages] };
        let parts = spec.lines.iter().map(|line| part(line.get())).collect();
        Cache { parts, ways: spec.ways as usize, loads: 0, hits: 0, uses: 0 }
    }

    /// Returns the line size of this part in bytes.
    pub(super) fn line(&self, part: u8) -> u64 {
        self.parts[part as usize].line
    }

    /// Returns the time at which the line with this address is in the cache; `None` if it is neither there nor being
    /// fetched.
    pub(super) fn find(&mut self, part: u8, address: u64) -> Option<Time> {
        self.uses += 1;
        let (ways, used) = (self.ways, self.uses);
        let part = &mut self.parts[part as usize];
        let number = address / part.line;
        let entry = part.set(number, ways).iter_mut().find(|entry| entry.number == number)?;
        entry.used = used;
        Some(entry.ready)
    }

    /// Adds the line with this address, which arrives at `ready`. Evicts the least recently used line of its set.
    pub(super) fn fill(&mut self, part: u8, address: u64, ready: Time) {
        self.uses += 1;
        let (ways, used) = (self.ways, self.uses);
        let part = &mut self.parts[part as usize];
        let number = address / part.line;
        let victim = part.set(number, ways).iter_mut().min_by_key(|entry| entry.used);
        *victim.expect("a set has a line at least") = Entry { number, ready, used };
    }

    /// Removes the lines of a buffer that is no longer used.
    pub(super) fn release(&mut self, part: u8, buffer: u64, bytes: u64) {
        let ways = self.ways;
        let part = &mut self.parts[part as usize];
        for number in buffer / part.line..(buffer + bytes).div_ceil(part.line) {
            let found = part.set(number, ways).iter_mut().find(|entry| entry.number == number);
            found.into_iter().for_each(|entry| *entry = EMPTY);
        }
    }

    /// Counts the loads of `bytes` of one line. If the line was found, all of them are hits; otherwise, all but the
    /// first.
    pub(super) fn count(&mut self, bytes: u64, found: bool) {
        let loads = bytes.div_ceil(LINE).max(1);
        self.loads += loads;
        self.hits += loads - u64::from(!found);
    }
}

impl CachePart {
    fn set(&mut self, number: u64, ways: usize) -> &mut [Entry] {
        let set = number % self.sets;
        let page = &mut self.pages[(set / PAGE) as usize];
        let entries = page.get_or_insert_with(|| vec![EMPTY; PAGE as usize * ways].into());
        let first = (set % PAGE) as usize * ways;
        &mut entries[first..first + ways]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use unrack_units::Bytes;

    fn cache(size: u64, ways: u32, lines: &[u64]) -> Cache {
        let lines = lines.iter().map(|line| Bytes::new(*line)).collect();
        Cache::new(&Spec { size: Bytes::new(size), ways, lines, ..Spec::default() })
    }

    #[test]
    fn parts_have_as_many_lines() {
        // Each part has 8 sets of 2 ways.
        let mut cache = cache(16 * (128 + 4096), 2, &[128, 4096]);
        for (part, line) in [(0, 128), (1, 4096)] {
            for number in 0..16 {
                cache.fill(part, number * line, Time::ZERO);
            }
            assert!((0..16).all(|number| cache.find(part, number * line + line - 1).is_some()));
            cache.fill(part, 16 * line, Time::ZERO);
            assert_eq!(cache.find(part, 0), None, "the oldest of its set");
        }
    }

    #[test]
    fn what_is_released_is_gone() {
        let mut cache = cache(1 << 20, 4, &[128]);
        (0..32).for_each(|n| cache.fill(0, 4096 + n * 128, Time::from_ns(n)));
        assert_eq!(cache.find(0, 4096 + 5 * 128 + 60), Some(Time::from_ns(5)));
        cache.release(0, 4096, 2048);
        assert!((0..16).all(|n| cache.find(0, 4096 + n * 128).is_none()));
        assert!((16..32).all(|n| cache.find(0, 4096 + n * 128).is_some()));
    }

    proptest! {
        /// Compares a set with a list of the lines that were used last.
        #[test]
        fn a_set_keeps_what_was_used_last(steps in prop::collection::vec((0u64..24, any::<bool>()), 1..200)) {
            let mut cache = cache(4 * 3 * 64, 3, &[64]);
            let mut sets = vec![Vec::<u64>::new(); 4];
            for (number, released) in steps {
                let set = &mut sets[(number % 4) as usize];
                if released {
                    set.retain(|kept| *kept != number);
                    cache.release(0, number * 64, 64);
                    continue;
                }
                let known = set.contains(&number);
                prop_assert_eq!(cache.find(0, number * 64).is_some(), known);
                if !known {
                    cache.fill(0, number * 64, Time::ZERO);
                }
                set.retain(|kept| *kept != number);
                set.push(number);
                if set.len() > 3 {
                    set.remove(0);
                }
            }
        }
    }
}
