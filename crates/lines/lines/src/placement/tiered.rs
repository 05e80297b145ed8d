//! Tiered memory: model of a kernel that moves pages between local and remote memory according to their use, as TPP does.
//!
//! Maruf et al., "TPP: Transparent Page Placement for CXL-Enabled Tiered-Memory", ASPLOS 2023, section 5:
//! - The kernel allocates new pages in local memory. When less than a given share of local memory is free (*demotion
//!   watermark*, `demote_scale_factor` of 2 %), the kernel demotes pages from the end of the inactive list to far
//!   memory until that share is free again.
//! - The kernel periodically scans remote pages and unmaps them. The next access to an unmapped page is a *hint fault*.
//!   The kernel does not scan local pages.
//! - A hint fault promotes its page to local memory if the page is on the active list. If the page is on the inactive
//!   list, the hint fault moves it to the active list instead. Therefore a page is promoted at its second hint fault.
//!
//! The lists follow Linux (`mm/vmscan.c`). A new page is put on the inactive list. A page at the end of the inactive
//! list moves to the active list if it was used since it was put on the inactive list, and is demoted otherwise. While
//! the active list is longer than the inactive list, pages at its end move to the inactive list.
//!
//! Departures:
//! - In the model, a page counts as used when one of its lines is requested from memory, whereas a real kernel also
//!   observes accesses that the caches serve.
//! - Demotion takes no time.
//! - The model does not distinguish file-backed memory from anonymous memory.

use std::collections::{BTreeSet, HashMap, VecDeque};

/// Reciprocal of the share of local memory that demotion keeps free (2 %).
const FREE: u64 = 50;
/// Maximum number of remote pages that the kernel samples per period. Together, these pages have 256 MiB, which is Linux's
/// `numa_balancing_scan_size`.
const SAMPLED: usize = 1 << 16;

/// Maximum number of stale entries in a list of pages, in addition to one stale entry for each page of the list. If a
/// list contains more, its stale entries are removed. An entry is stale if its page has left the list.
const STALE: u64 = 64;

/// Page that the program has used.
#[derive(Clone, Copy, Debug)]
struct Page {
    is_near: bool,
    is_active: bool,
    /// Whether the page was used since it was put on its list.
    is_used: bool,
    /// Whether the kernel has unmapped the page in order to sample its use, so that the next use causes a hint fault.
    is_sampled: bool,
    /// Number of the page's valid list entry. Entries of this page with smaller numbers are stale.
    entry: u64,
}

/// List of local pages, each with the number of its list entry. The page that was put on the list last is at the front.
type TieredList = VecDeque<(u64, u64)>;

/// State of tiered memory.
#[derive(Clone, Debug)]
pub(super) struct Tiered {
    pages: HashMap<u64, Page>,
    far: BTreeSet<u64>,
    active: TieredList,
    inactive: TieredList,
    /// Number of local pages on the inactive list (index 0) and on the active list (index 1).
    lengths: [u64; 2],
    capacity: u64,
    entries: u64,
    /// Number of instructions between two samplings (`period`), and number of executed instructions at which the next
    /// sampling is due (`next_sampling`).
    period: u64,
    next_sampling: u64,
    /// Number of the page at which the next sampling begins.
    cursor: u64,
    moves: Moves,
}

/// Counts of page movements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Moves {
    pub(super) promoted: u64,
    pub(super) demoted: u64,
    pub(super) hint_faults: u64,
}

impl Tiered {
    /// Creates tiered memory without pages. Local memory has room for `capacity` pages.
    pub(super) fn new(capacity: u64, period: u64) -> Tiered {
        Tiered {
            pages: HashMap::new(),
            far: BTreeSet::new(),
            active: TieredList::new(),
            inactive: TieredList::new(),
            lengths: [0; 2],
            capacity,
            entries: 0,
            period,
            next_sampling: period,
            cursor: 0,
            moves: Moves::default(),
        }
    }

    /// Returns the counts of page movements.
    pub(super) fn moves(&self) -> Moves {
        self.moves
    }

    /// Resets the counts of page movements and the number of executed instructions to 0.
    pub(super) fn forget_counts(&mut self) {
        (self.moves, self.next_sampling) = (Moves::default(), self.period);
    }

