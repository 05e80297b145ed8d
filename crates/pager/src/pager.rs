//! Pager of one process: serves its faults.
//!
//! ```text
//!             first touch
//!   (nothing) ----------> active --reclaim--> inactive --reclaim--> remote
//!                           ^                    |                     |
//!                           +----- soft fault ---+                     |
//!                           +--------------- fetch: waits for the link-+
//! ```
//! *Active* pages are mapped in the program. Recency is known from faults alone: the longest-mapped page is taken
//! from the program first, and joins the *inactive* list. A touch there brings it back at once; without a touch
//! until it is the oldest, it becomes *remote*, after a write-back if it changed.
//!
//! Memory of which nothing was ever taken is not registered with the userfaultfd: until the program outgrows its
//! local memory, and in every mapping it makes later, first touches have their usual cost, and new pages are
//! found by scanning ([`crate::reclaim`]).

use crate::baseline::Baseline;
use crate::control::{Control, Slot, count};
use crate::link::{self, Delays};
use crate::maps::Area;
use crate::owner::Owner;
use crate::remote::Node;
use crate::silence::Silence;
use crate::spool::{FETCH, Spool, Transfer, WRITE_BACK};
use crate::sys::{self, Event, PAGE, Uffd, now_ns};
use crate::table::{Id, Queue, State, Table};
use crate::threads::{MOST_AHEAD, Threads};
use crate::{den, gate, heap, moves};
use rustix::fd::{AsFd, OwnedFd};
use rustix::io::Errno;
use std::collections::VecDeque;
use std::sync::atomic::Ordering::Relaxed;

/// State of the pager of one process.
pub struct Pager {
    pub(crate) control: &'static Control,
    pub(crate) slot: &'static Slot,
    pub(crate) uffd: Uffd,
    pub(crate) files: ProcFiles,
    pub(crate) table: Table,
    pub(crate) areas: Vec<Area>,
    pub(crate) text: Vec<u8>,
    /// Events that were read but not yet handled.
    pub(crate) backlog: VecDeque<Event>,
    incoming: Vec<Event>,
    pub(crate) pending: Vec<Pending>,
    threads: Threads,
    delays: Delays,
    spool: Option<Spool>,
    /// Core that this thread is bound to.
    here: usize,
    transmit_ns: u64,
    unseen_ns: u64,
    start_ns: u64,
    /// Local pages of this process; below, those of the run's other processes.
    pub(crate) local: u64,
    pub(crate) others: u64,
    /// True if no other process has held a page longer.
    pub(crate) is_oldest: bool,
    baseline: Baseline,
    /// Number of changes of the address space applied so far.
    pub(crate) changes: u64,
    pub(crate) next_scan_ns: u64,
    pub(crate) next_retry_ns: u64,
    pub(crate) scans: u64,
    /// Records without a page whose slots are full; below, those being emptied, in the order of the helper's
    /// work.
    pub(crate) garbage: Vec<Id>,
    pub(crate) emptying: VecDeque<Emptying>,
    /// Records of pages at the memory node whose slots are full.
    pub(crate) vacated: Vec<Id>,
    pub(crate) node: Option<Node>,
    pub(crate) owner: Owner,
    pub(crate) silence: Silence,
    /// Time until which taking pages is not tried.
    pub(crate) rest_until_ns: u64,
}

/// Files of `/proc/self/…`, opened while this is certainly permitted.
pub struct ProcFiles {
    pub maps: OwnedFd,
    pub statm: OwnedFd,
    pub pagemap: OwnedFd,
}

/// Fetch under way.
#[derive(Clone, Copy)]
pub struct Pending {
    pub id: Id,
    /// Address of the fault; the page may have been renamed since.
    pub address: usize,
    due_ns: u64,
    read_ns: u64,
    /// Time of the request, on the clock of [`Silence`].
    pub begun_ns: u64,
    thread: u32,
    write: bool,
}

/// Slots that the helper is emptying.
pub(crate) struct Emptying {
    pub order: u32,
    pub ids: Vec<Id>,
    /// True if the records have no page any more; false if their pages are at the memory node.
    pub garbage: bool,
}

/// Result of serving a fault.
enum Served {
    Yes,
    /// The address space is changing: its changes have to be read first.
    NotYet,
}

pub(crate) struct Parts {
    pub control: &'static Control,
    pub slot: &'static Slot,
    pub uffd: Uffd,
    pub files: ProcFiles,
    pub delays: Delays,
    pub spool: Option<Spool>,
    pub owner: Owner,
    pub here: usize,
    pub baseline: Baseline,
}

