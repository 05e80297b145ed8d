//! Pager of one process: composition of its parts, and the main loop.

use super::fetches::KernelFault;
use super::handover::{self, HandOver};
use super::reclaim::Reclaimer;
use super::space::PagedSpace;
use super::thaw;
use super::threads::Threads;
use crate::attached;
use crate::baseline::Baseline;
use crate::control::{ControlHead, ProcessSlot, count};
use crate::memory::Memory;
use crate::naps::Naps;
use crate::owner::RunOwner;
use crate::residency::SHORTEST_TICK_NS;
use crate::sys::{self, Event, PAGE, now_ns};
use crate::transfers::TransferAccounts;
use crate::{gate, reserved_region};
use core::sync::atomic::Ordering::Relaxed;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Time in ns after a request to a memory node in which the pager's thread does not sleep, because it would wake later than the answer
/// arrives.
const SPIN_NS: u64 = 60_000;

/// Pager of one process. Faults are served in `serve`, and pages are fetched ahead in `ahead`.
pub(super) struct Pager {
    pub control: &'static ControlHead,
    pub space: PagedSpace,
    pub transfers: TransferAccounts,
    pub threads: Threads,
    pub handover: HandOver,
    reclaimer: Reclaimer,
    baseline: Baseline,
    naps: Naps,
}

/// Reason why the main loop ended, with all pages in the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EndOfService {
    /// `unrack` asked for borrowed memory, or was killed.
    Recalled,
    /// The program is about to filter system calls.
    Filter,
}

impl Pager {
    /// Makes the pager of the process that has this `slot`, with no page tracked yet. `is_borrowed` is true if the process is to continue
    /// without this pager when the owner ends.
    pub(super) fn new(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        memory: Memory,
        (owner, is_borrowed): (RunOwner, bool),
    ) -> Result<Pager, Errno> {
        memory.uffd.register(reserved_region::doorbell(), reserved_region::DOORBELL_BYTES)?;
        // Where pages are copied, the helper takes part in each eviction and cannot guard bursts.
        let is_handed_over = !memory.copies_pages();
        memory.receives(reserved_region::landing(0), reserved_region::LANDINGS * PAGE)?;
        count(&control.counts.processes, 1);
        let here = stay_on_this_core();
        let process = slot.process.load(Relaxed);
        Ok(Pager {
            control,
            baseline: Baseline::measured(control, slot, &memory),
            space: PagedSpace::new(control, slot, memory, (owner, is_borrowed)),
            transfers: TransferAccounts::new(control, process, attached::open_spool(control, process)?),
            threads: Threads::new(control, here),
            handover: HandOver::new(is_handed_over),
            reclaimer: Reclaimer::new(control),
            naps: Naps::new(),
        })
    }

    /// Connects to the run's memory node, if there is one.
    pub(super) fn connect(&mut self) {
        self.space.store.connect();
    }

    /// Serves faults forever, or until the program is to continue without this pager. In the latter case, returns the reason after all
    /// pages were put back.
    pub(super) fn run(mut self) -> EndOfService {
        let mut next_tick = now_ns();
        loop {
            if let Some(reason) = self.is_to_end() {
                self.put_all_back();
                return reason;
            }
            self.handle_new_events();
            if gate::is_filtered() {
                self.answer_wishes();
            }
            self.space.progress();
            self.finish_fetches();
            if now_ns() >= next_tick {
                next_tick = now_ns() + self.tick();
            }
            self.wait(next_tick);
        }
    }

    fn is_to_end(&self) -> Option<EndOfService> {
        match () {
            _ if self.space.watch.is_recalled() => Some(EndOfService::Recalled),
            _ if gate::is_to_leave() => Some(EndOfService::Filter),
            _ => None,
        }
    }

    /// Puts every page back permanently: the gate stays closed, so that no page is taken out again.
    fn put_all_back(&mut self) {
        handover::end();
        gate::shut();
        while self.space.is_any_away() {
            self.handle_new_events();
            self.thaw_all();
        }
        gate::set_away(0);
    }

    /// Reads the kernel's events and handles all of them. Changes of the address space are applied first, because they determine the
    /// meaning of a fault.
    fn handle_new_events(&mut self) {
        if self.space.events.is_empty() {
            self.space.events.read(&self.space.memory);
        }
        let read_ns = now_ns();
        self.space.apply_changes();
        while let Some(event) = self.space.events.pop() {
            match event {
                Event::Fault { address, .. } if address == reserved_region::doorbell() => {
                    self.handover.rang();
                    self.answer_doorbell()
                }
                Event::Fault { address, write, thread } => {
                    self.handover.faulted(thread, read_ns);
                    self.serve(KernelFault { address, write, thread, read_ns })
                }
                Event::Remap { .. } | Event::Remove { .. } | Event::Unmap { .. } | Event::Fork { .. } => {}
            }
        }
    }

    /// Answers a thread at the doorbell. The thread waits until all pages are in the program (before a fork), or until one mapping is
    /// registered.
    fn answer_doorbell(&mut self) {
        self.answer_wishes();
        while let Err(Errno::AGAIN) = self.space.memory.fill(reserved_region::doorbell(), 1).1 {
            self.space.read_changes();
        }
    }

