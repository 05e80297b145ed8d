//! The program's pages, kept consistent with the changes of its address space.
//!
//! From the moment when a change begins until its message is read, the kernel refuses every `UFFDIO_MOVE` and `UFFDIO_COPY` with `EAGAIN`.
//! Therefore no function of this module can act on a mapping that has changed unnoticed. A function that gets `EAGAIN` calls
//! [`PagedSpace::read_changes`] and checks its pages again, because the change may have removed them.

use super::births;
use super::events::FaultEvents;
use super::fetches::Fetches;
use super::store::Store;
use super::watch::Dependents;
use crate::control::{ControlHead, ProcessSlot};
use crate::memory::Memory;
use crate::owner::RunOwner;
use crate::residency::Residency;
use crate::sys::{Event, timespec};
use crate::table::{RecordId, State};
use alloc::vec::Vec;
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;

/// Time in ns that eviction waits for a busy memory node before the pager handles faults again.
const BACK_PRESSURE_NS: u64 = 2_000_000;

/// Pages of one process: their bookkeeping, the contents of those that were taken out, and the fetches in flight.
pub(super) struct PagedSpace {
    control: &'static ControlHead,
    pub memory: Memory,
    pub pages: Residency,
    pub store: Store,
    pub fetches: Fetches,
    pub watch: Dependents,
    pub events: FaultEvents,
}

impl PagedSpace {
    /// Makes the space of the process that has this `slot`, with no page tracked yet.
    pub(super) fn new(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        memory: Memory,
        (owner, is_borrowed): (RunOwner, bool),
    ) -> PagedSpace {
        PagedSpace {
            control,
            memory,
            pages: Residency::new(control, slot),
            store: Store::new(control, slot),
            fetches: Fetches::default(),
            watch: Dependents::new(control, slot, owner, is_borrowed),
            events: FaultEvents::new(control),
        }
    }

    /// Reads the kernel's messages, and applies the changes among them. Faults that are read at this time are handled later.
    pub(super) fn read_changes(&mut self) {
        match self.events.read(&self.memory) {
            true => self.apply_changes(),
            // The change has begun but its message has not arrived: the thread that causes it needs to run.
            false => rustix::thread::sched_yield(),
        }
    }

    /// Returns whether messages were read that are not handled yet.
    pub(super) fn has_read_events(&self) -> bool {
        !self.events.is_empty() || self.memory.has_read_events()
    }

    /// Applies all changes in the backlog and keeps the faults.
    pub(super) fn apply_changes(&mut self) {
        let mut next = 0;
        while let Some(event) = self.events.get(next) {
            match event {
                Event::Fault { .. } => {}
                Event::Fork { uffd } => {
                    births::provide_for_child(uffd, next, &mut self.events, &self.memory, &self.pages);
                }
                Event::Remove { start, end } => {
                    self.drop_range(start, end);
                    self.pages.table.set_removed(start, end);
                }
                Event::Unmap { start, end } => {
                    self.drop_range(start, end);
                    self.pages.table.set_registered(start, end, false);
                }
                Event::Remap { from, to, len } => self.remap(from, to, len),
            }
            next += 1;
        }
        self.events.applied();
    }

    /// Drops the pages of this range, whose contents are no longer needed.
    fn drop_range(&mut self, start: usize, end: usize) {
        let mut ids = Vec::new();
        self.pages.table.tracked_in(start, end, &mut ids);
        for id in ids {
            self.drop_page(id);
        }
    }

    fn drop_page(&mut self, id: RecordId) {
        let state = self.pages.table.get(id).state;
        if state == State::Fetching
            && let Some(fetch) = self.fetches.remove(id)
        {
            self.memory.uffd.wake(fetch.fault.address);
        }
        self.pages.lost(id);
        match state {
            State::Active | State::Stuck | State::Free => self.untrack(id),
            State::Inactive | State::Remote | State::Fetching => self.discard(id),
        }
    }

    /// Updates the addresses of the pages that `mremap` moved. Pages that were tracked at the new addresses are dropped, because `mremap`
    /// unmapped them.
    fn remap(&mut self, from: usize, to: usize, len: usize) {
        if from == to {
            return;
        }
        self.drop_range(to, to + len);
        let mut ids = Vec::new();
        self.pages.table.tracked_in(from, from + len, &mut ids);
        for id in ids {
            let address = self.pages.table.get(id).address;
            self.pages.table.rename(id, to + (address - from));
        }
        self.pages.table.move_registered(from, to, len);
    }

