//! Reclaim: chooses the pages to take, and finds pages that could be taken.

use crate::control::count;
use crate::den;
use crate::gate;
use crate::helper::{self, Order};
use crate::maps;
use crate::moves;
use crate::pager::{Emptying, Pager};
use crate::pins;
use crate::sys::{self, PAGE, PageRegion, now_ns};
use crate::table::{Id, LEAF_BYTES, Queue, State};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// Pages taken from the program at once: neighbours move together, at a tenth of the cost each.
const BATCH: usize = 32;
/// Pages below the limit to which reclaim goes once over it.
const SLACK: u64 = 16;
/// Most pages reclaimed between two faults, since faults are waiting.
const MOST_AT_ONCE: u64 = 256;
/// Inverse share of the inactive list in this process's local memory: one in five.
const INACTIVE_PART: usize = 5;
/// Least time in ns that a fork's child is expected to live, or to share memory.
const PATIENCE_NS: u64 = 20_000_000;
/// Number of waits for a busy memory node before faults are handled again.
const MOST_WAITS: usize = 4;
/// Number of pages that a process keeps in any case.
const LEAST_KEPT: usize = 64;
/// Time in ns between two attempts to take stuck pages.
const RETRY_PAUSE_NS: u64 = 20_000_000;
/// Most stuck pages that are tried again at a time.
const MOST_RETRIED: usize = 512;
/// Most pages to unshare at once.
const UNSHARE_PAGES: usize = 512;
/// Number of scans after which one looks everywhere.
const LOOK_EVERYWHERE: u64 = 8;
/// Least time in ns between two scans for new pages while the process is over the limit.
const SCAN_PAUSE_NS: u64 = 1_000_000;

impl Pager {
    /// Brings the run back under its limit. The run's processes share its local memory, and the process that
    /// holds the oldest page makes room for all, so that an idle process does not keep a busy one from memory. It
    /// may need a moment to notice: a small excess is left to it alone.
    pub(crate) fn reclaim(&mut self) {
        let limit = self.control.settings.limit_pages.load(Relaxed);
        let total = self.local + self.others;
        if total <= limit || !self.is_oldest && total < limit + limit / 8 {
            return;
        }
        self.evict((total - limit + SLACK).min(MOST_AT_ONCE) as usize);
    }

    /// Makes up to `pages` of this process's pages remote. Returns how many.
    pub(crate) fn evict(&mut self, pages: usize) -> usize {
        let Some(_open) = gate::enter() else { return 0 };
        self.connect();
        let (mut evicted, mut waits) = (0, 0);
        while evicted < pages && now_ns() >= self.rest_until_ns && (self.can_spare() || self.scan_if_due()) {
            let wanted = (self.local as usize / INACTIVE_PART).max(BATCH);
            if self.table.len(Queue::Inactive) < wanted && self.deactivate() == 0 && !self.scan_if_due() {
                // Nothing can be taken now: use the inactive pages, without second chances.
                if self.table.len(Queue::Inactive) == 0 {
                    break;
                }
            }
            let Some(oldest) = self.table.oldest(Queue::Inactive) else { continue };
            if self.write_out(oldest) {
                evicted += 1;
                continue;
            }
            self.wait_for_node();
            waits += 1;
            if waits == MOST_WAITS {
                break;
            }
        }
        gate::set_away(self.table.len(Queue::Inactive) + self.table.remote() + self.pending.len());
        evicted
    }

    /// Returns whether this process has more than the few pages that it needs to make progress at all.
    fn can_spare(&self) -> bool {
        self.table.len(Queue::Active) + self.table.len(Queue::Inactive) > LEAST_KEPT
    }

    /// Makes stuck pages active from time to time, so that taking them is tried again.
    pub(crate) fn retry_stuck(&mut self) {
        let now = now_ns();
        if now < self.next_retry_ns {
            return;
        }
        self.next_retry_ns = now + RETRY_PAUSE_NS;
        for _ in 0..self.table.len(Queue::Stuck).min(MOST_RETRIED) {
            let Some(id) = self.table.oldest(Queue::Stuck) else { return };
            self.table.set_state(id, State::Active);
        }
    }

    /// Takes the oldest active pages from the program. Returns how many.
    fn deactivate(&mut self) -> usize {
        let mut batch: Vec<Id> = Vec::with_capacity(BATCH);
        let mut next = self.table.oldest(Queue::Active);
        let mut left = self.table.len(Queue::Active);
        while let Some(id) = next
            && batch.len() < BATCH
            && left > 0
        {
            next = self.table.after(id);
            left -= 1;
            let record = self.table.get(id);
            if pins::is_pinned(record.address) {
                self.untrack(id);
            } else if record.emptying {
                self.table.set_state(id, State::Active);
            } else {
                batch.push(id);
            }
        }
        batch.sort_unstable_by_key(|id| self.table.get(*id).address);
        let mut taken = 0;
        let mut rest = &batch[..];
        let changes = self.changes;
        // After a change of the address space was applied, the batch may name pages that no longer exist.
        while !rest.is_empty() && self.changes == changes {
            let run = self.run_length(rest);
            taken += self.take(&rest[..run]);
            rest = &rest[run..];
        }
        count(&self.control.counts.deactivations, taken as u64);
        taken
    }