    /// Handles the use of a page. If the page is unmapped for sampling, the use causes a hint fault, which may promote
    /// the page. Returns whether the page was in local memory before.
    pub(super) fn use_page(&mut self, number: u64) -> bool {
        let Some(page) = self.pages.get_mut(&number) else { return self.allocate(number) };
        page.is_used = true;
        let is_near = page.is_near;
        if page.is_sampled {
            page.is_sampled = false;
            self.moves.hint_faults += 1;
            if page.is_active {
                self.promote(number);
            } else {
                page.is_active = true;
            }
        }
        is_near
    }

    /// Removes a page that the program has released.
    pub(super) fn forget(&mut self, number: u64) {
        if let Some(page) = self.pages.remove(&number) {
            self.far.remove(&number);
            self.lengths[usize::from(page.is_active)] -= u64::from(page.is_near);
        }
    }

    /// Advances time to `instructions` executed instructions, and samples remote pages if a period has ended.
    pub(super) fn advance(&mut self, instructions: u64) {
        if instructions < self.next_sampling {
            return;
        }
        self.next_sampling = instructions + self.period;
        let count = SAMPLED.min(self.far.len());
        let sampled: Vec<u64> =
            self.far.range(self.cursor..).chain(self.far.range(..self.cursor)).take(count).copied().collect();
        self.cursor = sampled.last().map_or(0, |last| last + 1);
        for number in sampled {
            self.page(number).is_sampled = true;
        }
    }

    fn page(&mut self, number: u64) -> &mut Page {
        self.pages.get_mut(&number).expect("a page on a list is known")
    }

    fn free(&self) -> u64 {
        self.capacity - self.lengths[0] - self.lengths[1]
    }

    /// Allocates a new page. Returns whether it is in local memory.
    fn allocate(&mut self, number: u64) -> bool {
        let is_near = self.free() > 0;
        let page = Page { is_near, is_active: false, is_used: false, is_sampled: false, entry: 0 };
        self.pages.insert(number, page);
        if is_near {
            self.enlist(number, false);
            self.demote();
        } else {
            self.far.insert(number);
        }
        is_near
    }

    /// Puts a near page at the front of the active or the inactive list. The page must not be on a list.
    fn enlist(&mut self, number: u64, is_active: bool) {
        self.entries += 1;
        let entry = self.entries;
        let page = self.page(number);
        (page.is_active, page.is_used, page.entry) = (is_active, false, entry);
        self.lengths[usize::from(is_active)] += 1;
        let list = if is_active { &mut self.active } else { &mut self.inactive };
        list.push_front((number, entry));
        if list.len() as u64 > 2 * self.lengths[usize::from(is_active)] + STALE {
            let pages = &self.pages;
            list.retain(|(number, entry)| pages.get(number).is_some_and(|page| page.entry == *entry));
        }
    }

    /// Removes the page at the end of the active or the inactive list and returns it. Returns `None` if the list is
    /// empty.
    fn delist(&mut self, is_active: bool) -> Option<u64> {
        loop {
            let list = if is_active { &mut self.active } else { &mut self.inactive };
            let (number, entry) = list.pop_back()?;
            let is_there = |page: &Page| page.is_near && page.entry == entry;
            if self.pages.get(&number).is_some_and(is_there) {
                self.lengths[usize::from(is_active)] -= 1;
                return Some(number);
            }
        }
    }

    fn promote(&mut self, number: u64) {
        if self.free() == 0 {
            return;
        }
        self.moves.promoted += 1;
        self.far.remove(&number);
        self.page(number).is_near = true;
        self.enlist(number, true);
        self.demote();
    }

    /// Demotes pages to remote memory until the required share of local memory is free.
    fn demote(&mut self) {
        let wanted = self.capacity.div_ceil(FREE);
        while self.free() < wanted {
            self.age();
            let Some(number) = self.delist(false) else { return };
            if self.page(number).is_used {
                self.enlist(number, true);
                continue;
            }
            self.moves.demoted += 1;
            let page = self.page(number);
            (page.is_near, page.is_active) = (false, false);
            self.far.insert(number);
        }
    }

