//! Residency: which pages of a process are local, which is evicted next, which have changed, and which are in flight.
//!
//! ```text
//!             first touch
//!   (nothing) ----------> active --reclaim--> inactive --reclaim--> remote
//!                           ^                    |                     |
//!                           +----- soft fault ---+                     |
//!                           +--------------- fetch: waits for the link-+
//! ```
//! *Active* pages are mapped in the program. The pager learns of uses from faults only. Therefore it first takes the page that has been
//! mapped for longest out of the program, and puts it on the *inactive* list; the page's contents move to its slot of the arena. A touch of
//! an inactive page brings it back at once. Without a touch until it is the oldest on the list, the page becomes *remote*, after a
//! write-back if it has changed.
//!
//! Both pagers, and only they, use this bookkeeping: it contains no lock, no thread and no handling of faults. Because the processes of a
//! run share its local memory, the bookkeeping also includes the counts of the other processes.

use crate::control::{ControlHead, ProcessSlot, count};
use crate::memory::Memory;
use crate::pagemap::PageRegion;
use crate::peak::Peak;
use crate::sys::{PAGE, now_ns};
use crate::table::{PageList, PageRecord, PageTable, RecordId, State};
use crate::transfers::TransferAccounts;
use crate::{gate, reserved_region};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;

/// Number of pages taken out of the program at once. Neighbours move together, each at a tenth of the cost.
pub(crate) const BATCH: usize = 32;
/// Number of pages below the limit down to which reclaim goes once the run is over the limit.
const SLACK: u64 = 16;
/// Maximum number of pages reclaimed at once. It is limited because threads wait meanwhile.
const MOST_AT_ONCE: u64 = 256;
/// Inverse of the share of local pages that should be on the inactive list: one in five.
const INACTIVE_PART: usize = 5;
/// Inverse of the share of local pages that may have come since the last scan without causing a new one: one in twenty.
const HIDDEN_PART: u64 = 20;
/// Time in ns after a fork during which shared pages are not copied, because most children end, or stop sharing memory, within this time.
const PATIENCE_NS: u64 = 20_000_000;
/// Maximum number of pages to unshare at once.
const UNSHARE_PAGES: usize = 512;
/// Minimum time in ns between two ticks.
pub(crate) const SHORTEST_TICK_NS: u64 = 1_000_000;
/// Maximum time in ns between two ticks.
pub(crate) const LONGEST_TICK_NS: u64 = 50_000_000;
/// Minimum time in ns in which a program can touch a new page.
const FASTEST_TOUCH_NS: u64 = 400;

/// Bookkeeping of the pages of one process.
pub(crate) struct Residency {
    pub(crate) table: PageTable,
    control: &'static ControlHead,
    slot: &'static ProcessSlot,
    /// Number of local pages of this process.
    local: u64,
    /// Number of local pages of the run's other processes.
    others: u64,
    /// Number of local pages that were not tracked after the last scan.
    hidden: u64,
    /// True if no other process has an active page that is older than this process's oldest.
    is_oldest: bool,
    /// Time until which the pager does not try to take pages out of the program (monotonic ns).
    rest_until_ns: u64,
    peak: Peak,
}

/// Decision about the page that has been active for longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PageFate {
    Goes,
    /// The page cannot be taken out of the program now, and counts as newly active. Therefore it is not tried again at once, and does not
    /// make this process the one with the oldest page, which has to make room for the whole run.
    Stays,
    /// The caller stops tracking the page.
    Untracked,
}

/// Pages to be taken out of the program together, lowest address first.
pub(crate) struct EvictionBatch {
    ids: [RecordId; BATCH],
    len: usize,
}

/// A page that is about to become remote, and whether its remote copy is outdated.
pub(crate) struct Leaving {
    pub(crate) id: RecordId,
    pub(crate) changed: bool,
    hash: u64,
}

impl Deref for EvictionBatch {
    type Target = [RecordId];
    fn deref(&self) -> &[RecordId] {
        &self.ids[..self.len]
    }
}