    /// Returns how many of the first records are neighbours, in the program and in the arena.
    pub(crate) fn run_length(&self, records: &[Id]) -> usize {
        let follows = |pair: &[Id]| {
            let address = |id| self.table.get(id).address;
            pair[1] == pair[0] + 1 && address(pair[1]) == address(pair[0]) + PAGE
        };
        1 + records.windows(2).take_while(|pair| follows(pair)).count()
    }

    /// Takes neighbouring pages. Those that cannot be taken now become stuck; those that no longer exist are
    /// forgotten. Returns how many were taken.
    fn take(&mut self, run: &[Id]) -> usize {
        let address = self.table.get(run[0]).address;
        if !self.registered(address, run.len()) {
            return self.cannot_take(run, Errno::NOENT);
        }
        match self.make_sure(run) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                self.read_changes();
                return 0;
            }
            Err(refusal) => return self.cannot_take(run, refusal),
        }
        let (pagemap, len) = (self.files.pagemap.as_fd(), run.len() * PAGE);
        let (moved, result) = moves::take(&self.uffd, pagemap, den::slot(run[0]), address, len);
        let moved = moved / PAGE;
        for id in &run[..moved] {
            self.table.get_mut(*id).sure = true;
            self.table.set_state(*id, State::Inactive);
        }
        match result {
            Ok(()) => moved,
            // Some of the rest may be gone or elsewhere now; they can wait for the next round.
            Err(Errno::AGAIN) => {
                self.read_changes();
                moved
            }
            // Neighbours may be in two mappings.
            Err(Errno::INVAL) if moved == 0 && run.len() > 1 => {
                let changes = self.changes;
                let mut taken = 0;
                for page in run.chunks(1) {
                    if self.changes == changes {
                        taken += self.take(page);
                    }
                }
                taken
            }
            Err(error) => {
                let after = self.cannot_take(&run[moved..moved + 1], error);
                moved + after + if moved + 1 < run.len() { self.take(&run[moved + 1..]) } else { 0 }
            }
        }
    }

    /// Makes sure that pages are in registered memory. A page taken from unregistered memory would be lost: the
    /// kernel would put an empty one in its place. Pages found by scanning may be in a mapping that replaced the
    /// registered one, so this asks the kernel before they are taken for the first time. Afterwards any change of
    /// the mapping is reported, and until the report was read nothing can be moved. A move stays within one
    /// mapping, so one page stands for all.
    fn make_sure(&mut self, run: &[Id]) -> Result<(), Errno> {
        if run.iter().all(|id| self.table.get(*id).sure) {
            return Ok(());
        }
        let address = self.table.get(run[0]).address;
        match self.uffd.probe(address) {
            Err(Errno::EXIST) => Ok(()),
            Err(Errno::AGAIN) => Err(Errno::AGAIN),
            Err(Errno::NOENT) => {
                self.table.set_registered(address, address + run.len() * PAGE, false);
                Err(Errno::INVAL)
            }
            Ok(()) | Err(_) => Err(Errno::NOENT),
        }
    }

    fn cannot_take(&mut self, run: &[Id], error: Errno) -> usize {
        for id in run {
            match error {
                Errno::NOENT | Errno::FAULT | Errno::NOMEM => self.untrack(*id),
                _ => {
                    self.table.set_state(*id, State::Stuck);
                    count(&self.control.counts.stuck, 1);
                }
            }
        }
        if error == Errno::BUSY {
            self.unshare(run[0]);
        }
        0
    }

    /// Has a page copied that is shared since a fork. Most children are gone in a moment, and then the page
    /// becomes private again at no cost: so this waits a little first.
    fn unshare(&mut self, id: Id) {
        let now = now_ns();
        self.rest_until_ns = now + PATIENCE_NS / 16;
        if now < gate::forked_ns() + PATIENCE_NS {
            return;
        }
        let start = self.table.get(id).address;
        let pages = (1..UNSHARE_PAGES).take_while(|n| self.table.find(start + n * PAGE).is_some()).count();
        helper::post(Order::Unshare { at: start, len: (1 + pages) * PAGE });
    }

    /// Gets back records whose slots were emptied, and has more emptied.
    pub(crate) fn recycle(&mut self) {
        while self.emptying.front().is_some_and(|first| helper::is_done(first.order)) {
            let Some(done) = self.emptying.pop_front() else { break };
            self.emptied(&done);
        }
        // These come first: a slot may be in both lists, and its record is free when the second is done.
        let mut vacated = std::mem::take(&mut self.vacated);
        self.have_emptied(&mut vacated, false);
        self.vacated.append(&mut vacated);
        if !self.vacated.is_empty() {
            return;
        }
        let mut garbage = std::mem::take(&mut self.garbage);
        self.garbage = garbage.extract_if(.., |id| !self.forgotten(*id)).collect();
        self.have_emptied(&mut garbage, true);
        self.garbage.append(&mut garbage);
    }

    fn emptied(&mut self, done: &Emptying) {
        for id in &done.ids {
            self.table.get_mut(*id).emptying = false;
            match (done.garbage, &mut self.node) {
                (true, _) => self.table.release(*id),
                (false, Some(node)) => node.full_slots -= 1,
                (false, None) => {}
            }
        }
    }

    /// Orders the slots of `ids` emptied; leaves those for which the helper has no room.
    fn have_emptied(&mut self, ids: &mut Vec<Id>, garbage: bool) {
        ids.sort_unstable();
        while let Some(last) = ids.last().copied() {
            let run = 1 + ids.windows(2).rev().take_while(|pair| pair[0] + 1 == pair[1]).count();
            let first = last + 1 - run as Id;
            let Some(order) = helper::post(Order::Forget { at: den::slot(first), len: run * PAGE }) else {
                return;
            };
            let ids = ids.split_off(ids.len() - run);
            self.emptying.push_back(Emptying { order, ids, garbage });
        }
    }

    fn registered(&mut self, address: usize, pages: usize) -> bool {
        (address..address + pages * PAGE)
            .step_by(PAGE)
            .all(|page| self.table.is_registered(page) || self.register_mapping(page))
    }

    /// Registers the whole mapping of a page: registering a part would split it, which makes `mremap` fail.
    fn register_mapping(&mut self, address: usize) -> bool {
        if !self.read_areas() {
            return false;
        }
        let after = self.areas.partition_point(|area| area.start <= address);
        let Some(area) = self.areas[..after].last().filter(|area| address < area.end) else { return false };
        let (start, end) = (area.start, area.end);
        let registered = self.uffd.register(start, end - start).is_ok();
        if registered {
            self.table.set_registered(start, end, true);
        }
        registered
    }

    fn read_areas(&mut self) -> bool {
        maps::read_areas(self.files.maps.as_fd(), &mut self.text, &mut self.areas).is_ok()
    }

    /// Scans for new pages, unless it just did. Returns whether there are any.
    fn scan_if_due(&mut self) -> bool {
        let now = now_ns();
        if now < self.next_scan_ns {
            return false;
        }
        let found = self.scan();
        self.next_scan_ns = now_ns() + SCAN_PAUSE_NS.max(4 * (now_ns() - now));
        found
    }

    /// Tracks the pages present in unregistered memory, which are not reported otherwise. Now and then it looks
    /// everywhere, for memory that replaced registered memory unnoticed. Returns whether there were any.
    pub(crate) fn scan(&mut self) -> bool {
        count(&self.control.counts.scans, 1);
        if !self.read_areas() {
            return false;
        }
        self.scans += 1;
        let all = self.scans.is_multiple_of(LOOK_EVERYWHERE);
        let mut found = false;
        for n in 0..self.areas.len() {
            let area = self.areas[n];
            let mut at = area.start;
            while at < area.end {
                let next = ((at / LEAF_BYTES + 1) * LEAF_BYTES).min(area.end);
                let known = self.table.is_all_registered(at, next) && (!all || self.table.is_removed(at));
                if !known {
                    found |= self.scan_block(at, next);
                }
                at = next;
            }
        }
        found
    }

    fn scan_block(&mut self, start: usize, end: usize) -> bool {
        let mut runs = [PageRegion::default(); 64];
        let mut at = start;
        let mut found = false;
        while at < end {
            let Ok((len, stopped)) = sys::scan_present(self.files.pagemap.as_fd(), at, end, &mut runs) else {
                return found;
            };
            for run in &runs[..len] {
                for address in (run.start as usize..run.end as usize).step_by(PAGE) {
                    found |= self.track_found(address);
                }
            }
            at = stopped.max(at + PAGE);
        }
        found
    }

    fn track_found(&mut self, address: usize) -> bool {
        if self.table.find(address).is_some() || pins::is_pinned(address) {
            return false;
        }
        let id = self.track(address);
        self.activate(id, true);
        true
    }
}