    /// Moves pages from the end of the active list to the inactive list while the active list is longer than the
    /// inactive list.
    fn age(&mut self) {
        while self.lengths[1] > self.lengths[0] {
            let Some(number) = self.delist(true) else { return };
            self.enlist(number, false);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PERIOD: u64 = 1000;

    fn used(tiered: &mut Tiered, pages: impl Iterator<Item = u64>) -> Vec<bool> {
        pages.map(|page| tiered.use_page(page)).collect()
    }

    #[test]
    fn new_pages_are_near_and_old_ones_make_way_above_the_watermark() {
        for capacity in [10, 100, 1000] {
            let mut tiered = Tiered::new(capacity, PERIOD);
            let kept = capacity - capacity.div_ceil(FREE);
            assert!(used(&mut tiered, 0..2 * capacity).iter().all(|is_near| *is_near));
            assert_eq!(tiered.moves().demoted, 2 * capacity - kept);
            // Pages that were not used again were demoted in the order in which they were allocated.
            let first_near = 2 * capacity - kept;
            let near: Vec<bool> = (0..2 * capacity).map(|page| tiered.pages[&page].is_near).collect();
            assert!(near.iter().zip(0..).all(|(is_near, page)| *is_near == (page >= first_near)));
        }
    }

    #[test]
    fn a_page_that_is_used_again_stays() {
        let mut tiered = Tiered::new(100, PERIOD);
        for page in 0..1000 {
            tiered.use_page(page + 10);
            assert!(tiered.use_page(0), "after {page} others");
        }
    }

    #[test]
    fn a_page_comes_near_at_its_second_hint_fault() {
        let mut tiered = Tiered::new(10, PERIOD);
        used(&mut tiered, 0..30);
        assert!(!tiered.use_page(0) && !tiered.use_page(0), "unsampled uses move nothing");
        tiered.advance(PERIOD);
        assert!(!tiered.use_page(0) && !tiered.use_page(0));
        assert_eq!(tiered.moves().promoted, 0);
        tiered.advance(PERIOD + 10);
        assert!(!tiered.use_page(0), "the period is not over");
        tiered.advance(2 * PERIOD);
        assert!(!tiered.use_page(0) && tiered.use_page(0));
        let Moves { promoted, hint_faults, .. } = tiered.moves();
        assert_eq!((promoted, hint_faults), (1, 2));
    }

    #[test]
    fn a_hot_set_that_moves_is_followed() {
        let mut tiered = Tiered::new(100, PERIOD);
        used(&mut tiered, 0..400);
        let mut near = 0;
        for round in 1..=10 {
            near = used(&mut tiered, 40..80).iter().filter(|is_near| **is_near).count();
            tiered.advance(round * PERIOD);
        }
        assert_eq!(near, 40);
        for round in 11..=20 {
            near = used(&mut tiered, 240..280).iter().filter(|is_near| **is_near).count();
            tiered.advance(round * PERIOD);
        }
        assert_eq!(near, 40);
    }

    #[test]
    fn sampling_goes_around_the_far_pages() {
        let mut tiered = Tiered::new(1, PERIOD);
        used(&mut tiered, 0..3 * SAMPLED as u64);
        let faults = |tiered: &mut Tiered, round: u64| {
            tiered.advance(round * PERIOD);
            let before = tiered.moves().hint_faults;
            used(tiered, 0..3 * SAMPLED as u64);
            tiered.moves().hint_faults - before
        };
        assert_eq!([1, 2, 3].map(|round| faults(&mut tiered, round)), [SAMPLED as u64; 3]);
        assert!(tiered.pages.values().filter(|page| page.is_active).count() + 2 >= 3 * SAMPLED);
    }

    proptest! {
        /// Local memory never holds more pages than its capacity minus the watermark, and the lists hold exactly the
        /// local pages.
        #[test]
        fn pages_are_in_one_place(
            capacity in 0u64..40,
            steps in prop::collection::vec((0u64..60, 0u8..20), 0..400),
        ) {
            let mut tiered = Tiered::new(capacity, PERIOD);
            for (time, (page, step)) in (0u64..).zip(steps) {
                match step {
                    0 => tiered.forget(page),
                    1 => tiered.advance(time * PERIOD),
                    _ => _ = tiered.use_page(page),
                }
                let near = tiered.pages.values().filter(|page| page.is_near).count() as u64;
                prop_assert_eq!(near, tiered.lengths[0] + tiered.lengths[1]);
                prop_assert!(tiered.active.len() as u64 <= 2 * tiered.lengths[1] + STALE + 60);
                prop_assert!(near <= capacity - capacity.div_ceil(FREE).min(capacity));
                prop_assert_eq!(tiered.far.len() as u64 + near, tiered.pages.len() as u64);
                prop_assert!(tiered.far.iter().all(|page| !tiered.pages[page].is_near));
            }
        }
    }
}
