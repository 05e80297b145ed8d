//! TLBs of a core, and the loads of page-table entries during a page walk.
//!
//! Departure: the paging-structure caches, which hold upper levels of the page table (Intel, Software Developer's
//! Manual, volume 3, 4.10.3), have the same size for every processor, because vendors do not publish their sizes.

use crate::cache::Cache;
use crate::full::LruSet;
use crate::processor::{Processor, TlbSize};

/// Binary logarithm of the bytes of a small page (4 KiB) and of a huge page (2 MiB).
const SMALL: u32 = 12;
const HUGE: u32 = 21;
/// Number of address bits that one level of the page table translates.
const LEVEL: u32 = 9;
/// Bit that distinguishes the number of a huge page from that of a small page.
const HUGE_MARK: u64 = 1 << 50;
/// Address of the page tables in the model, which is above all addresses of a program. The tables of successive levels
/// are 2^[`TABLE_LEVEL`] bytes apart.
pub(crate) const TABLES: u64 = 1 << 60;
const TABLE_LEVEL: u32 = 56;
/// Number of levels of a page table.
const LEVELS: u32 = 4;

/// TLBs of a core.
#[derive(Clone, Debug)]
pub(crate) struct Tlb {
    small: NearPages,
    huge: Option<NearPages>,
    second: NearPages,
    /// Paging-structure caches. They hold entries of the second, third and fourth level of the page table, counted from
    /// the leaves.
    upper: [Cache; 3],
    /// Number of the last 4 KiB page that was translated. Because most accesses are to the same page as the previous
    /// access, the model checks this page first.
    last: u64,
}

/// TLB of one level, in true LRU order.
#[derive(Clone, Debug)]
enum NearPages {
    Sets(Cache),
    Full(LruSet),
}

impl NearPages {
    fn new(size: TlbSize) -> NearPages {
        if size.sets() == 1 {
            NearPages::Full(LruSet::new(size.ways))
        } else {
            NearPages::Sets(Cache::new(size.sets(), size.ways))
        }
    }

    /// Makes a page the most recently used page of its set, and returns whether the TLB already contained it. A missing
    /// page is inserted.
    #[inline]
    fn touch(&mut self, page: u64) -> bool {
        match self {
            NearPages::Full(full) => full.touch(page),
            NearPages::Sets(cache) => {
                let is_there = cache.touch(page).is_some();
                if !is_there {
                    cache.insert(page, 0);
                }
                is_there
            }
        }
    }
}

/// Result of a translation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TranslationResult {
    /// The first-level TLB contained the page.
    First,
    /// The second-level TLB contained the page.
    Second,
    /// No TLB contained the page. A page walk loads the entries of the page table at these addresses. The [`u8`] is the
    /// number of entries.
    Walk([u64; LEVELS as usize], u8),
}

impl Tlb {
    pub(crate) fn new(processor: &Processor) -> Tlb {
        Tlb {
            small: NearPages::new(processor.l1_tlb),
            huge: processor.l1_tlb_huge.map(NearPages::new),
            second: NearPages::new(processor.l2_tlb),
            upper: [Cache::new(8, 4), Cache::new(1, 4), Cache::new(1, 2)],
            last: u64::MAX,
        }
    }

    /// Creates a TLB for tests that contains every page that tests use, so that no access causes a page walk.
    #[cfg(test)]
    pub(crate) fn never_walking() -> Tlb {
        let size = TlbSize { entries: 1 << 14, ways: 1 };
        let mut tlb = Tlb::new(&Processor { l2_tlb: size, ..Processor::by_name("zen3").unwrap() });
        for page in 0..1 << 14 {
            tlb.translate(page << SMALL, false);
        }
        tlb
    }

    /// Returns whether the last translated address is in the same 4 KiB page as `address`.
    #[inline(always)]
    pub(crate) fn is_last(&self, address: u64) -> bool {
        address >> SMALL == self.last
    }

    /// Discards the stored last page, because its page size may have changed.
    pub(crate) fn forget_last(&mut self) {
        self.last = u64::MAX;
    }

    /// Translates an address and updates the TLBs. `is_huge` states whether the address is in a 2 MiB page.
    pub(crate) fn translate(&mut self, address: u64, is_huge: bool) -> TranslationResult {
        self.last = address >> SMALL;
        let page = if is_huge { address >> HUGE | HUGE_MARK } else { address >> SMALL };
        let first = if is_huge { self.huge.as_mut().unwrap_or(&mut self.small) } else { &mut self.small };
        if first.touch(page) {
            TranslationResult::First
        } else if self.second.touch(page) {
            TranslationResult::Second
        } else {
            self.walk(address, is_huge)
        }
    }

    /// Returns the page-table entries that a page walk loads. These are the entries below the lowest level that a
    /// paging-structure cache holds.
    fn walk(&mut self, address: u64, is_huge: bool) -> TranslationResult {
        let mut entries = [0; LEVELS as usize];
        let mut count = 0;
        for level in u32::from(is_huge)..LEVELS {
            let number = address >> (SMALL + level * LEVEL);
            // TLBs hold leaf entries, and paging-structure caches hold only entries of upper levels.
            if level > u32::from(is_huge) {
                let known = &mut self.upper[level as usize - 1];
                if known.touch(number).is_some() {
                    break;
                }
                known.insert(number, 0);
            }
            entries[count as usize] = TABLES | u64::from(level) << TABLE_LEVEL | number << 3;
            count += 1;
        }
        TranslationResult::Walk(entries, count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn walked(translation: TranslationResult) -> Option<u8> {
        match translation {
            TranslationResult::Walk(_, count) => Some(count),
            _ => None,
        }
    }

    #[test]
    fn a_walk_loads_what_is_not_known_of_the_page_table() {
        let mut tlb = Tlb::new(&Processor::by_name("zen3").unwrap());
        assert_eq!(walked(tlb.translate(0x1000, false)), Some(4));
        assert_eq!(walked(tlb.translate(0x2000, false)), Some(1), "the same table");
        assert_eq!(walked(tlb.translate(0x20_0000, false)), Some(2), "the next table");
        assert_eq!(tlb.translate(0x1000, false), TranslationResult::First);
        assert!(tlb.is_last(0x1fff) && !tlb.is_last(0x2000));
        assert_eq!(walked(tlb.translate(0x40_0000, true)), Some(1), "the leaf is in the second level");
    }

    #[test]
    fn pages_beyond_the_first_level_are_in_the_second() {
        let mut tlb = Tlb::new(&Processor::by_name("skylake-sp").unwrap());
        let pages = |count: u64| (0..count).map(|page| page << SMALL);
        for address in pages(1536) {
            tlb.translate(address, false);
        }
        assert!(pages(1536).all(|address| tlb.translate(address, false) == TranslationResult::Second));
        for address in pages(3072) {
            tlb.translate(address, false);
        }
        let walks = pages(3072).filter(|&address| walked(tlb.translate(address, false)).is_some()).count();
        assert_eq!(walks, 3072, "a cycle of more pages than entries misses always");
    }
}
