//! Engine of fast mode: its books, and the handling of faults.
//!
//! As in the blocking [`Pager`](crate::pager::Pager), pages are active, inactive or remote. Unlike there, we make
//! all changes of the address space ourselves, in the program's stead, with the lock held: the books are never
//! outdated, and every page that is tracked as active is present.

use super::hold::Hold;
use super::lock::lock;
use super::ranges::Ranges;
use super::thread::Thread;
use crate::control::{Control, Slot, count};
use crate::link::{self, Delays};
use crate::maps::Area;
use crate::owner::Owner;
use crate::pager::{ProcFiles, hash_of, zero_pages};
use crate::spool::{FETCH, Spool, Transfer, WRITE_BACK};
use crate::sys::{self, PAGE, Uffd, now_ns};
use crate::table::{Id, State, Table};
use crate::threads::MOST_AHEAD;
use crate::{den, gate, moves};
use rustix::fd::AsFd;
use rustix::io::Errno;
use std::sync::atomic::Ordering::Relaxed;

/// State of fast mode in one process.
pub struct Engine {
    pub(super) control: &'static Control,
    pub(super) slot: &'static Slot,
    pub(super) uffd: Uffd,
    pub(super) files: ProcFiles,
    pub(super) table: Table,
    /// Memory whose missing pages raise `SIGBUS`. All pages present in it are tracked.
    pub(super) registered: Ranges,
    /// Stacks: the kernel writes signal frames there without asking us.
    pub(super) stacks: Ranges,
    /// Memory in use by system calls under way.
    pub(super) holds: Vec<Hold>,
    pub(super) areas: Vec<Area>,
    pub(super) text: Vec<u8>,
    /// Local pages of this process; below, those of the run's other processes.
    pub(super) local: u64,
    pub(super) others: u64,
    /// True if no other process has held a page longer.
    pub(super) is_oldest: bool,
    pub(super) baseline: u64,
    pub(super) fetching: u64,
    pub(super) next_scan_ns: u64,
    pub(super) next_tick_ns: u64,
    /// Time when this process last forked; below, the time until which taking pages is not tried.
    pub(super) forked_ns: u64,
    pub(super) rest_until_ns: u64,
    pub(super) scans: u64,
    pub(super) brk: usize,
    pub(super) owner: Owner,
    delays: Delays,
    spool: Option<Spool>,
    transmit_ns: u64,
    unseen_ns: u64,
    start_ns: u64,
    /// Moving average of our own work between a page's arrival and the program, in ns.
    finish_ns: u64,
    next_serial: u64,
}

/// Fetch under way. `serial` is also in the page's record: if that one differs, the page was dropped.
struct Fetch {
    id: Id,
    serial: u64,
    due_ns: u64,
}

enum Step {
    Done,
    Wait(Fetch),
    /// The page is being fetched for another thread.
    Elsewhere,
    /// The address is not in memory of ours.
    Foreign,
}

/// Fault as the thread sees it.
#[derive(Clone, Copy)]
pub struct Fault {
    pub address: usize,
    pub write: bool,
    /// Time when the handler was entered.
    pub entered_ns: u64,
}

pub struct Parts {
    pub control: &'static Control,
    pub slot: &'static Slot,
    pub uffd: Uffd,
    pub files: ProcFiles,
    pub delays: Delays,
    pub spool: Option<Spool>,
    pub owner: Owner,
    pub stacks: Ranges,
    /// Anonymous pages at the start; not counted as the run's local memory.
    pub baseline: u64,
    /// Address at which the heap ends.
    pub brk: usize,
}

/// Waits in ns below which the thread spins: a sleeping core takes too long to wake.
const SPIN_NS: u64 = 60_000;

/// Makes the page present. Returns false if it is none of ours.
pub fn resolve(thread: &Thread, fault: Fault) -> bool {
    loop {
        let mut engine = lock();
        match engine.step(thread, fault) {
            Step::Done => return true,
            Step::Foreign => return false,
            Step::Elsewhere => {
                drop(engine);
                rustix::thread::sched_yield();
            }
            Step::Wait(fetch) => {
                drop(engine);
                let arrived_ns = wait_until(fetch.due_ns);
                let mut engine = lock();
                engine.finish(thread, fault, fetch, arrived_ns);
                engine.reclaim(arrived_ns);
                return true;
            }
        }
    }
}

/// Waits until `due_ns` and returns the time.
fn wait_until(due_ns: u64) -> u64 {
    loop {
        let now = now_ns();
        if now >= due_ns {
            return now;
        }
        let left = due_ns - now;
        if left > 2 * SPIN_NS {
            let nap = left - SPIN_NS;
            let nap = rustix::thread::Timespec {
                tv_sec: (nap / 1_000_000_000) as i64,
                tv_nsec: (nap % 1_000_000_000) as i64,
            };
            // The result does not matter: the loop reads the clock.
            let _ = rustix::thread::nanosleep(&nap);
        }
        std::hint::spin_loop();
    }
}

