//! Changes of the program's address space, applied to the books.
//!
//! The kernel refuses every `UFFDIO_MOVE` and `UFFDIO_COPY` with `EAGAIN` from the moment a change begins until
//! its message was read, so nothing here can act on a mapping that has changed unnoticed.

use crate::control::count;
use crate::den;
use crate::gate;
use crate::moves;
use crate::pager::Pager;
use crate::sys::{Event, PAGE};
use crate::table::{Id, State};
use rustix::fd::AsFd;
use rustix::io::Errno;

impl Pager {
    /// Reads until no change is outstanding, and applies the changes. Faults read meanwhile wait.
    pub(crate) fn read_changes(&mut self) {
        match self.read_events() {
            Ok(true) => self.apply_changes(),
            // The change has begun but its message has not arrived: its thread needs to run.
            Ok(false) => rustix::thread::sched_yield(),
            Err(_) => gate::die(self.control, "the userfaultfd cannot be read any more"),
        }
    }

    /// Applies all changes in the backlog and leaves the faults.
    pub(crate) fn apply_changes(&mut self) {
        for n in 0..self.backlog.len() {
            match self.backlog[n] {
                Event::Fault { .. } => {}
                Event::Remove { start, end } => {
                    self.drop_range(start, end);
                    self.table.set_removed(start, end);
                }
                Event::Unmap { start, end } => {
                    self.drop_range(start, end);
                    self.table.set_registered(start, end, false);
                }
                Event::Remap { from, to, len } => self.remap(from, to, len),
            }
        }
        let before = self.backlog.len();
        self.backlog.retain(|event| matches!(event, Event::Fault { .. }));
        self.changes += (before - self.backlog.len()) as u64;
    }

    /// Drops these pages, whose contents are no longer needed.
    fn drop_range(&mut self, start: usize, end: usize) {
        let mut ids = Vec::new();
        self.table.tracked_in(start, end, &mut ids);
        for id in ids {
            self.drop_page(id);
        }
    }

    fn drop_page(&mut self, id: Id) {
        let record = *self.table.get(id);
        if record.state == State::Fetching
            && let Some(at) = self.pending.iter().position(|pending| pending.id == id)
        {
            let pending = self.pending.remove(at);
            self.uffd.wake(pending.address);
        }
        if matches!(record.state, State::Inactive | State::Active | State::Stuck) {
            self.local = self.local.saturating_sub(1);
        }
        match record.state {
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
        self.table.tracked_in(from, from + len, &mut ids);
        for id in ids {
            let address = self.table.get(id).address;
            self.table.rename(id, to + (address - from));
        }
        for offset in (0..len).step_by(PAGE) {
            let registered = self.table.is_registered(from + offset);
            self.table.set_registered(to + offset, to + offset + PAGE, registered);
        }
        self.table.set_registered(from, from + len, false);
    }

    /// Answers a thread that waits for all pages to be in the program, before a fork, or for one mapping to be
    /// registered.
    pub(crate) fn answer_doorbell(&mut self) {
        if let Some((start, len)) = gate::merge_wish() {
            self.register_whole(start, len);
            gate::merge_done();
        }
        if gate::is_closed() {
            self.thaw();
            gate::set_away(0);
        }
        loop {
            match self.uffd.copy(den::doorbell(), crate::pager::zero_pages(), PAGE).1 {
                Err(Errno::AGAIN) => self.read_changes(),
                _ => return,
            }
        }
    }

    fn register_whole(&mut self, start: usize, len: usize) {
        let end = (start + len).next_multiple_of(PAGE);
        if start.is_multiple_of(PAGE) && self.uffd.register(start, end - start).is_ok() {
            self.table.set_registered(start, end, true);
        }
    }

    /// Puts every page back. The gate is closed, so none is taken meanwhile.
    fn thaw(&mut self) {
        while let Some(pending) = self.pending.pop() {
            self.finish_fetch(pending);
        }
        let mut away: Vec<Id> = self.table.away().collect();
        away.sort_unstable_by_key(|id| self.table.get(*id).address);
        count(&self.control.counts.thawed, away.len() as u64);
        if self.node.is_some() {
            return self.bring_back(&away, |pager, id| pager.put_run_back(&[id]));
        }
        let mut rest = &away[..];
        while let Some(first) = rest.first() {
            // Changes applied meanwhile may have dropped some.
            if !self.is_away(*first) {
                rest = &rest[1..];
                continue;
            }
            let present = rest.iter().take_while(|id| self.is_away(**id)).count();
            let run = self.run_length(&rest[..present]).min(512);
            self.put_run_back(&rest[..run]);
            rest = &rest[run..];
        }
    }

    pub(crate) fn is_away(&self, id: Id) -> bool {
        matches!(self.table.get(id).state, State::Inactive | State::Remote)
    }

    fn put_run_back(&mut self, run: &[Id]) {
        let mut rest = run;
        while let Some(first) = rest.first() {
            let record = *self.table.get(*first);
            if !self.is_away(*first) {
                rest = &rest[1..];
                continue;
            }
            let Some(contents) = self.contents(*first) else { return };
            let pagemap = self.files.pagemap.as_fd();
            let (moved, result) =
                moves::give(&self.uffd, pagemap, record.address, contents, rest.len() * PAGE, true);
            for id in &rest[..moved / PAGE] {
                self.contents_moved(*id);
                self.thawed(*id);
            }
            rest = &rest[moved / PAGE..];
            match result {
                Ok(()) => {}
                // A change may have broken the run of neighbours: go on page by page.
                Err(Errno::AGAIN) => {
                    self.read_changes();
                    if rest.len() > 1 {
                        return rest.iter().for_each(|id| self.put_run_back(&[*id]));
                    }
                }
                Err(_) if rest.len() > 1 => return rest.iter().for_each(|id| self.put_run_back(&[*id])),
                Err(_) => rest = self.copy_first_back(rest),
            }
        }
    }

    fn copy_first_back<'a>(&mut self, run: &'a [Id]) -> &'a [Id] {
        let address = self.table.get(run[0]).address;
        match self.copy_back(run[0], address) {
            Ok(id) => self.thawed(id),
            Err(Errno::AGAIN) => {
                self.read_changes();
                return run;
            }
            Err(Errno::EXIST) => gate::die(self.control, gate::OCCUPIED),
            // Its place is being unmapped; a message will say so.
            Err(_) => {}
        }
        &run[1..]
    }

    /// Marks a page as back. Formerly remote pages will be the first to be taken again, and clean ones must be
    /// known as such then.
    fn thawed(&mut self, id: Id) {
        let was_remote = self.table.get(id).state == State::Remote;
        self.activate(id, false);
        if was_remote {
            self.table.to_front(id);
            self.local += 1;
        }
    }
}