impl Pager {
    pub(crate) fn new(parts: Parts) -> Pager {
        let settings = &parts.control.settings;
        Pager {
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
            silence: Silence::default(),
            here: parts.here,
            baseline: parts.baseline,
            table: Table::new(),
            areas: Vec::new(),
            text: Vec::new(),
            backlog: VecDeque::new(),
            incoming: Vec::new(),
            pending: Vec::new(),
            threads: Threads::default(),
            local: 0,
            others: 0,
            is_oldest: true,
            changes: 0,
            next_scan_ns: 0,
            next_retry_ns: 0,
            scans: 0,
            garbage: Vec::new(),
            emptying: VecDeque::new(),
            vacated: Vec::new(),
            node: None,
            rest_until_ns: 0,
        }
    }

    /// Reads the kernel's events. Returns whether there were any.
    pub fn read_events(&mut self) -> Result<bool, Errno> {
        self.incoming.clear();
        self.uffd.read(&mut self.incoming)?;
        self.backlog.extend(self.incoming.iter().copied());
        Ok(!self.incoming.is_empty())
    }

    /// Handles all events read so far, changes of the address space first: they determine what a fault means.
    pub fn handle_events(&mut self) {
        let read_ns = now_ns();
        self.apply_changes();
        while let Some(event) = self.backlog.pop_front() {
            if let Event::Fault { address, write, thread } = event {
                self.serve(address, write, thread, read_ns);
            }
        }
    }

    fn serve(&mut self, address: usize, write: bool, thread: u32, read_ns: u64) {
        if address == den::doorbell() {
            return self.answer_doorbell();
        }
        while let Served::NotYet = self.try_serve(address, write, thread, read_ns) {
            self.read_changes();
        }
        self.reclaim();
        self.charge_overhead(address, thread, read_ns);
    }

    fn try_serve(&mut self, address: usize, write: bool, thread: u32, read_ns: u64) -> Served {
        let Some(id) = self.table.find(address) else {
            return self.first_touch(address, thread, read_ns);
        };
        match self.table.get(id).state {
            State::Inactive => self.soft_fault(id, write, thread, read_ns),
            State::Remote => self.start_fetch(id, address, write, thread, read_ns),
            // A second thread faulted on a page under way: it will be woken with the first.
            State::Fetching => Served::Yes,
            State::Active | State::Stuck | State::Free => self.fill_if_missing(address),
        }
    }

    /// Serves the first touch of a page of registered memory. A thread that touches successive pages gets several
    /// at once.
    fn first_touch(&mut self, address: usize, thread: u32, read_ns: u64) -> Served {
        let here = self.here;
        let tid = thread;
        let thread = self.threads.faulted(tid, read_ns, self.control);
        let ahead = thread.pages_ahead(address);
        let free = |n: &usize| self.table.find(address + n * PAGE).is_none();
        let wanted = 1 + (1..ahead).take_while(free).count();
        let uffd = &self.uffd;
        let (done, result) = thread.woken_on(here, || uffd.copy(address, zero_pages(), wanted * PAGE));
        let given = done / PAGE;
        thread.gave(address, given);
        if given == 0 {
            if result == Err(Errno::AGAIN) {
                return Served::NotYet;
            }
            // The page is there already, or the memory is gone: the thread finds out by itself.
            self.uffd.wake(address);
        }
        for n in 0..given {
            let id = self.track(address + n * PAGE);
            self.table.get_mut(id).sure = true;
            self.activate(id, true);
        }
        self.local += given as u64;
        count(&self.control.counts.first_touches, given as u64);
        Served::Yes
    }

    /// Serves a fault on a page that the record says is there. Either another thread's fault brought it, or the
    /// kernel dropped it (`MADV_FREE`), in which case it reads as zero.
    fn fill_if_missing(&mut self, address: usize) -> Served {
        match self.uffd.copy(address, zero_pages(), PAGE).1 {
            Err(Errno::AGAIN) => Served::NotYet,
            Err(_) => {
                self.uffd.wake(address);
                Served::Yes
            }
            Ok(()) => Served::Yes,
        }
    }

    fn soft_fault(&mut self, id: Id, write: bool, thread: u32, read_ns: u64) -> Served {
        let address = self.table.get(id).address;
        self.threads.faulted(thread, read_ns, self.control);
        let served = self.put_back(id, address, write, thread);
        if let Served::Yes = served {
            count(&self.control.counts.soft_faults, 1);
        }
        served
    }

