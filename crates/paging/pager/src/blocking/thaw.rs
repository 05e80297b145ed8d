//! Every page back in the program, before a fork; and registration of whole mappings, which threads also ask for
//! at the doorbell.

use super::pager::Pager;
use crate::sys::{PAGE, now_ns};
use crate::table::{Id, State};
use crate::{den, gate};
use rustix::io::Errno;

impl Pager {
    /// Answers a thread that waits for all pages to be in the program, before a fork, or for one mapping to be
    /// registered.
    pub(super) fn answer_doorbell(&mut self) {
        self.answer_wishes();
        loop {
            match self.memory.fill(den::doorbell(), 1).1 {
                Err(Errno::AGAIN) => self.read_changes(),
                _ => return,
            }
        }
    }

    /// Does what threads of the program wait for.
    pub(super) fn answer_wishes(&mut self) {
        if let Some((start, len)) = gate::merge_wish() {
            self.register_whole(start, len);
            gate::merge_done();
        }
        if gate::is_closed() {
            self.thaw_all();
            gate::set_away(0);
        }
    }

    fn register_whole(&mut self, start: usize, len: usize) {
        let end = (start + len).next_multiple_of(PAGE);
        if start.is_multiple_of(PAGE) && self.memory.uffd.register(start, end - start).is_ok() {
            self.pages.table.set_registered(start, end, true);
        }
    }

    /// Puts every page back. The gate is closed, so none is taken meanwhile.
    pub(super) fn thaw_all(&mut self) {
        loop {
            let changes = self.changes;
            self.thaw();
            // The place of a page that is left is being moved or unmapped: a message will say so.
            let may_help = self.changes != changes || self.memory.uffd.is_changing();
            if !may_help || !self.is_any_away() {
                return;
            }
            self.read_changes();
        }
    }

    /// Returns whether any page is not in the program.
    pub(super) fn is_any_away(&self) -> bool {
        !self.pending.is_empty() || self.pages.table.away().next().is_some()
    }

    /// Puts every page back whose place is there.
    fn thaw(&mut self) {
        while let Some(pending) = self.pending.pop() {
            self.finish_fetch(pending);
        }
        let away = self.pages.thawing();
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
            let run = self.pages.run_length(&rest[..present]).min(512);
            self.put_run_back(&rest[..run]);
            rest = &rest[run..];
        }
    }

    fn put_run_back(&mut self, run: &[Id]) {
        let mut rest = run;
        while let Some(first) = rest.first() {
            let record = *self.pages.table.get(*first);
            if !self.is_away(*first) {
                rest = &rest[1..];
                continue;
            }
            let Some(contents) = self.contents(*first) else { return };
            let (moved, result) = self.memory.give(record.address, contents, rest.len() * PAGE, true);
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
        let address = self.pages.table.get(run[0]).address;
        match self.copy_back(run[0], address) {
            Ok(id) => self.thawed(id),
            Err(Errno::AGAIN) => {
                self.read_changes();
                return run;
            }
            // Its place is being moved or unmapped.
            Err(_) => {}
        }
        &run[1..]
    }

    /// Marks a page as back. Formerly remote pages will be the first to be taken again, and clean ones must be
    /// known as such then.
    fn thawed(&mut self, id: Id) {
        let was_remote = self.pages.table.get(id).state == State::Remote;
        self.pages.activate(id, false, now_ns());
        if was_remote {
            self.pages.table.to_front(id);
        }
    }
}
