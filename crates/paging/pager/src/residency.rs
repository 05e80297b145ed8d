//! Residency: which pages of a process are here, which goes next, which have changed, and which are on their way.
//!
//! ```text
//!             first touch
//!   (nothing) ----------> active --reclaim--> inactive --reclaim--> remote
//!                           ^                    |                     |
//!                           +----- soft fault ---+                     |
//!                           +--------------- fetch: waits for the link-+
//! ```
//! *Active* pages are mapped in the program. Recency is known from faults alone: the longest-mapped page is taken
//! from the program first, and joins the *inactive* list, with its contents in its slot of the arena. A touch
//! there brings it back at once; without a touch until it is the oldest, it becomes *remote*, after a write-back
//! if it changed.
//!
//! Both pagers drive these books, and only they: no lock, no thread and no fault is known here. The run's
//! processes share its local memory, so the books also know what the others have.

use crate::control::{ControlHead, ProcessSlot, count};
use crate::memory::Memory;
use crate::pagemap::PageRegion;
use crate::peak::Peak;
use crate::sys::{PAGE, now_ns};
use crate::table::{Id, PageList, PageTable, Record, State};
use crate::transfers::Transfers;
use crate::{den, gate};
use alloc::vec::Vec;
use core::ops::Deref;
use core::sync::atomic::Ordering::Relaxed;

/// Pages taken from the program at once: neighbours move together, at a tenth of the cost each.
pub(crate) const BATCH: usize = 32;
/// Pages below the limit to which reclaim goes once over it.
const SLACK: u64 = 16;
/// Most pages reclaimed at once, since threads wait.
const MOST_AT_ONCE: u64 = 256;
/// Inverse share of the inactive list in this process's local memory: one in five.
const INACTIVE_PART: usize = 5;
/// Inverse share of this process's local memory that may have come since the last scan: one in twenty.
const HIDDEN_PART: u64 = 20;
/// Least time in ns that a fork's child is expected to live, or to share memory.
const PATIENCE_NS: u64 = 20_000_000;
/// Most pages to unshare at once.
const UNSHARE_PAGES: usize = 512;
/// Least time in ns between two ticks; below, the most.
pub(crate) const SHORTEST_TICK_NS: u64 = 1_000_000;
pub(crate) const LONGEST_TICK_NS: u64 = 50_000_000;
/// Least time in ns in which a program touches a new page.
const FASTEST_TOUCH_NS: u64 = 400;

/// Books of one process's pages.
pub(crate) struct Residency {
    pub(crate) table: PageTable,
    control: &'static ControlHead,
    slot: &'static ProcessSlot,
    /// Local pages of this process; below, those of the run's other processes.
    local: u64,
    others: u64,
    /// Local pages that were not tracked after the last scan.
    hidden: u64,
    /// True if no other process has held a page longer.
    is_oldest: bool,
    /// Time until which taking pages is not tried.
    rest_until_ns: u64,
    peak: Peak,
}

/// Decision about a page that has been active for longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Goes,
    /// Cannot be taken now, and counts as new again: it is not tried again at once, and does not make this process
    /// the one with the oldest page, which makes room for all.
    Stays,
    /// The caller stops tracking it.
    Untracked,
}

/// Pages to be taken together, lowest address first.
pub(crate) struct Batch {
    ids: [Id; BATCH],
    len: usize,
}

/// Page that is about to leave, and whether its remote copy is outdated.
pub(crate) struct Leaving {
    pub(crate) id: Id,
    pub(crate) changed: bool,
    hash: u64,
}

impl Deref for Batch {
    type Target = [Id];
    fn deref(&self) -> &[Id] {
        &self.ids[..self.len]
    }
}

impl Residency {
    /// Makes empty books, which are shown to other processes in `slot`.
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
    pub(crate) fn track(&mut self, address: usize) -> Id {
        let id = self.table.insert(address);
        if den::open_arena((id as usize + 1) * PAGE).is_err() {
            gate::die(self.control, "no address space left for the arena of taken pages");
        }
        id
    }

    /// Returns how many pages from `address` on, up to `most`, are not tracked; the first is not.
    pub(crate) fn untracked(&self, address: usize, most: usize) -> usize {
        1 + (1..most).take_while(|n| self.table.find(address + n * PAGE).is_none()).count()
    }

    /// Tracks pages of registered memory that a first touch was given.
    pub(crate) fn track_new(&mut self, address: usize, pages: usize, now_ns: u64) {
        for n in 0..pages {
            let id = self.track(address + n * PAGE);
            self.table.get_mut(id).sure = true;
            self.activate(id, true, now_ns);
        }
        self.local += pages as u64;
        count(&self.control.counts.first_touches, pages as u64);
    }

    /// Tracks the pages of `[start, end)` that are present, not tracked yet, and wanted. Returns whether there
    /// were any.
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

    /// Tracks a page by another record, which is where the old one was: in the same state, and as dirty.
    pub(crate) fn track_again(&mut self, old: &Record) -> Id {
        let id = self.track(old.address);
        let fresh = self.table.get_mut(id);
        (fresh.sure, fresh.dirty, fresh.hash) = (true, old.dirty, old.hash);
        self.table.set_state(id, old.state);
        id
    }

