//! Reclaim in fast mode: choice of pages to take, scans for new pages, and the tick thread.

use super::engine::Engine;
use super::lock::lock;
use crate::control::count;
use crate::maps::{self, Area};
use crate::sys::{self, PAGE, PageRegion, now_ns};
use crate::table::{Id, Queue, State};
use crate::{den, moves, pins};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::Advice;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// Pages taken from the program at once: neighbours move together, at a tenth of the cost each.
const BATCH: usize = 32;
/// Pages below the limit to which reclaim goes once over it.
const SLACK: u64 = 16;
/// Most pages reclaimed at once, since a thread waits.
const MOST_AT_ONCE: u64 = 256;
/// Inverse share of the inactive list in this process's local memory: one in five.
const INACTIVE_PART: usize = 5;
/// Least time in ns between two scans for new pages while the process is over the limit.
const SCAN_PAUSE_NS: u64 = 1_000_000;
/// Least time in ns that a fork's child is expected to live, or to share memory.
const PATIENCE_NS: u64 = 20_000_000;
/// Most pages to unshare at once.
const UNSHARE_PAGES: usize = 512;
/// Number of scans after which one looks everywhere.
const LOOK_EVERYWHERE: u64 = 8;
const SHORTEST_TICK_NS: u64 = 1_000_000;
const LONGEST_TICK_NS: u64 = 50_000_000;
/// Least time in ns in which a program touches a new page.
const FASTEST_TOUCH_NS: u64 = 400;

impl Engine {
    /// Brings the run back under its limit. The run's processes share its local memory, and the process that
    /// holds the oldest page makes room for all. It may need a moment to notice: a small excess is left to it
    /// alone.
    pub(super) fn reclaim(&mut self, now: u64) {
        if now >= self.next_tick_ns {
            self.tick(now);
        }
        let limit = self.control.settings.limit_pages.load(Relaxed);
        let total = self.local + self.others;
        if total <= limit || !self.is_oldest && total < limit + limit / 8 {
            return;
        }
        self.evict((total - limit + SLACK).min(MOST_AT_ONCE) as usize, now);
    }

    /// Makes up to `pages` of this process's pages remote.
    fn evict(&mut self, pages: usize, now: u64) {
        let mut evicted = 0;
        while evicted < pages && now >= self.rest_until_ns {
            let wanted = (self.local as usize / INACTIVE_PART).max(BATCH);
            if self.table.len(Queue::Inactive) < wanted
                && self.deactivate() == 0
                && !self.scan_if_due()
                && self.table.len(Queue::Inactive) == 0
            {
                // Nothing can be taken now, and the inactive list is used up.
                return;
            }
            if let Some(oldest) = self.table.oldest(Queue::Inactive) {
                if let Some(next) = self.table.after(oldest) {
                    prefetch(den::slot(next));
                }
                self.write_out(oldest, now);
                evicted += 1;
            }
        }
    }

    /// Takes the oldest active pages from the program. Returns how many.
    fn deactivate(&mut self) -> usize {
        let mut batch = [0 as Id; BATCH];
        let mut len = 0;
        let mut next = self.table.oldest(Queue::Active);
        for _ in 0..self.table.len(Queue::Active).min(2 * BATCH) {
            let Some(id) = next else { break };
            next = self.table.after(id);
            let page = self.table.get(id).address;
            if pins::is_pinned(page) || self.stacks.contains(page) || self.is_held(page) {
                self.keep(id);
            } else {
                batch[len] = id;
                len += 1;
            }
            if len == BATCH {
                break;
            }
        }
        let batch = &mut batch[..len];
        batch.sort_unstable_by_key(|id| self.table.get(*id).address);
        let mut taken = 0;
        let mut rest = &batch[..];
        while !rest.is_empty() {
            let run = self.run_length(rest);
            taken += self.take(&rest[..run]);
            rest = &rest[run..];
        }
        count(&self.control.counts.deactivations, taken as u64);
        taken
    }