    /// Carries out the requests for which threads of the program wait at the gate.
    fn answer_wishes(&mut self) {
        if let Some((start, len)) = gate::merge_wish() {
            let end = (start + len).next_multiple_of(PAGE);
            if start.is_multiple_of(PAGE) {
                self.space.register(start, end);
            }
            gate::merge_done();
        }
        if gate::is_closed() {
            self.thaw_all();
            gate::set_away(0);
        }
    }

    /// Puts every page back. The gate is closed, so that no page is taken out meanwhile.
    fn thaw_all(&mut self) {
        loop {
            let changes = self.space.events.changes();
            while let Some(fetch) = self.space.fetches.pop() {
                self.finish_fetch(fetch);
            }
            thaw::put_all_back(&mut self.space);
            // If a page is still out of the program, its mapping is being moved or unmapped, and a message about that will follow.
            let may_help = self.space.events.changes() != changes || self.space.memory.uffd.is_changing();
            if !may_help || !self.space.is_any_away() {
                return;
            }
            self.space.read_changes();
        }
    }

    /// Brings the run back under its limit, as far as this process is responsible.
    pub(super) fn reclaim(&mut self) {
        self.make_room(0);
    }

    /// Brings the run under its limit, and makes room for `coming` pages that are about to come.
    pub(super) fn make_room(&mut self, coming: u64) {
        self.reclaimer.reclaim(&mut self.space, &mut self.transfers, coming);
    }

    /// Waits for an event, the next arrival of a page or the next tick.
    fn wait(&mut self, next_tick: u64) {
        if self.space.has_read_events() {
            return;
        }
        self.handover.waits();
        if self.handover.is_on() && self.space.fetches.is_empty() && !self.space.store.is_connected() {
            return self.space.events.wait(&self.space.memory);
        }
        let awaited = self.next_due_ns(true);
        let until = [awaited, self.next_due_ns(false)].into_iter().flatten().fold(next_tick, u64::min);
        let now = now_ns();
        let naps = &self.naps;
        let nap = match awaited {
            Some(due) => naps.until(now, due).map(|nap| nap.min(until.saturating_sub(now))),
            None => Some(until.saturating_sub(now)),
        };
        let Some(nap) = nap.filter(|nap| *nap > 0) else { return };
        if self.awaits_soon(now) {
            return rustix::thread::sched_yield();
        }
        let timeout = sys::timespec(nap);
        let uffd = self.space.memory.uffd.fd();
        let faults = PollFd::from_borrowed_fd(uffd, PollFlags::IN);
        // An error means a signal or no event; the main loop checks for all of them anyway.
        let woken = match self.space.store.poll() {
            Some(node) => rustix::event::poll(&mut [faults, node], Some(&timeout)),
            None => rustix::event::poll(&mut [faults], Some(&timeout)),
        };
        if woken == Ok(0) {
            naps.woke(now, nap, now_ns());
        }
    }

    /// Returns the time when the next fetch is due whose page has arrived, either of those that a thread waits for or of the others.
    fn next_due_ns(&self, is_awaited: bool) -> Option<u64> {
        self.space.fetches.next_due_ns(is_awaited, |id| self.space.contents(id).is_some())
    }

    /// Returns whether a page was requested from a memory node so recently that a sleep would last longer than the answer takes. The pager
    /// then yields instead, so that other threads get this core.
    fn awaits_soon(&self, now_ns: u64) -> bool {
        let mut coming = self.space.fetches.coming(|id| self.space.contents(id).is_some());
        self.space.store.is_connected()
            && coming.any(|fetch| fetch.is_awaited && now_ns < fetch.fault.read_ns + SPIN_NS)
    }

    /// Does the periodic work. Returns the time in ns until the next tick.
    fn tick(&mut self) -> u64 {
        self.sync();
        self.space.store.recycle(&mut self.space.pages.table);
        self.space.store.flush();
        self.space.keep_watch();
        if !self.space.pages.is_over() {
            return self.space.pages.pause_ns();
        }
        self.reclaimer.retry_stuck(&mut self.space);
        self.reclaim();
        SHORTEST_TICK_NS
    }

    fn sync(&mut self) {
        let PagedSpace { store, pages, memory, .. } = &mut self.space;
        let elsewhere = store.resident().unwrap_or_else(|| pages.remote_in_slots());
        let not_its_own = elsewhere as u64 + self.baseline.pages(memory, pages.is_far_over());
        pages.sync(memory.anonymous_pages(), not_its_own);
    }
}

/// Binds the pager's thread to its current core, where its program runs too, because waking another core takes five times as long. The
/// thread keeps the priority of its program: if it had precedence, the scheduler would delay the woken thread, and a fetch would take twice
/// as long (Linux 6.18). Also requests precise timers. Each of these requests may be refused, and then the pager works without it.
fn stay_on_this_core() -> usize {
    let here = rustix::thread::sched_getcpu();
    let mut only_here = rustix::thread::CpuSet::new();
    only_here.set(here);
    let _ = rustix::thread::sched_setaffinity(None, &only_here);
    let _ = rustix::thread::set_current_timer_slack(core::num::NonZeroU64::new(1));
    here
}