impl Residency {
    /// Makes the bookkeeping of a process without pages. Its counts are shown to other processes in `slot`.
    pub(crate) fn new(control: &'static ControlHead, slot: &'static ProcessSlot) -> Residency {
        Residency {
            table: PageTable::new(),
            control,
            slot,
            local: 0,
            others: 0,
            hidden: 0,
            is_oldest: true,
            rest_until_ns: 0,
            peak: Peak::default(),
        }
    }

    /// Starts tracking the page at `address`.
    pub(crate) fn track(&mut self, address: usize) -> RecordId {
        let id = self.table.insert(address);
        if reserved_region::open_arena((id as usize + 1) * PAGE).is_err() {
            gate::die(self.control, "no address space left for the arena of taken pages");
        }
        id
    }

    /// Returns how many successive pages from `address` on, up to `most`, are not tracked. The first one must not be tracked.
    pub(crate) fn untracked(&self, address: usize, most: usize) -> usize {
        1 + (1..most).take_while(|n| self.table.find(address + n * PAGE).is_none()).count()
    }

    /// Tracks pages of registered memory that the program received for a first touch.
    pub(crate) fn track_new(&mut self, address: usize, pages: usize, now_ns: u64) {
        for n in 0..pages {
            let id = self.track(address + n * PAGE);
            self.table.get_mut(id).sure = true;
            self.activate(id, true, now_ns);
        }
        self.local += pages as u64;
        count(&self.control.counts.first_touches, pages as u64);
    }

    /// Tracks the pages of `[start, end)` that are present, not tracked yet, and accepted by `is_wanted`. Returns whether there were any.
    pub(crate) fn track_present(
        &mut self,
        memory: &Memory,
        start: usize,
        end: usize,
        is_wanted: impl Fn(usize) -> bool,
    ) -> bool {
        let mut runs = [PageRegion::default(); 64];
        let mut at = start;
        let mut found = false;
        while at < end {
            let Ok((len, stopped)) = memory.present(at, end, &mut runs) else { return found };
            let pages =
                runs[..len].iter().flat_map(|run| (run.start as usize..run.end as usize).step_by(PAGE));
            for page in pages {
                if self.table.find(page).is_none() && is_wanted(page) {
                    let id = self.track(page);
                    self.activate(id, true, now_ns());
                    found = true;
                }
            }
            at = stopped.max(at + PAGE);
        }
        found
    }

    /// Tracks the page of an old record by a new record at the same address, in the same state and with the same dirty flag.
    pub(crate) fn track_again(&mut self, old: &PageRecord) -> RecordId {
        let id = self.track(old.address);
        let fresh = self.table.get_mut(id);
        (fresh.sure, fresh.dirty, fresh.hash) = (true, old.dirty, old.hash);
        self.table.set_state(id, old.state);
        id
    }

    /// Notes that a page is in the program, either newly or again.
    pub(crate) fn activate(&mut self, id: RecordId, write: bool, now_ns: u64) {
        let was_away = matches!(self.table.get(id).state, State::Remote | State::Fetching);
        self.local += was_away as u64;
        self.table.set_state(id, State::Active);
        let record = self.table.get_mut(id);
        record.since_ns = now_ns;
        record.dirty |= write;
    }

    /// Keeps an active page in the program because it cannot be taken out now; see [`PageFate::Stays`].
    pub(crate) fn keep(&mut self, id: RecordId) {
        self.activate(id, false, now_ns());
    }

    /// Notes that a page recorded as remote never left: it is inactive again.
    pub(crate) fn stayed(&mut self, id: RecordId) {
        self.table.set_state(id, State::Inactive);
        self.local += 1;
    }

    /// Notes that the program has given up the contents of a page, wherever they are.
    pub(crate) fn lost(&mut self, id: RecordId) {
        if matches!(self.table.get(id).state, State::Active | State::Stuck | State::Inactive) {
            self.local = self.local.saturating_sub(1);
        }
    }