impl Engine {
    /// Makes the engine of a process.
    pub fn new(parts: Parts) -> Engine {
        let settings = &parts.control.settings;
        Engine {
            transmit_ns: link::transmit_ns(settings, PAGE as u64),
            unseen_ns: settings.unseen_ns.load(Relaxed),
            start_ns: settings.start_ns.load(Relaxed),
            control: parts.control,
            slot: parts.slot,
            uffd: parts.uffd,
            files: parts.files,
            delays: parts.delays,
            spool: parts.spool,
            owner: parts.owner,
            baseline: parts.baseline,
            table: Table::new(),
            registered: Ranges::default(),
            stacks: parts.stacks,
            holds: Vec::new(),
            areas: Vec::new(),
            text: Vec::new(),
            local: 0,
            others: 0,
            is_oldest: true,
            fetching: 0,
            next_scan_ns: 0,
            next_tick_ns: 0,
            forked_ns: 0,
            rest_until_ns: 0,
            scans: 0,
            brk: parts.brk,
            finish_ns: 0,
            next_serial: 1,
        }
    }

    fn step(&mut self, thread: &Thread, fault: Fault) -> Step {
        let page = fault.address & !(PAGE - 1);
        let Some(id) = self.table.find(page) else {
            return self.first_touch(thread, fault, page);
        };
        match self.table.get(id).state {
            State::Active | State::Stuck | State::Free => self.check_present(page),
            State::Fetching => Step::Elsewhere,
            State::Remote => Step::Wait(self.start_fetch(id, fault)),
            State::Inactive => {
                self.put_back(id, fault.write, fault.entered_ns);
                count(&self.control.counts.soft_faults, 1);
                self.reclaim(fault.entered_ns);
                self.charge(thread, fault);
                Step::Done
            }
        }
    }

    /// Handles a fault on a page that is active in the books: another thread's fault has brought it.
    fn check_present(&mut self, page: usize) -> Step {
        match self.uffd.probe(page) {
            Err(Errno::EXIST) => Step::Done,
            Err(_) => Step::Foreign,
            Ok(()) => gate::die(self.control, "internal error: a page is missing. Please report this"),
        }
    }

    /// Handles the first touch of a page of registered memory. A thread that touches successive pages gets
    /// several at once.
    fn first_touch(&mut self, thread: &Thread, fault: Fault, page: usize) -> Step {
        if !self.registered.contains(page) {
            return Step::Foreign;
        }
        let follows = page == thread.next_touch.get();
        let ahead = if follows { (2 * thread.touched.get()).clamp(1, MOST_AHEAD) } else { 1 };
        let free = |n: &usize| self.table.find(page + n * PAGE).is_none();
        let wanted = 1 + (1..ahead).take_while(free).count();
        let given = self.uffd.copy(page, zero_pages(), wanted * PAGE).0 / PAGE;
        thread.next_touch.set(page + given * PAGE);
        thread.touched.set(given);
        for n in 0..given {
            let id = self.track(page + n * PAGE);
            self.activate(id, true, fault.entered_ns);
        }
        self.local += given as u64;
        count(&self.control.counts.first_touches, given as u64);
        self.reclaim(fault.entered_ns);
        self.charge(thread, fault);
        // If nothing could be given, the repeated access will show why.
        Step::Done
    }