    /// Puts a page that cannot be taken now at the end of the active list: it is not tried again at once, and
    /// does not make this process the one with the oldest page, which makes room for all.
    fn keep(&mut self, id: Id) {
        self.activate(id, false, now_ns());
    }

    /// Returns how many of the first records are neighbours, in the program and in the arena.
    fn run_length(&self, records: &[Id]) -> usize {
        let address = |id| self.table.get(id).address;
        let follows = |pair: &[Id]| pair[1] == pair[0] + 1 && address(pair[1]) == address(pair[0]) + PAGE;
        1 + records.windows(2).take_while(|pair| follows(pair)).count()
    }

    /// Takes neighbouring pages; those that cannot be taken now stay. Returns how many were taken.
    fn take(&mut self, run: &[Id]) -> usize {
        let address = self.table.get(run[0]).address;
        let (pagemap, len) = (self.files.pagemap.as_fd(), run.len() * PAGE);
        let (moved, result) = moves::take(&self.uffd, pagemap, den::slot(run[0]), address, len);
        let moved = moved / PAGE;
        for id in &run[..moved] {
            self.table.set_state(*id, State::Inactive);
        }
        let left = &run[moved..];
        match result {
            Ok(()) => moved,
            // Neighbours may be in two mappings.
            Err(Errno::INVAL) if left.len() > 1 => {
                moved + left.chunks(1).map(|page| self.take(page)).sum::<usize>()
            }
            Err(error) => {
                count(&self.control.counts.stuck, 1);
                self.keep(left[0]);
                if error == Errno::BUSY {
                    self.unshare(left[0]);
                }
                moved + if left.len() > 1 { self.take(&left[1..]) } else { 0 }
            }
        }
    }

    /// Has the kernel give this process its own copy of a page that is shared since a fork. Most children are
    /// gone in a moment: so this waits a little first.
    fn unshare(&mut self, id: Id) {
        let now = now_ns();
        self.rest_until_ns = now + PATIENCE_NS / 16;
        if now < self.forked_ns + PATIENCE_NS {
            return;
        }
        let start = self.table.get(id).address;
        let is_active =
            |page| self.table.find(page).is_some_and(|id| self.table.get(id).state == State::Active);
        let pages = (1..UNSHARE_PAGES).take_while(|n| is_active(start + n * PAGE)).count();
        let len = (1 + pages) * PAGE;
        // SAFETY: changes no contents. It fails, harmlessly, if memory is not writable.
        let _ = unsafe { rustix::mm::madvise(start as *mut c_void, len, Advice::LinuxPopulateWrite) };
    }