    /// Returns the number of pages to evict now, so that the run gets back under its limit. The process with the oldest page makes room for
    /// the whole run, so that an idle process does not withhold memory from a busy one. Because that process may need a moment to notice,
    /// the other processes ignore a small excess.
    /// `coming` pages that are about to come count as local.
    pub(crate) fn excess(&self, coming: u64) -> usize {
        let limit = self.limit();
        let total = self.local + self.others + coming;
        if total <= limit || !self.is_oldest && total < limit + limit / 8 {
            return 0;
        }
        (total - limit + SLACK).min(MOST_AT_ONCE) as usize
    }

    /// Returns whether the pager must not try to take pages out of the program at this time.
    pub(crate) fn rests(&self, now_ns: u64) -> bool {
        now_ns < self.rest_until_ns
    }

    /// Returns whether the inactive list is shorter than it should be, so that more pages have to be taken out of the program.
    pub(crate) fn lacks_inactive(&self) -> bool {
        self.table.len(PageList::Inactive) < (self.local as usize / INACTIVE_PART).max(BATCH)
    }

    /// Returns whether many local pages have come since the last scan that are not tracked. Without a new scan, tracked pages would be
    /// evicted in their place.
    pub(crate) fn lacks_scan(&self) -> bool {
        self.untracked_pages() > self.hidden + (self.local / HIDDEN_PART).max(BATCH as u64)
    }

    /// Returns whether any untracked local page has come since the last scan. Without a new scan, it would never be evicted.
    pub(crate) fn has_unseen(&self) -> bool {
        self.untracked_pages() > self.hidden
    }

    /// Notes that all pages that a scan can find are tracked now.
    pub(crate) fn scanned(&mut self) {
        self.hidden = self.untracked_pages();
    }

    /// Returns the number of local pages that are not tracked, as of the last [`Residency::sync`].
    fn untracked_pages(&self) -> u64 {
        let tracked =
            [PageList::Active, PageList::Inactive, PageList::Stuck].map(|list| self.table.len(list));
        self.local.saturating_sub(tracked.iter().sum::<usize>() as u64)
    }

    /// Returns the page that becomes remote next: the oldest inactive one.
    pub(crate) fn next_victim(&self) -> Option<RecordId> {
        self.table.oldest(PageList::Inactive)
    }

    /// Chooses pages to take out of the program: the oldest active ones for which `fate` agrees. Looks at no more than `most` pages.
    pub(crate) fn choose(
        &mut self,
        most: usize,
        mut fate: impl FnMut(RecordId, &PageRecord) -> PageFate,
    ) -> EvictionBatch {
        let mut batch = EvictionBatch { ids: [0; BATCH], len: 0 };
        let mut next = self.table.oldest(PageList::Active);
        for _ in 0..self.table.len(PageList::Active).min(most) {
            let Some(id) = next.filter(|_| batch.len < BATCH) else { break };
            next = self.table.after(id);
            match fate(id, self.table.get(id)) {
                PageFate::Goes => {
                    batch.ids[batch.len] = id;
                    batch.len += 1;
                }
                PageFate::Stays => self.keep(id),
                PageFate::Untracked => {}
            }
        }
        batch.ids[..batch.len].sort_unstable_by_key(|id| self.table.get(*id).address);
        batch
    }

    /// Returns how many of the first records are neighbours, both in the program and in the arena.
    pub(crate) fn run_length(&self, records: &[RecordId]) -> usize {
        let address = |id| self.table.get(id).address;
        let follows =
            |pair: &[RecordId]| pair[1] == pair[0] + 1 && address(pair[1]) == address(pair[0]) + PAGE;
        1 + records.windows(2).take_while(|pair| follows(pair)).count()
    }

    /// Notes that pages have moved from the program to their slots.
    pub(crate) fn taken(&mut self, run: &[RecordId]) {
        for id in run {
            self.table.get_mut(*id).sure = true;
            self.table.set_state(*id, State::Inactive);
        }
    }