    fn start_fetch(&mut self, id: Id, fault: Fault) -> Fetch {
        let latency_ns = self.delays.next_ns(&self.control.settings, self.transmit_ns);
        // The access came half the unseen part before the handler, and goes on half of it after.
        let unseen = self.unseen_ns / 2;
        let free = &self.control.downlink_free_ns;
        let start_ns = fault.entered_ns.saturating_sub(unseen);
        let arrival = link::arrival(free, start_ns, self.transmit_ns, latency_ns);
        let due_ns = arrival.saturating_sub(unseen + self.finish_ns);
        if due_ns < fault.entered_ns {
            count(&self.control.counts.below_floor, 1);
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        self.table.set_state(id, State::Fetching);
        self.table.get_mut(id).since_ns = serial;
        self.fetching += 1;
        Fetch { id, serial, due_ns }
    }

    fn finish(&mut self, thread: &Thread, fault: Fault, fetch: Fetch, begin_ns: u64) {
        let record = self.table.get(fetch.id);
        if record.state != State::Fetching || record.since_ns != fetch.serial {
            // Dropped meanwhile: the access now means something else.
            return;
        }
        self.fetching -= 1;
        self.put_back(fetch.id, fault.write, begin_ns);
        self.local += 1;
        let now = now_ns();
        self.account_fetch(thread, fault, now);
        // A single interruption says nothing about the next fetch.
        let work_ns = (now - begin_ns).min(2 * self.finish_ns + 500);
        self.finish_ns = (15 * self.finish_ns + work_ns) / 16;
    }

    fn account_fetch(&mut self, thread: &Thread, fault: Fault, now: u64) {
        let wait_ns = now - fault.entered_ns + self.unseen_ns;
        count(&self.control.counts.fetches, 1);
        count(&self.control.counts.wait_ns, wait_ns);
        let transfer = Transfer {
            t_ns: fault.entered_ns.saturating_sub(self.unseen_ns / 2 + self.start_ns),
            page: (fault.address / PAGE) as u64,
            wait_ns,
            overhead_ns: thread.overhead_ns.take(),
            thread: self.index(thread),
            kind: FETCH,
        };
        self.record(transfer);
    }

    fn index(&self, thread: &Thread) -> u32 {
        let index = thread.index.get().unwrap_or_else(|| self.control.next_thread.fetch_add(1, Relaxed));
        thread.index.set(Some(index));
        index
    }

    /// Charges a fault that was no fetch to its thread: time that a real blade would not have taken.
    fn charge(&self, thread: &Thread, fault: Fault) {
        let cost_ns = now_ns() - fault.entered_ns + self.unseen_ns;
        count(&self.control.counts.overhead_ns, cost_ns);
        thread.overhead_ns.set(thread.overhead_ns.get() + cost_ns);
    }

    /// Moves a page's contents from its slot into the program.
    pub(super) fn put_back(&mut self, id: Id, write: bool, now: u64) {
        let record = *self.table.get(id);
        let slot = den::slot(id);
        match moves::give(&self.uffd, self.files.pagemap.as_fd(), record.address, slot, PAGE, false).1 {
            Ok(()) => self.activate(id, write, now),
            Err(_) => self.put_back_copy(id, write, now),
        }
    }

    /// Copies a page back into memory that is not writable right now, or locked, where `UFFDIO_MOVE` refuses.
    fn put_back_copy(&mut self, id: Id, write: bool, now: u64) {
        let (address, slot) = (self.table.get(id).address, den::slot(id));
        if sys::is_filled(self.files.pagemap.as_fd(), slot) != Some(true) {
            gate::die(self.control, gate::EMPTY);
        }
        match self.uffd.copy(address, slot, PAGE).1 {
            Ok(()) => {}
            Err(Errno::EXIST) => gate::die(self.control, gate::OCCUPIED),
            Err(_) => {
                gate::die(self.control, "internal error: a page has no place any more. Please report this")
            }
        }
        // SAFETY: the contents are in the program again.
        unsafe { den::forget(slot, PAGE) };
        self.activate(id, write, now);
    }

    pub(super) fn activate(&mut self, id: Id, write: bool, now: u64) {
        self.table.set_state(id, State::Active);
        let record = self.table.get_mut(id);
        record.since_ns = now;
        record.dirty |= write;
    }

    /// Starts tracking the page at `address`.
    pub(super) fn track(&mut self, address: usize) -> Id {
        let id = self.table.insert(address);
        if den::open_arena((id as usize + 1) * PAGE).is_err() {
            gate::die(self.control, "no address space left for the arena of taken pages");
        }
        id
    }

    /// Makes an inactive page remote: from now on only the link brings it back.
    pub(super) fn write_out(&mut self, id: Id, now: u64) {
        let record = *self.table.get(id);
        let hash = hash_of(den::slot(id));
        let changed = record.dirty || hash != record.hash;
        if changed {
            link::arrival(&self.control.uplink_free_ns, now, self.transmit_ns, 0);
            count(&self.control.counts.write_backs, 1);
            self.record(Transfer {
                t_ns: now.saturating_sub(self.start_ns),
                page: (record.address / PAGE) as u64,
                wait_ns: 0,
                overhead_ns: 0,
                thread: 0,
                kind: WRITE_BACK,
            });
        }
        let kept = self.table.get_mut(id);
        (kept.dirty, kept.hash) = (false, hash);
        self.table.set_state(id, State::Remote);
        self.local = self.local.saturating_sub(1);
    }

    fn record(&mut self, transfer: Transfer) {
        if let Some(spool) = &mut self.spool
            && spool.push(transfer).is_err()
        {
            gate::die(self.control, "no room left on disk to capture the run's remote transfers");
        }
    }
}
