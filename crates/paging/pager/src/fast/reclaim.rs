//! Reclaim in fast mode: takes pages out of the program, scans for new ones, and runs the tick thread.

use super::engine::{FastMode, is_awaited, lock};
use super::space::populate;
use crate::control::count;
use crate::gate;
use crate::maps::PageableArea;
use crate::pins;
use crate::reclaim::{Reclaim, takes_spare};
use crate::reserved_region;
use crate::residency::{BATCH, LONGEST_TICK_NS, PageFate, Residency, SHORTEST_TICK_NS};
use crate::scan::Scan;
use crate::sys::{PAGE, now_ns, timespec};
use crate::table::{RecordId, State};
use alloc::vec::Vec;
use core::ffi::{c_int, c_void};
use rustix::io::Errno;

/// Maximum numbers of pages that are looked at, and evicted, at a time while another thread waits for the lock. More than one page leaves
/// for each page that comes, so the threads together stay below the limit.
const SHARED_LOOKS: usize = 4;
const SHARED_EVICTIONS: usize = 2;

impl Reclaim for FastMode {
    fn books(&self) -> &Residency {
        &self.space.pages
    }

    fn scans(&self) -> &Scan {
        &self.scan
    }

    fn deactivate(&mut self) -> usize {
        let mut pinned = Vec::new();
        let most = if is_awaited() { SHARED_LOOKS } else { 2 * BATCH };
        let batch = self.space.pages.choose(most, |id, record| {
            let page = record.address;
            if pins::is_pinned(page) {
                pinned.push(id);
                return PageFate::Untracked;
            }
            if self.space.holds.contains(page) { PageFate::Stays } else { PageFate::Goes }
        });
        // Pinned pages stay tracked, because all pages that are present in registered memory are tracked.
        pinned.into_iter().for_each(|id| self.space.pages.table.set_state(id, State::Stuck));
        let (mut taken, mut rest) = (0, &batch[..]);
        while !rest.is_empty() {
            let (run, others) = rest.split_at(self.space.pages.run_length(rest));
            taken += self.take(run);
            rest = others;
        }
        count(&self.space.control.counts.deactivations, taken as u64);
        taken
    }

    /// Registers all memory that can be remote and is not registered yet, and tracks the pages that are present there. Returns whether
    /// there were new pages.
    fn scan(&mut self) -> bool {
        if !self.scan.begin(&self.space.memory, self.space.control) {
            return false;
        }
        let mut found = false;
        for n in 0..self.scan.areas.len() {
            let PageableArea { start, end } = self.scan.areas[n];
            if !self.space.registered.covers(start, end) {
                found |= self.space.register(start, end);
            } else if self.scan.looks_everywhere() {
                // The zero page is not tracked, and a store by the program replaces it without a fault that the pager sees.
                found |= self.space.track_present(start, end);
            }
        }
        self.scan.end();
        self.space.pages.scanned();
        found
    }
}

impl FastMode {
    /// Does the periodic work if it is due, and brings the run back under its limit as far as this process is responsible.
    pub(super) fn reclaim(&mut self, now_ns: u64) {
        if now_ns >= self.next_tick_ns {
            self.tick(now_ns);
        }
        let (mut evicted, wanted) = (0, self.space.pages.excess(0));
        while evicted < wanted && self.find_victims() {
            let Some(oldest) = self.space.pages.next_victim() else { continue };
            let leaving = self.space.pages.leaving(oldest);
            self.space.pages.left(leaving, &mut self.transfers, now_ns);
            evicted += 1;
            if evicted >= SHARED_EVICTIONS && is_awaited() {
                break;
            }
        }
    }

    /// Takes neighbouring pages out of the program; pages that cannot be taken now stay. Returns how many were taken.
    fn take(&mut self, run: &[RecordId]) -> usize {
        let address = self.space.pages.table.get(run[0]).address;
        let (moved, result) =
            self.space.memory.take(reserved_region::slot(run[0]), address, run.len() * PAGE);
        let moved = moved / PAGE;
        self.space.pages.taken(&run[..moved]);
        let left = &run[moved..];
        match result {
            Ok(()) => moved,
            // Neighbouring pages may be in two mappings.
            Err(Errno::INVAL) if left.len() > 1 => {
                moved + left.chunks(1).map(|page| self.take(page)).sum::<usize>()
            }
            Err(error) => {
                self.cannot_take(left[0], error);
                moved + if left.len() > 1 { self.take(&left[1..]) } else { 0 }
            }
        }
    }

    /// Keeps a page in the program. If the page is shared since a fork, makes the kernel give this process its own copy.
    fn cannot_take(&mut self, id: RecordId, error: Errno) {
        count(&self.space.control.counts.stuck, 1);
        self.space.pages.keep(id);
        if error == Errno::BUSY
            && let Some((start, len)) = self.space.pages.shared(id, self.forked_ns)
            && takes_spare(self.space.control, len / PAGE)
        {
            populate(start, len);
        }
    }

    /// Does the periodic work. Called at the next fault, or otherwise by the tick thread.
    fn tick(&mut self, now_ns: u64) {
        let not_its_own = self.baseline.pages(&self.space.memory, self.space.pages.is_far_over())
            + self.space.pages.remote_in_slots() as u64;
        self.space.pages.sync(self.space.memory.anonymous_pages(), not_its_own);
        self.next_tick_ns = now_ns + self.space.pages.pause_ns();
    }
}

/// Runs the tick thread. Like the blocking pager's thread, it is a bare thread that blocks all signals, but it shares the program's
/// descriptors. While it runs on another core, the kernel has to notify that core of each page that moves. Therefore it sleeps longer and
/// longer while faults do its work.
pub(super) extern "C" fn tick_main(_: *mut c_void) -> c_int {
    let mut pause_ns = SHORTEST_TICK_NS;
    loop {
        // The check follows even if a signal interrupts the sleep.
        let _ = rustix::thread::nanosleep(&timespec(pause_ns));
        let mut engine = lock();
        let now = now_ns();
        let control = engine.space.control;
        if engine.owner.was_killed(now) {
            gate::die_orphaned(control);
        }
        if now < engine.next_tick_ns {
            pause_ns = (2 * pause_ns).min(LONGEST_TICK_NS);
        } else {
            engine.reclaim(now);
            pause_ns = engine.next_tick_ns - now;
        }
    }
}