    /// Compares the contents of an inactive page, which are in its slot, with the remote copy. The contents of the next page are prefetched
    /// meanwhile, because it will leave soon.
    pub(crate) fn leaving(&self, id: RecordId) -> Leaving {
        if let Some(next) = self.table.after(id) {
            prefetch(reserved_region::slot(next));
        }
        let record = self.table.get(id);
        let hash = hash_of(reserved_region::slot(id));
        Leaving { id, changed: record.dirty || hash != record.hash, hash }
    }

    /// Makes an inactive page remote: from now on, only a fetch over the link brings it back.
    pub(crate) fn left(&mut self, leaving: Leaving, transfers: &mut TransferAccounts, now_ns: u64) {
        let record = self.table.get_mut(leaving.id);
        if leaving.changed {
            transfers.wrote_back(record.address, now_ns);
        }
        (record.dirty, record.hash) = (false, leaving.hash);
        self.table.set_state(leaving.id, State::Remote);
        self.local = self.local.saturating_sub(1);
    }

    /// Notes that a page is shared since a fork and cannot be taken out of the program. Most children end soon, and then the page becomes
    /// private again at no cost. Therefore the pager stops taking pages for a while; without this rest, it would take pages in use instead
    /// of shared ones. If the fork was at least `PATIENCE_NS` ago, returns the range to copy: the page and the pages that follow it in the
    /// program.
    pub(crate) fn shared(&mut self, id: RecordId, forked_ns: u64) -> Option<(usize, usize)> {
        let now = now_ns();
        self.rest_until_ns = now + PATIENCE_NS / 16;
        if now < forked_ns + PATIENCE_NS {
            return None;
        }
        let start = self.table.get(id).address;
        let is_here = |page| {
            let state = self.table.find(page).map(|id| self.table.get(id).state);
            matches!(state, Some(State::Active | State::Stuck))
        };
        let pages = (1..UNSHARE_PAGES).take_while(|n| is_here(start + n * PAGE)).count();
        Some((start, (1 + pages) * PAGE))
    }

    /// Returns all pages with contents outside the program, lowest address first, because a fork brings them back.
    pub(crate) fn thawing(&self) -> Vec<RecordId> {
        let mut away: Vec<RecordId> = self.table.away().collect();
        away.sort_unstable_by_key(|id| self.table.get(*id).address);
        count(&self.control.counts.thawed, away.len() as u64);
        away
    }

    /// Returns the number of pages that are not local although their contents are in their slots, for a pager whose remote contents stay
    /// there.
    pub(crate) fn remote_in_slots(&self) -> usize {
        self.table.remote() + self.table.fetching()
    }

    /// Updates the bookkeeping from the kernel's count of anonymous pages, `not_its_own` of which do not count as local, and exchanges
    /// counts with the run's other processes.
    pub(crate) fn sync(&mut self, anonymous: Option<u64>, not_its_own: u64) {
        if let Some(anonymous) = anonymous {
            self.local = anonymous.saturating_sub(not_its_own);
        }
        let oldest = self.table.oldest(PageList::Active).map_or(u64::MAX, |id| self.table.get(id).since_ns);
        self.slot.local_pages.store(self.local, Relaxed);
        self.slot.remote_pages.store(self.table.remote() as u64, Relaxed);
        self.slot.oldest_ns.store(oldest, Relaxed);
        let others = self.control.live_slots().filter(|slot| !core::ptr::eq(*slot, self.slot));
        self.others = others.clone().map(|slot| slot.local_pages.load(Relaxed)).sum();
        self.is_oldest = others.clone().all(|slot| slot.oldest_ns.load(Relaxed) >= oldest);
        if self.is_over() && self.others > 0 {
            self.control.bury();
        }
        self.peak.note(self.control, self.slot, self.local + self.others, now_ns());
    }

    /// Returns whether the run has more local pages than its limit allows.
    pub(crate) fn is_over(&self) -> bool {
        self.local + self.others > self.limit()
    }

    /// Returns whether the run exceeds its limit by more pages than the time for making room can explain.
    pub(crate) fn is_far_over(&self) -> bool {
        self.local + self.others > self.limit() + self.limit() / 8 + 2 * SLACK
    }