    fn start_fetch(&mut self, id: Id, address: usize, write: bool, thread: u32, read_ns: u64) -> Served {
        if self.withdraw(id) {
            self.table.set_state(id, State::Inactive);
            self.local += 1;
            return self.soft_fault(id, write, thread, read_ns);
        }
        self.threads.faulted(thread, read_ns, self.control);
        let latency_ns = self.delays.next_ns(&self.control.settings, self.transmit_ns);
        // The access came half the unseen part before we read of it, and will go on half of it after.
        let unseen = self.unseen_ns / 2;
        let free = &self.control.downlink_free_ns;
        let arrival = link::arrival(free, read_ns.saturating_sub(unseen), self.transmit_ns, latency_ns);
        let due_ns = arrival.saturating_sub(unseen);
        if due_ns < read_ns {
            count(&self.control.counts.below_floor, 1);
        }
        self.table.set_state(id, State::Fetching);
        let begun_ns = self.silence.awake_ns();
        self.pending.push(Pending { id, address, due_ns, read_ns, begun_ns, thread, write });
        Served::Yes
    }

    /// Returns when the next fetch under way is due. A page from a memory node counts once it is here.
    pub fn next_due_ns(&self) -> Option<u64> {
        let here = self.pending.iter().filter(|pending| self.contents(pending.id).is_some());
        here.map(|pending| pending.due_ns).min()
    }

    /// Gives the program the pages that have arrived by now.
    pub fn finish_fetches(&mut self) {
        let now = now_ns();
        let arrived =
            |pager: &Pager, pending: &Pending| pending.due_ns <= now && pager.contents(pending.id).is_some();
        while let Some(at) = self.pending.iter().position(|pending| arrived(self, pending)) {
            let pending = self.pending.remove(at);
            self.finish_fetch(pending);
        }
    }

    pub(crate) fn finish_fetch(&mut self, pending: Pending) {
        loop {
            // Changes read below may have dropped or renamed the page.
            if self.table.get(pending.id).state != State::Fetching {
                return self.uffd.wake(pending.address);
            }
            if self.contents(pending.id).is_none() {
                self.ask_for(pending.id);
                self.wait_for_node();
                self.read_changes();
                continue;
            }
            let address = self.table.get(pending.id).address;
            match self.put_back(pending.id, address, pending.write, pending.thread) {
                Served::Yes => break,
                Served::NotYet => self.read_changes(),
            }
        }
        self.local += 1;
        if self.table.get(pending.id).address != pending.address {
            self.uffd.wake(pending.address);
        }
        self.account_fetch(pending);
        self.reclaim();
    }

    /// Moves a page's contents into the program.
    fn put_back(&mut self, id: Id, address: usize, write: bool, thread: u32) -> Served {
        let contents = self.contents(id).expect("the page is here");
        let here = self.here;
        let (uffd, pagemap) = (&self.uffd, self.files.pagemap.as_fd());
        let thread = self.threads.faulted(thread, now_ns(), self.control);
        match thread.woken_on(here, || moves::give(uffd, pagemap, address, contents, PAGE, true)).1 {
            Ok(()) => {}
            Err(Errno::AGAIN) => return Served::NotYet,
            Err(_) => return self.put_back_copy(id, address, write),
        }
        self.contents_moved(id);
        self.activate(id, write);
        Served::Yes
    }

    fn put_back_copy(&mut self, id: Id, address: usize, write: bool) -> Served {
        match self.copy_back(id, address) {
            Ok(id) => self.activate(id, write),
            Err(Errno::AGAIN) => return Served::NotYet,
            Err(Errno::EXIST) => gate::die(self.control, gate::OCCUPIED),
            // The page's place is gone; the message about that change is on its way.
            Err(_) => {
                self.table.set_state(id, State::Remote);
                self.uffd.wake(address);
            }
        }
        Served::Yes
    }

    /// Copies a page back into memory that is not writable right now, or locked, where `UFFDIO_MOVE` refuses. The
    /// copy leaves the slot full, so the page gets another record, which is returned.
    pub(crate) fn copy_back(&mut self, id: Id, address: usize) -> Result<Id, Errno> {
        let contents = self.contents(id).expect("the page is here");
        if sys::is_filled(self.files.pagemap.as_fd(), contents) != Some(true) {
            gate::die(self.control, gate::EMPTY);
        }
        self.uffd.copy(address, contents, PAGE).1?;
        let record = *self.table.get(id);
        self.discard(id);
        let id = self.track(address);
        let fresh = self.table.get_mut(id);
        fresh.sure = true;
        (fresh.dirty, fresh.hash) = (record.dirty, record.hash);
        Ok(id)
    }

