//! Handling of a fault in the faulting thread. The lock is not held while a fetch is in flight, so that the waits of several threads
//! overlap.

use super::engine::{FastMode, lock};
use super::thread::Thread;
use crate::control::count;
use crate::gate;
use crate::naps::Naps;
use crate::stride::Stride;
use crate::sys::{PAGE, now_ns, timespec};
use crate::table::{RecordId, State};
use crate::transfers::EndedFetch;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;
use rustix::thread::NanosleepRelativeResult;

/// A fault, as the faulting thread sees it.
#[derive(Clone, Copy)]
pub(super) struct ThreadFault {
    pub address: usize,
    pub write: bool,
    /// Time when the handler was entered (monotonic ns).
    pub entered_ns: u64,
}

/// A fetch in flight. `serial` is also in the page's record; if the two differ, the page was dropped.
struct Fetch {
    id: RecordId,
    serial: u64,
    due_ns: u64,
}

enum Step {
    Done,
    Wait(Fetch),
    /// The page is being fetched for another thread, or its page table is about to change.
    Again,
    /// The address is not in memory that the pager manages.
    Foreign,
}

/// Makes the page of a fault present. Returns false if the pager does not manage the page.
pub(super) fn resolve(thread: &Thread, fault: ThreadFault) -> bool {
    let mut tries = 0;
    loop {
        let mut engine = lock();
        match engine.step(thread, fault) {
            Step::Done => return true,
            Step::Foreign => return false,
            Step::Again => {
                drop(engine);
                give_way(&mut tries);
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

/// Yields to the thread that has to act first, because that thread may need this core.
fn give_way(tries: &mut u32) {
    const YIELDS: u32 = 16;
    const NAP_NS: u64 = 20_000;
    *tries += 1;
    if *tries < YIELDS {
        rustix::thread::sched_yield();
    } else {
        // The length of the nap does not matter, because the page's state is checked again afterwards.
        let _ = rustix::thread::nanosleep(&timespec(NAP_NS));
    }
}

/// Waits until `due_ns` and returns the time.
fn wait_until(due_ns: u64) -> u64 {
    static NAPS: Naps = Naps::new();
    loop {
        let now = now_ns();
        if now >= due_ns {
            return now;
        }
        if let Some(nap) = NAPS.until(now, due_ns)
            && let NanosleepRelativeResult::Ok = rustix::thread::nanosleep(&timespec(nap))
        {
            NAPS.woke(now, nap, now_ns());
        }
        core::hint::spin_loop();
    }
}

impl FastMode {
    fn step(&mut self, thread: &Thread, fault: ThreadFault) -> Step {
        let page = fault.address & !(PAGE - 1);
        let Some(id) = self.space.pages.table.find(page) else {
            return self.first_touch(thread, fault, page);
        };
        match self.space.pages.table.get(id).state {
            State::Active | State::Stuck | State::Free => self.check_present(page),
            State::Fetching => Step::Again,
            State::Remote => Step::Wait(self.start_fetch(id, fault)),
            State::Inactive => {
                self.space.put_back(id, fault.write, fault.entered_ns);
                count(&self.space.control.counts.soft_faults, 1);
                self.reclaim(fault.entered_ns);
                self.charge(thread, fault);
                Step::Done
            }
        }
    }

    /// Handles a fault on a page that is recorded as active: the fault of another thread has brought it.
    fn check_present(&mut self, page: usize) -> Step {
        match self.space.memory.uffd.probe(page) {
            Err(Errno::EXIST) => Step::Done,
            Err(Errno::AGAIN) => Step::Again,
            Err(_) => Step::Foreign,
            Ok(()) => gate::die(self.space.control, "internal error: a page is missing. Please report this"),
        }
    }

    /// Handles the first touch of a page of registered memory.
    fn first_touch(&mut self, thread: &Thread, fault: ThreadFault, page: usize) -> Step {
        if !self.space.registered.contains(page) {
            return Step::Foreign;
        }
        let wanted = self.space.pages.untracked(page, thread.stride.get().pages_ahead(page));
        let (mut filled, mut result) = self.space.memory.fill(page, wanted);
        // If the last of the pages are in another mapping, the kernel fills none of them.
        if wanted > 1 && result == Err(Errno::NOENT) && filled == 0 {
            (filled, result) = self.space.memory.fill(page, 1);
        }
        let given = filled / PAGE;
        // The retry is necessary because a system call that uses this memory would not find the page.
        if given == 0 && result == Err(Errno::AGAIN) {
            return Step::Again;
        }
        thread.stride.set(Stride::new(page, given));
        self.space.pages.track_new(page, given, fault.entered_ns);
        self.reclaim(fault.entered_ns);
        self.charge(thread, fault);
        // If no page could be filled, the repeated access will show the reason.
        Step::Done
    }

    fn start_fetch(&mut self, id: RecordId, fault: ThreadFault) -> Fetch {
        let due_ns = self.transfers.request(fault.entered_ns, self.finish_ns);
        let serial = self.next_serial;
        self.next_serial += 1;
        self.space.pages.table.set_state(id, State::Fetching);
        self.space.pages.table.get_mut(id).since_ns = serial;
        Fetch { id, serial, due_ns }
    }

    fn finish(&mut self, thread: &Thread, fault: ThreadFault, fetch: Fetch, begin_ns: u64) {
        let record = self.space.pages.table.get(fetch.id);
        if record.state != State::Fetching || record.since_ns != fetch.serial {
            // The page was dropped meanwhile. The repeated access therefore causes a new fault.
            return;
        }
        self.space.put_back(fetch.id, fault.write, begin_ns);
        let now = now_ns();
        let fetched = EndedFetch {
            address: fault.address,
            seen_ns: fault.entered_ns,
            due_ns: fetch.due_ns + self.finish_ns,
            thread: self.index(thread),
            overhead_ns: thread.overhead_ns.take(),
        };
        self.transfers.fetched(fetched, now);
        // The sample is limited, because a single interruption does not predict the cost of the next fetch.
        let work_ns = (now - begin_ns).min(2 * self.finish_ns + 500);
        self.finish_ns = (15 * self.finish_ns + work_ns) / 16;
    }

    fn index(&self, thread: &Thread) -> u32 {
        let index =
            thread.index.get().unwrap_or_else(|| self.space.control.next_thread.fetch_add(1, Relaxed));
        thread.index.set(Some(index));
        index
    }

    /// Charges a fault that was not a fetch to its thread, because a real blade would not have taken this time.
    fn charge(&self, thread: &Thread, fault: ThreadFault) {
        let cost_ns = self.transfers.overhead_ns(fault.entered_ns, now_ns());
        thread.overhead_ns.set(thread.overhead_ns.get() + cost_ns);
    }
}
