//! Pages fetched before a thread waits for them, if the run is to read ahead.
//!
//! A page that arrives is put into the program, so that its touch costs nothing. The first page of each batch stays out, inactive:
//! its touch tells that the batch is of use ([`crate::trend`]).

use super::pager::{Pager, Pending};
use crate::control::count;
use crate::den;
use crate::sys::{PAGE, now_ns};
use crate::table::{Contents, Id, State};
use crate::trend::Plan;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

impl Pager {
    /// Fetches what a thread is about to want that waits for the page at `address`.
    pub(super) fn read_ahead_of(&mut self, address: usize, thread: u32) {
        let most = self.most_ahead();
        if most > 0 {
            let plan = self.threads.faulted(thread, now_ns(), self.control).trend.missed(address, most);
            self.read_ahead(plan, thread);
        }
    }

    /// Fetches the next batch if the page at `address`, which the thread touched, is its marker.
    pub(super) fn read_on(&mut self, address: usize, thread: u32) {
        let most = self.most_ahead();
        if most == 0 {
            return;
        }
        let trend = &mut self.threads.faulted(thread, now_ns(), self.control).trend;
        if trend.is_marker(address) {
            let plan = trend.reached(most);
            self.read_ahead(plan, thread);
        }
    }

    fn most_ahead(&self) -> usize {
        self.control.settings.read_ahead.load(Relaxed) as usize
    }

    fn read_ahead(&mut self, plan: Plan, thread: u32) {
        let mut is_first = true;
        for address in plan.addresses() {
            let Some(id) = self.pages.table.find(address).filter(|id| self.can_come_early(*id)) else {
                continue;
            };
            let now = now_ns();
            let due_ns = self.transfers.request(now, 0);
            let begun_ns = self.silence.awake_ns();
            self.pages.table.set_state(id, State::Fetching);
            let (read_ns, write, is_awaited) = (now, false, false);
            self.pending.push(Pending { id, address, due_ns, read_ns, begun_ns, thread, write, is_awaited });
            count(&self.control.counts.ahead, 1);
            if is_first {
                self.threads.faulted(thread, now, self.control).trend.mark(address, plan);
                is_first = false;
            }
        }
    }

    /// Returns whether a page is remote, and its slot is not in use for another purpose.
    fn can_come_early(&self, id: Id) -> bool {
        let record = self.pages.table.get(id);
        record.state == State::Remote && !record.emptying && record.contents != Contents::Leaving
    }

    /// Takes in a page that arrived before a thread waited for it.
    pub(super) fn finish_ahead(&mut self, pending: Pending) {
        let Pending { id, thread, .. } = pending;
        let record = *self.pages.table.get(id);
        let Some(contents) = self.contents(id).filter(|_| record.state == State::Fetching) else { return };
        let is_marker = self.threads.faulted(thread, now_ns(), self.control).trend.is_marker(record.address);
        let (_, result) = match (is_marker, record.contents) {
            (true, Contents::Landed) => self.memory.take(den::slot(id), contents, PAGE),
            (true, _) => (0, Ok(())),
            (false, _) => self.memory.give(record.address, contents, PAGE, true),
        };
        match result {
            Ok(()) => {
                self.contents_moved(id);
                match is_marker {
                    true => self.pages.stayed(id),
                    false => self.pages.activate(id, false, now_ns()),
                }
            }
            Err(Errno::AGAIN) => {
                self.pending.push(pending);
                return self.read_changes();
            }
            // Its place is gone, or not writable now: it stays where it is.
            Err(_) => {
                self.pages.table.set_state(id, State::Remote);
                self.dropped(id);
                self.memory.uffd.wake(record.address);
            }
        }
        self.reclaim();
    }
}