    /// Puts every page into the program before a fork. Fetches under way need not arrive any more.
    pub(super) fn thaw(&mut self) {
        let now = now_ns();
        let mut away: Vec<Id> = self.table.away().collect();
        away.sort_unstable_by_key(|id| self.table.get(*id).address);
        count(&self.control.counts.thawed, away.len() as u64);
        for id in away {
            match self.table.get(id).state {
                State::Inactive => {}
                State::Fetching => {
                    self.fetching -= 1;
                    self.local += 1;
                }
                _ => self.local += 1,
            }
            self.put_back(id, false, now);
        }
        self.forked_ns = now;
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

    /// Registers all memory that can be remote and is not registered yet, and tracks the pages present there.
    /// Returns whether there were any.
    fn scan(&mut self) -> bool {
        count(&self.control.counts.scans, 1);
        if maps::read_areas(self.files.maps.as_fd(), &mut self.text, &mut self.areas).is_err() {
            return false;
        }
        self.scans += 1;
        let mut found = false;
        for n in 0..self.areas.len() {
            let Area { start, end } = self.areas[n];
            for (start, end) in self.stacks.gaps(start, end) {
                if !self.registered.covers(start, end) {
                    found |= self.register(start, end);
                } else if self.scans.is_multiple_of(LOOK_EVERYWHERE) {
                    // The zero page is not tracked, and a store replaces it without a fault of ours.
                    found |= self.track_present(start, end);
                }
            }
        }
        found
    }

    /// Registers memory. Returns whether pages were found there.
    pub(super) fn register(&mut self, start: usize, end: usize) -> bool {
        for hold in self.holds.iter().filter(|hold| hold.start < end && start < hold.end) {
            let (from, to) = (hold.start.max(start), hold.end.min(end));
            // SAFETY: changes no contents. A system call under way must find these pages.
            let _ =
                unsafe { rustix::mm::madvise(from as *mut c_void, to - from, Advice::LinuxPopulateWrite) };
        }
        if self.uffd.register(start, end - start).is_err() {
            return false;
        }
        self.registered.add(start, end);
        self.track_present(start, end)
    }

    fn track_present(&mut self, start: usize, end: usize) -> bool {
        let mut runs = [PageRegion::default(); 64];
        let mut at = start;
        let mut found = false;
        while at < end {
            let Ok((len, stopped)) = sys::scan_present(self.files.pagemap.as_fd(), at, end, &mut runs) else {
                return found;
            };
            for page in
                runs[..len].iter().flat_map(|run| (run.start as usize..run.end as usize).step_by(PAGE))
            {
                if self.table.find(page).is_none() {
                    let id = self.track(page);
                    self.activate(id, true, now_ns());
                    found = true;
                }
            }
            at = stopped.max(at + PAGE);
        }
        found
    }

    /// Does the periodic work: called by the next fault, or else by the tick thread.
    fn tick(&mut self, now: u64) {
        self.sync_local();
        let limit = self.control.settings.limit_pages.load(Relaxed);
        let total = self.local + self.others;
        let room_ns = limit.saturating_sub(total) / 2 * FASTEST_TOUCH_NS;
        self.next_tick_ns = now + room_ns.clamp(SHORTEST_TICK_NS, LONGEST_TICK_NS);
        if total > limit && self.others > 0 {
            self.control.bury();
        }
    }

    fn sync_local(&mut self) {
        let remote = self.table.remote() as u64;
        if let Some(anonymous) = sys::anonymous_pages(self.files.statm.as_fd()) {
            self.local = anonymous.saturating_sub(self.baseline + remote + self.fetching);
        }
        let oldest = self.table.oldest(Queue::Active).map_or(u64::MAX, |id| self.table.get(id).since_ns);
        self.slot.local_pages.store(self.local, Relaxed);
        self.slot.remote_pages.store(remote, Relaxed);
        self.slot.oldest_ns.store(oldest, Relaxed);
        let others = self.control.live_slots().filter(|slot| !std::ptr::eq(*slot, self.slot));
        self.others = others.clone().map(|slot| slot.local_pages.load(Relaxed)).sum();
        self.is_oldest = others.clone().all(|slot| slot.oldest_ns.load(Relaxed) >= oldest);
    }
}

/// Prefetches a page, for its hash, while the processor does something else.
fn prefetch(page: usize) {
    const LINE: usize = 64;
    for line in (page..page + PAGE).step_by(LINE) {
        // SAFETY: a hint, which harms at no address.
        unsafe { std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(line as *const i8) };
    }
}

/// Runs the tick thread. Made by a bare `clone`, as the pager's thread is, it shares the descriptors and blocks
/// all signals. While it is on another core, the kernel has to notify that core of each page that moves: so as
/// long as faults do its work, it sleeps longer and longer.
pub(super) extern "C" fn tick_main(_: *mut c_void) -> c_int {
    let mut pause_ns = SHORTEST_TICK_NS;
    loop {
        let pause = rustix::thread::Timespec { tv_sec: 0, tv_nsec: pause_ns as i64 };
        // Interrupted or not, it is time to look again.
        let _ = rustix::thread::nanosleep(&pause);
        let mut engine = lock();
        let now = now_ns();
        let control = engine.control;
        engine.owner.check(control, now);
        if now < engine.next_tick_ns {
            pause_ns = (2 * pause_ns).min(LONGEST_TICK_NS);
        } else {
            engine.reclaim(now);
            pause_ns = engine.next_tick_ns - now;
        }
    }
}