    /// Registers a whole mapping. Returns whether the kernel accepted it.
    pub(super) fn register(&mut self, start: usize, end: usize) -> bool {
        let is_registered = self.memory.uffd.register(start, end - start).is_ok();
        if is_registered {
            self.pages.table.set_registered(start, end, true);
        }
        is_registered
    }

    /// Stops tracking a page whose contents, if any, are in the program.
    pub(super) fn untrack(&mut self, id: RecordId) {
        self.store.untrack(&mut self.pages.table, id);
    }

    /// Stops tracking a page whose contents are not in the program.
    fn discard(&mut self, id: RecordId) {
        self.store.discard(&mut self.pages.table, id);
    }

    /// Returns the address of the contents of a page that is out of the program, or `None` if they are not in this process.
    pub(super) fn contents(&self, id: RecordId) -> Option<usize> {
        self.store.contents(&self.pages.table, id)
    }

    /// Notes that a page was moved out of the place that [`PagedSpace::contents`] returned.
    pub(super) fn contents_moved(&mut self, id: RecordId) {
        self.store.moved(&mut self.pages.table, id);
    }

    /// Withdraws a page whose store was not sent to the node yet; returns whether that succeeded.
    pub(super) fn withdraw(&mut self, id: RecordId) -> bool {
        self.store.withdraw(&mut self.pages.table, id)
    }

    /// Requests a page from the node that is being fetched, unless it was requested already or has arrived.
    pub(super) fn ask_for(&mut self, id: RecordId) {
        self.store.ask_for(&mut self.pages.table, &self.memory, id);
    }

    /// Copies a page back into memory that is currently not writable, or is locked, where `UFFDIO_MOVE` refuses. Because the copy leaves
    /// the slot full, the page gets a new record. Returns the new record's index.
    pub(super) fn copy_back(&mut self, id: RecordId, address: usize) -> Result<RecordId, Errno> {
        let contents = self.contents(id).expect("the page is here");
        self.memory.copy(self.control, address, contents)?;
        let record = *self.pages.table.get(id);
        self.discard(id);
        Ok(self.pages.track_again(&record))
    }

    /// Returns whether a page's contents are outside the program and no fetch of it is in flight.
    pub(super) fn is_away(&self, id: RecordId) -> bool {
        matches!(self.pages.table.get(id).state, State::Inactive | State::Remote)
    }

    /// Returns whether any page is outside the program.
    pub(super) fn is_any_away(&self) -> bool {
        !self.fetches.is_empty() || self.pages.table.away().next().is_some()
    }

    /// Requests the pages in flight from the node, exchanges bytes with the node, and handles completed requests.
    pub(super) fn progress(&mut self) {
        if !self.store.is_connected() {
            return;
        }
        for id in self.fetches.ids() {
            self.store.ask_for(&mut self.pages.table, &self.memory, id);
        }
        self.store.progress(&mut self.pages.table, &self.memory);
    }

    /// Checks the run's owner and the memory node.
    pub(super) fn keep_watch(&mut self) {
        if !self.watch.advance() {
            return;
        }
        let Some((owed, heard)) = self.store.owed() else { return };
        let coming = self.fetches.coming(|id| self.contents(id).is_some());
        let oldest_ns = coming.map(|fetch| fetch.begun_ns).min();
        self.watch.note_node(owed, heard, oldest_ns);
    }

    /// Waits for a short time for the node to make progress.
    pub(super) fn wait_for_node(&mut self) {
        self.store.flush();
        self.progress();
        self.keep_watch();
        let Some(node) = self.store.poll() else { return };
        let moment = timespec(BACK_PRESSURE_NS);
        let uffd = self.memory.uffd.fd();
        let mut both = [node, PollFd::from_borrowed_fd(uffd, PollFlags::IN)];
        // An error means a signal or no event; the caller checks for all of them anyway.
        let _ = rustix::event::poll(&mut both, Some(&moment));
        self.progress();
    }
}
