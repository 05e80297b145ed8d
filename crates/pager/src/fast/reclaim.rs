//! Reclaim in fast mode: which pages go, finding pages that could, and the thread that looks now and then.

use super::engine::Engine;
use super::lock::lock;
use crate::control::count;
use crate::maps::{self, Area};
use crate::sys::{self, PAGE, PageRegion, now_ns};
use crate::table::{Id, Queue, State};
use crate::{den, pins};
use rustix::fd::AsFd;
use rustix::io::Errno;
use rustix::mm::Advice;
use std::ffi::{c_int, c_void};
use std::sync::atomic::Ordering::Relaxed;

/// Pages taken from the program at once: neighbours move together, at a tenth of the cost each.
const BATCH: usize = 32;
/// Once over the limit, go this far below it.
const SLACK: u64 = 16;
/// A thread waits: reclaim no more than this at once.
const MOST_AT_ONCE: u64 = 256;
/// The inactive list's part of this process's local memory: one in five.
const INACTIVE_PART: usize = 5;
/// No more often than this does a process look for new pages while it is over the limit.
const SCAN_PAUSE_NS: u64 = 1_000_000;
/// Every so many scans.
const LOOK_EVERYWHERE: u64 = 8;
const SHORTEST_TICK_NS: u64 = 1_000_000;
const LONGEST_TICK_NS: u64 = 50_000_000;
/// How fast a program can touch new memory, at most: a page per 400 ns.
const FASTEST_TOUCH_NS: u64 = 400;

impl Engine {
    /// Brings the run back under its limit. Local memory is shared by the run's processes, and the one
    /// that holds the oldest page makes room for all. It may need a moment to notice: a small excess is
    /// its business alone.
    pub(super) fn reclaim(&mut self) {
        let limit = self.control.settings.limit_pages.load(Relaxed);
        let total = self.local + self.others;
        if total <= limit || !self.is_oldest && total < limit + limit / 8 {
            return;
        }
        self.evict((total - limit + SLACK).min(MOST_AT_ONCE) as usize);
    }

    /// Makes up to `pages` of this process's pages remote.
    fn evict(&mut self, pages: usize) {
        let mut evicted = 0;
        while evicted < pages {
            let wanted = (self.local as usize / INACTIVE_PART).max(BATCH);
            if self.table.len(Queue::Inactive) < wanted
                && self.deactivate() == 0
                && !self.scan_if_due()
                && self.table.len(Queue::Inactive) == 0
            {
                // Nothing can be taken now, and second chances are used up.
                return;
            }
            if let Some(oldest) = self.table.oldest(Queue::Inactive) {
                self.write_out(oldest);
                evicted += 1;
            }
        }
    }

    /// Takes the oldest active pages from the program. Returns how many.
    fn deactivate(&mut self) -> usize {
        let mut batch = [0 as Id; BATCH];
        let mut len = 0;
        for _ in 0..self.table.len(Queue::Active).min(2 * BATCH) {
            let Some(id) = self.table.oldest(Queue::Active) else { break };
            let page = self.table.get(id).address;
            // To the end of the list: what cannot be taken now is not asked for again at once.
            self.table.set_state(id, State::Active);
            if !pins::is_pinned(page) && !self.stacks.contains(page) && !self.is_held(page) {
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

    /// How many of the first records are neighbours, in the program and in the arena.
    fn run_length(&self, records: &[Id]) -> usize {
        let address = |id| self.table.get(id).address;
        let follows = |pair: &[Id]| pair[1] == pair[0] + 1 && address(pair[1]) == address(pair[0]) + PAGE;
        1 + records.windows(2).take_while(|pair| follows(pair)).count()
    }

    /// Takes neighbouring pages; those that cannot be taken now stay.
    fn take(&mut self, run: &[Id]) -> usize {
        let address = self.table.get(run[0]).address;
        let (moved, result) = self.uffd.move_pages(den::slot(run[0]), address, run.len() * PAGE, false);
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
            Err(_) => {
                count(&self.control.counts.stuck, 1);
                moved + if left.len() > 1 { self.take(&left[1..]) } else { 0 }
            }
        }
    }

    /// Looks for pages not seen yet, unless it just did. Returns whether there are any.
    fn scan_if_due(&mut self) -> bool {
        let now = now_ns();
        if now < self.next_scan_ns {
            return false;
        }
        let found = self.scan();
        self.next_scan_ns = now_ns() + SCAN_PAUSE_NS.max(4 * (now_ns() - now));
        found
    }

    /// Registers all memory that can be remote and is not registered yet, and tracks what is present
    /// there.
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

    /// Returns whether pages were found there.
    pub(super) fn register(&mut self, start: usize, end: usize) -> bool {
        for hold in self.holds.iter().filter(|hold| hold.start < end && start < hold.end) {
            let (from, to) = (hold.start.max(start), hold.end.min(end));
            // SAFETY: changes no contents. A system call that is under way must find these pages.
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
                    self.activate(id, true);
                    found = true;
                }
            }
            at = stopped.max(at + PAGE);
        }
        found
    }

    /// What has to be done from time to time. Returns how long until the next.
    fn tick(&mut self) -> u64 {
        self.sync_local();
        let limit = self.control.settings.limit_pages.load(Relaxed);
        let total = self.local + self.others;
        if total > limit {
            if self.others > 0 {
                self.control.bury();
            }
            self.reclaim();
            return SHORTEST_TICK_NS;
        }
        ((limit - total) / 2 * FASTEST_TOUCH_NS).clamp(SHORTEST_TICK_NS, LONGEST_TICK_NS)
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

/// The tick thread: made by a bare `clone`, as the pager's, it shares the descriptors and blocks all signals.
pub(super) extern "C" fn tick_main(_: *mut c_void) -> c_int {
    loop {
        let pause_ns = lock().tick();
        let pause = rustix::thread::Timespec { tv_sec: 0, tv_nsec: pause_ns as i64 };
        // Interrupted or not, it is time to look again.
        let _ = rustix::thread::nanosleep(&pause);
    }
}