    /// Returns the time in ns until the next tick. The time is so short that the program can touch at most half of the remaining room
    /// meanwhile.
    pub(crate) fn pause_ns(&self) -> u64 {
        let room = self.limit().saturating_sub(self.local + self.others);
        (room / 2 * FASTEST_TOUCH_NS).clamp(SHORTEST_TICK_NS, LONGEST_TICK_NS)
    }

    fn limit(&self) -> u64 {
        self.control.settings.limit_pages.load(Relaxed)
    }
}

/// Prefetches a page into the cache.
fn prefetch(page: usize) {
    const LINE: usize = 64;
    #[cfg(target_arch = "x86_64")]
    for line in (page..page + PAGE).step_by(LINE) {
        // SAFETY: a hint, which is harmless for any address.
        unsafe { core::arch::x86_64::_mm_prefetch::<{ core::arch::x86_64::_MM_HINT_T0 }>(line as *const i8) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (page, LINE);
}

/// Returns the hash of the page at `at`, which must be present and belong to the pager. Two different contents collide with a probability
/// of 2^-64.
fn hash_of(at: usize) -> u64 {
    // SAFETY: a populated slot of the arena, which only this thread touches.
    rapidhash::v3::rapidhash_v3(unsafe { core::slice::from_raw_parts(at as *const u8, PAGE) })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u64 = 100;
    const START: usize = 0x7000_0000_0000;

    /// Makes the bookkeeping of two processes of one run.
    fn run() -> (&'static ControlHead, [Residency; 2]) {
        reserved_region::reserve().unwrap();
        // SAFETY: all fields are atomics, for which zero is valid.
        let control: &'static ControlHead = Box::leak(unsafe { Box::new(std::mem::zeroed()) });
        control.settings.limit_pages.store(LIMIT, Relaxed);
        let own = [std::process::id(), 1].map(|pid| &control.slots[control.take_slot(pid).unwrap()]);
        (control, own.map(|slot| Residency::new(control, slot)))
    }

    fn addresses(pages: &Residency, ids: &[RecordId]) -> Vec<usize> {
        ids.iter().map(|id| (pages.table.get(*id).address - START) / PAGE).collect()
    }

    #[test]
    fn local_pages_are_counted_on_every_way_of_a_page() {
        let (control, [mut pages, _]) = run();
        let mut transfers = TransferAccounts::new(control, 0, None);
        pages.track_new(START, 3, 1);
        let [a, b, c] = [0, 1, 2].map(|n| pages.table.find(START + n * PAGE).unwrap());
        pages.taken(&[a, b]);
        assert_eq!((pages.local, pages.next_victim()), (3, Some(a)), "what is inactive is local");
        let leaving = pages.leaving(a);
        assert!(leaving.changed, "it was never remote");
        pages.left(leaving, &mut transfers, 2);
        assert_eq!((pages.local, pages.next_victim()), (2, Some(b)));
        pages.activate(b, false, 3);
        assert_eq!(pages.local, 2, "a soft fault brings nothing");
        pages.table.set_state(a, State::Fetching);
        assert_eq!((pages.local, pages.remote_in_slots()), (2, 1));
        pages.activate(a, false, 4);
        assert_eq!((pages.local, pages.remote_in_slots()), (3, 0));
        pages.taken(&[a]);
        assert!(!pages.leaving(a).changed, "its contents are those that left");
        pages.lost(c);
        pages.table.remove(c);
        assert_eq!(pages.local, 2);
    }

    #[test]
    fn a_page_by_another_record_is_where_the_old_one_was() {
        let (control, [mut pages, _]) = run();
        pages.track_new(START, 1, 1);
        let old = pages.table.find(START).unwrap();
        pages.taken(&[old]);
        let leaving = pages.leaving(old);
        pages.left(leaving, &mut TransferAccounts::new(control, 0, None), 2);
        let record = *pages.table.get(old);
        pages.table.detach(old);
        let new = pages.track_again(&record);
        assert_eq!((new == old, pages.local, pages.table.remote()), (false, 0, 1));
        pages.activate(new, false, 3);
        assert_eq!((pages.local, pages.table.remote(), pages.table.get(new).dirty), (1, 0, false));
    }

    #[test]
    fn the_process_with_the_oldest_page_makes_room_for_all() {
        let (_, [mut old, mut young]) = run();
        old.track_new(START, 60, 1);
        young.track_new(START, 50, 2);
        for _ in 0..2 {
            old.sync(None, 0);
            young.sync(None, 0);
        }
        assert!(old.is_over() && young.is_over());
        assert_eq!(old.excess(0) as u64, 10 + SLACK);
        assert_eq!(young.excess(0), 0, "a small excess is left to the other");
        young.track_new(START + 64 * PAGE, 10, 2);
        assert_eq!(young.excess(0) as u64, 20 + SLACK, "a large one is not");
        old.sync(Some(50), 40);
        assert_eq!((old.local, old.excess(0)), (10, 0), "the kernel knows better");
    }

    #[test]
    fn the_oldest_pages_are_chosen_and_neighbours_stay_together() {
        let (_, [mut pages, _]) = run();
        for n in [7, 2, 3, 9, 4, 5] {
            pages.track_new(START + n * PAGE, 1, n as u64);
        }
        let fates = |_, record: &PageRecord| match (record.address - START) / PAGE {
            9 => PageFate::Stays,
            4 => PageFate::Untracked,
            _ => PageFate::Goes,
        };
        let batch = pages.choose(5, fates);
        assert_eq!(addresses(&pages, &batch), [2, 3, 7], "5 would be the sixth");
        assert_eq!(pages.run_length(&batch), 2);
        assert_eq!(pages.run_length(&batch[1..]), 1);
        pages.taken(&batch);
        let last = pages.table.find(START + 9 * PAGE).unwrap();
        assert_eq!(pages.table.after(last), None, "what stays is the newest");
        assert!(pages.table.get(last).since_ns > 9);
        let all = pages.choose(usize::MAX, |_, _| PageFate::Goes);
        assert_eq!(addresses(&pages, &all), [4, 5, 9]);
    }

    #[test]
    fn a_scan_is_due_when_one_in_twenty_is_not_tracked() {
        let (_, [mut pages, _]) = run();
        pages.track_new(START, 1900, 1);
        pages.sync(Some(2000), 0);
        assert!(pages.has_unseen() && !pages.lacks_scan(), "100 of 2000");
        pages.sync(Some(2010), 0);
        assert!(pages.lacks_scan(), "110 of 2010");
        pages.scanned();
        assert!(!pages.has_unseen() && !pages.lacks_scan(), "nothing more is to be found");
        pages.sync(Some(2110), 0);
        assert!(!pages.lacks_scan(), "100 more of 2110");
        pages.sync(Some(2120), 0);
        assert!(pages.lacks_scan());
    }

    #[test]
    fn ticks_come_sooner_the_less_room_is_left() {
        let (_, [mut pages, _]) = run();
        pages.control.settings.limit_pages.store(50_000, Relaxed);
        assert_eq!(pages.pause_ns(), 25_000 * FASTEST_TOUCH_NS);
        pages.local = 49_999;
        assert_eq!(pages.pause_ns(), SHORTEST_TICK_NS);
        pages.control.settings.limit_pages.store(10_000_000, Relaxed);
        assert_eq!(pages.pause_ns(), LONGEST_TICK_NS);
    }

    #[test]
    fn what_a_fork_shares_is_copied_only_if_the_child_lives() {
        let (_, [mut pages, _]) = run();
        pages.track_new(START, 4, 1);
        let [first, second, third] = [0, 1, 2].map(|n| pages.table.find(START + n * PAGE).unwrap());
        pages.table.set_state(second, State::Stuck);
        pages.taken(&[third]);
        let now = now_ns();
        assert_eq!(pages.shared(first, now), None);
        assert!(pages.rests(now) && !pages.rests(now + 10 * PATIENCE_NS));
        assert_eq!(pages.shared(first, now.saturating_sub(2 * PATIENCE_NS)), Some((START, 2 * PAGE)));
    }
}