    /// Stops tracking a page whose contents are not in the program, and has its slot emptied.
    pub(crate) fn discard(&mut self, id: Id) {
        self.table.detach(id);
        self.dropped(id);
        self.garbage.push(id);
    }

    /// Stops tracking a page whose contents, if any, are in the program.
    pub(crate) fn untrack(&mut self, id: Id) {
        let record = self.table.get(id);
        match record.held || record.emptying {
            true => self.discard(id),
            false => self.table.remove(id),
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

    pub(crate) fn activate(&mut self, id: Id, write: bool) {
        self.table.set_state(id, State::Active);
        let record = self.table.get_mut(id);
        record.since_ns = now_ns();
        record.dirty |= write;
    }

    /// Makes an inactive page remote: from now on only the link brings it back. Returns false if the memory node
    /// is too busy now.
    pub(crate) fn write_out(&mut self, id: Id) -> bool {
        let record = *self.table.get(id);
        let hash = hash_of(den::slot(id));
        let changed = record.dirty || hash != record.hash;
        if !self.send_out(id, changed) {
            return false;
        }
        if changed {
            link::arrival(&self.control.uplink_free_ns, now_ns(), self.transmit_ns, 0);
            count(&self.control.counts.write_backs, 1);
            self.record(Transfer {
                t_ns: now_ns().saturating_sub(self.start_ns),
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
        true
    }

    fn account_fetch(&mut self, pending: Pending) {
        let wait_ns = now_ns() - pending.read_ns + self.unseen_ns;
        count(&self.control.counts.fetches, 1);
        count(&self.control.counts.wait_ns, wait_ns);
        let thread = self.threads.faulted(pending.thread, pending.read_ns, self.control);
        let overhead_ns = std::mem::take(&mut thread.overhead_ns);
        let thread = thread.index;
        self.record(Transfer {
            t_ns: (pending.read_ns - self.unseen_ns / 2).saturating_sub(self.start_ns),
            page: (pending.address / PAGE) as u64,
            wait_ns,
            overhead_ns,
            thread,
            kind: FETCH,
        });
    }

    fn record(&mut self, transfer: Transfer) {
        if let Some(spool) = &mut self.spool
            && spool.push(transfer).is_err()
        {
            gate::die(self.control, "no room left on disk to capture the run's remote transfers");
        }
    }

    /// Charges a fault that was no fetch to its thread: time that a real blade would not have taken.
    fn charge_overhead(&mut self, address: usize, tid: u32, read_ns: u64) {
        let fetching = |id| self.table.get(id).state == State::Fetching;
        if self.table.find(address).is_some_and(fetching) {
            return;
        }
        let cost_ns = now_ns() - read_ns + self.unseen_ns;
        count(&self.control.counts.overhead_ns, cost_ns);
        self.threads.faulted(tid, read_ns, self.control).overhead_ns += cost_ns;
    }

    pub(crate) fn sync_local(&mut self) {
        if let Some(anonymous) = sys::anonymous_pages(self.files.statm.as_fd()) {
            let elsewhere = match &self.node {
                Some(node) => node.resident(),
                None => self.table.remote() + self.pending.len(),
            };
            let not_its_own = elsewhere as u64 + heap::used_pages() + self.baseline.pages();
            self.local = anonymous.saturating_sub(not_its_own);
        }
        let oldest = self.table.oldest(Queue::Active).map_or(u64::MAX, |id| self.table.get(id).since_ns);
        self.slot.local_pages.store(self.local, Relaxed);
        self.slot.remote_pages.store(self.table.remote() as u64, Relaxed);
        self.slot.oldest_ns.store(oldest, Relaxed);
        let others = self.control.live_slots().filter(|slot| !std::ptr::eq(*slot, self.slot));
        self.others = others.clone().map(|slot| slot.local_pages.load(Relaxed)).sum();
        self.is_oldest = others.clone().all(|slot| slot.oldest_ns.load(Relaxed) >= oldest);
    }
}

/// Returns the hash of the page at `at`, which must be present and ours. Two contents collide with a probability
/// of 2^-64.
pub(crate) fn hash_of(at: usize) -> u64 {
    // SAFETY: a populated slot of the arena, which only this thread touches.
    rapidhash::v3::rapidhash_v3(unsafe { std::slice::from_raw_parts(at as *const u8, PAGE) })
}

/// Returns the address of [`MOST_AHEAD`] pages of zeros.
pub(crate) fn zero_pages() -> usize {
    #[repr(align(4096))]
    struct Zeros([u8; MOST_AHEAD * PAGE]);
    static ZEROS: Zeros = Zeros([0; MOST_AHEAD * PAGE]);
    ZEROS.0.as_ptr() as usize
}
