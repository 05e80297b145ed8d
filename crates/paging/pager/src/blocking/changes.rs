//! Changes of the program's address space, applied to the books.
//!
//! The kernel refuses every `UFFDIO_MOVE` and `UFFDIO_COPY` with `EAGAIN` from the moment a change begins until
//! its message was read, so nothing here can act on a mapping that has changed unnoticed.

use super::pager::Pager;
use crate::gate;
use crate::sys::Event;
use crate::table::{Id, State};
use alloc::vec::Vec;

impl Pager {
    /// Reads until no change is outstanding, and applies the changes. Faults read meanwhile wait.
    pub(super) fn read_changes(&mut self) {
        match self.read_events() {
            Ok(true) => self.apply_changes(),
            // The change has begun but its message has not arrived: its thread needs to run.
            Ok(false) => rustix::thread::sched_yield(),
            Err(_) => gate::die(self.control, "the userfaultfd cannot be read any more"),
        }
    }

    /// Applies all changes in the backlog and leaves the faults.
    pub(super) fn apply_changes(&mut self) {
        let mut next = 0;
        // It may grow meanwhile.
        while next < self.backlog.len() {
            match self.backlog[next] {
                Event::Fault { .. } => {}
                Event::Fork { uffd } => self.provide_for_child(uffd, next),
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
        let before = self.backlog.len();
        self.backlog.retain(|event| matches!(event, Event::Fault { .. }));
        self.changes += (before - self.backlog.len()) as u64;
    }

    /// Drops these pages, whose contents are no longer needed.
    fn drop_range(&mut self, start: usize, end: usize) {
        let mut ids = Vec::new();
        self.pages.table.tracked_in(start, end, &mut ids);
        for id in ids {
            self.drop_page(id);
        }
    }

    fn drop_page(&mut self, id: Id) {
        let state = self.pages.table.get(id).state;
        if state == State::Fetching
            && let Some(at) = self.pending.iter().position(|pending| pending.id == id)
        {
            let pending = self.pending.remove(at);
            self.memory.uffd.wake(pending.address);
        }
        self.pages.lost(id);
        match state {
            State::Active | State::Stuck | State::Free => self.untrack(id),
            State::Inactive | State::Remote | State::Fetching => self.discard(id),
        }
    }

    /// Renames the pages that `mremap` moved. Pages tracked at the new place were unmapped before.
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
}