    /// Notes that a page is in the program, from now on or again.
    pub(crate) fn activate(&mut self, id: Id, write: bool, now_ns: u64) {
        let was_away = matches!(self.table.get(id).state, State::Remote | State::Fetching);
        self.local += was_away as u64;
        self.table.set_state(id, State::Active);
        let record = self.table.get_mut(id);
        record.since_ns = now_ns;
        record.dirty |= write;
    }

    /// Keeps an active page that cannot be taken now; see [`Fate::Stays`].
    pub(crate) fn keep(&mut self, id: Id) {
        self.activate(id, false, now_ns());
    }

    /// Notes that a remote page never left: it is inactive again.
    pub(crate) fn stayed(&mut self, id: Id) {
        self.table.set_state(id, State::Inactive);
        self.local += 1;
    }

    /// Notes that the program has given up the contents of a page, wherever they are.
    pub(crate) fn lost(&mut self, id: Id) {
        if matches!(self.table.get(id).state, State::Active | State::Stuck | State::Inactive) {
            self.local = self.local.saturating_sub(1);
        }
    }

    /// Returns the number of pages to take now, to bring the run back under its limit. The process that holds the
    /// oldest page makes room for all, so that an idle process does not keep a busy one from memory. It may need
    /// a moment to notice: a small excess is left to it alone.
    pub(crate) fn excess(&self) -> usize {
        let limit = self.limit();
        let total = self.local + self.others;
        if total <= limit || !self.is_oldest && total < limit + limit / 8 {
            return 0;
        }
        (total - limit + SLACK).min(MOST_AT_ONCE) as usize
    }

    /// Returns whether taking pages is not to be tried now.
    pub(crate) fn rests(&self, now_ns: u64) -> bool {
        now_ns < self.rest_until_ns
    }

    /// Returns whether fewer pages are inactive than should be: more have to be taken from the program.
    pub(crate) fn lacks_inactive(&self) -> bool {
        self.table.len(PageList::Inactive) < (self.local as usize / INACTIVE_PART).max(BATCH)
    }

    /// Returns whether so many local pages have come since the last scan, and are not tracked, that what is tracked
    /// would be taken in their place.
    pub(crate) fn lacks_scan(&self) -> bool {
        self.untracked_pages() > self.hidden + (self.local / HIDDEN_PART).max(BATCH as u64)
    }

    /// Returns whether any local page has come since the last scan, and is not tracked: it would never be taken.
    pub(crate) fn has_unseen(&self) -> bool {
        self.untracked_pages() > self.hidden
    }

    /// Notes that all pages are tracked that a scan can find.
    pub(crate) fn scanned(&mut self) {
        self.hidden = self.untracked_pages();
    }

    /// Returns the number of local pages that are not tracked, as of the last [`Residency::sync`].
    fn untracked_pages(&self) -> u64 {
        let tracked =
            [PageList::Active, PageList::Inactive, PageList::Stuck].map(|list| self.table.len(list));
        self.local.saturating_sub(tracked.iter().sum::<usize>() as u64)
    }

    /// Returns the page that leaves next.
    pub(crate) fn next_victim(&self) -> Option<Id> {
        self.table.oldest(PageList::Inactive)
    }

    /// Chooses pages to take from the program: the oldest active ones, of which it looks at `most`.
    pub(crate) fn choose(&mut self, most: usize, mut fate: impl FnMut(Id, &Record) -> Fate) -> Batch {
        let mut batch = Batch { ids: [0; BATCH], len: 0 };
        let mut next = self.table.oldest(PageList::Active);
        for _ in 0..self.table.len(PageList::Active).min(most) {
            let Some(id) = next.filter(|_| batch.len < BATCH) else { break };
            next = self.table.after(id);
            match fate(id, self.table.get(id)) {
                Fate::Goes => {
                    batch.ids[batch.len] = id;
                    batch.len += 1;
                }
                Fate::Stays => self.keep(id),
                Fate::Untracked => {}
            }
        }
        batch.ids[..batch.len].sort_unstable_by_key(|id| self.table.get(*id).address);
        batch
    }

    /// Returns how many of the first records are neighbours, in the program and in the arena.
    pub(crate) fn run_length(&self, records: &[Id]) -> usize {
        let address = |id| self.table.get(id).address;
        let follows = |pair: &[Id]| pair[1] == pair[0] + 1 && address(pair[1]) == address(pair[0]) + PAGE;
        1 + records.windows(2).take_while(|pair| follows(pair)).count()
    }

    /// Notes that pages are in their slots, and not in the program any more.
    pub(crate) fn taken(&mut self, run: &[Id]) {
        for id in run {
            self.table.get_mut(*id).sure = true;
            self.table.set_state(*id, State::Inactive);
        }
    }

    /// Compares an inactive page, which is in its slot, with its remote copy.
    pub(crate) fn leaving(&self, id: Id) -> Leaving {
        let record = self.table.get(id);
        let hash = hash_of(den::slot(id));
        Leaving { id, changed: record.dirty || hash != record.hash, hash }
    }

    /// Makes an inactive page remote: from now on only the link brings it back.
    pub(crate) fn left(&mut self, leaving: Leaving, transfers: &mut Transfers, now_ns: u64) {
        let record = self.table.get_mut(leaving.id);
        if leaving.changed {
            transfers.wrote_back(record.address, now_ns);
        }
        (record.dirty, record.hash) = (false, leaving.hash);
        self.table.set_state(leaving.id, State::Remote);
        self.local = self.local.saturating_sub(1);
    }

    /// Notes that a page is shared since a fork, and cannot be taken. Most children are gone in a moment, and then it
    /// becomes private again at no cost: taking rests. Returns what is to be copied otherwise: the page and those
    /// that follow it in the program. (Without a rest here, pages in use are taken instead of shared ones.)
    pub(crate) fn shared(&mut self, id: Id, forked_ns: u64) -> Option<(usize, usize)> {
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

    /// Returns all pages with contents outside the program, lowest address first: a fork brings them back.
    pub(crate) fn thawing(&self) -> Vec<Id> {
        let mut away: Vec<Id> = self.table.away().collect();
        away.sort_unstable_by_key(|id| self.table.get(*id).address);
        count(&self.control.counts.thawed, away.len() as u64);
        away
    }

    /// Returns the number of pages that are in their slots, as far as contents stay there, and not local.
    pub(crate) fn remote_in_slots(&self) -> usize {
        self.table.remote() + self.table.fetching()
    }

    /// Compares the books with the kernel's count of anonymous pages, of which `not_its_own` do not count as local,
    /// and exchanges counts with the run's other processes.
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

    /// Returns whether the run has more local pages than it may.
    pub(crate) fn is_over(&self) -> bool {
        self.local + self.others > self.limit()
    }

    /// Returns whether the run has so many more local pages than it may that making room does not explain it.
    pub(crate) fn is_far_over(&self) -> bool {
        self.local + self.others > self.limit() + self.limit() / 8 + 2 * SLACK
    }

    /// Returns the time in ns until the next tick: until then the program can touch half of what is left at most.
    pub(crate) fn pause_ns(&self) -> u64 {
        let room = self.limit().saturating_sub(self.local + self.others);
        (room / 2 * FASTEST_TOUCH_NS).clamp(SHORTEST_TICK_NS, LONGEST_TICK_NS)
    }

    fn limit(&self) -> u64 {
        self.control.settings.limit_pages.load(Relaxed)
    }
}

/// Returns the hash of the page at `at`, which must be present and ours. Two contents collide with a probability
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

    /// Makes the books of two processes of one run.
    fn run() -> (&'static ControlHead, [Residency; 2]) {
        den::reserve().unwrap();
        // SAFETY: all fields are atomics, for which zero is valid.
        let control: &'static ControlHead = Box::leak(unsafe { Box::new(std::mem::zeroed()) });
        control.settings.limit_pages.store(LIMIT, Relaxed);
        let own = [std::process::id(), 1].map(|pid| &control.slots[control.take_slot(pid).unwrap()]);
        (control, own.map(|slot| Residency::new(control, slot)))
    }

    fn addresses(pages: &Residency, ids: &[Id]) -> Vec<usize> {
        ids.iter().map(|id| (pages.table.get(*id).address - START) / PAGE).collect()
    }

    #[test]
    fn local_pages_are_counted_on_every_way_of_a_page() {
        let (control, [mut pages, _]) = run();
        let mut transfers = Transfers::new(control, 0, None);
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
        pages.left(leaving, &mut Transfers::new(control, 0, None), 2);
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
        assert_eq!(old.excess() as u64, 10 + SLACK);
        assert_eq!(young.excess(), 0, "a small excess is left to the other");
        young.track_new(START + 64 * PAGE, 10, 2);
        assert_eq!(young.excess() as u64, 20 + SLACK, "a large one is not");
        old.sync(Some(50), 40);
        assert_eq!((old.local, old.excess()), (10, 0), "the kernel knows better");
    }

    #[test]
    fn the_oldest_pages_are_chosen_and_neighbours_stay_together() {
        let (_, [mut pages, _]) = run();
        for n in [7, 2, 3, 9, 4, 5] {
            pages.track_new(START + n * PAGE, 1, n as u64);
        }
        let fates = |_, record: &Record| match (record.address - START) / PAGE {
            9 => Fate::Stays,
            4 => Fate::Untracked,
            _ => Fate::Goes,
        };
        let batch = pages.choose(5, fates);
        assert_eq!(addresses(&pages, &batch), [2, 3, 7], "5 would be the sixth");
        assert_eq!(pages.run_length(&batch), 2);
        assert_eq!(pages.run_length(&batch[1..]), 1);
        pages.taken(&batch);
        let last = pages.table.find(START + 9 * PAGE).unwrap();
        assert_eq!(pages.table.after(last), None, "what stays is the newest");
        assert!(pages.table.get(last).since_ns > 9);
        let all = pages.choose(usize::MAX, |_, _| Fate::Goes);
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
