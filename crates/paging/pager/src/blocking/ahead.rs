//! Read-ahead: pages that are fetched before a thread waits for them, if the run's settings ask for it.
//!
//! When such a page arrives, the pager puts it into the program, so that its touch costs no fault. The first page of each batch stays out
//! of the program, as an inactive page: its touch shows that the batch is of use ([`crate::trend`]).

use super::fetches::{Fetch, KernelFault};
use super::pager::Pager;
use crate::control::count;
use crate::reserved_region;
use crate::sys::{PAGE, now_ns};
use crate::table::{PageLocation, RecordId, State};
use crate::trend::FetchAhead;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

impl Pager {
    /// Fetches the pages that a thread will probably need next. The thread waits for the page at `address`.
    pub(super) fn read_ahead_of(&mut self, address: usize, thread: u32) {
        let most = self.most_ahead();
        if most > 0 {
            let plan = self.threads.faulted(thread, now_ns()).trend.missed(address, most);
            self.read_ahead(plan, thread);
        }
    }

    /// Fetches the next batch if the page at `address`, which the thread touched, is the marker of the current batch.
    pub(super) fn read_on(&mut self, address: usize, thread: u32) {
        let most = self.most_ahead();
        if most == 0 {
            return;
        }
        let trend = &mut self.threads.faulted(thread, now_ns()).trend;
        if trend.is_marker(address) {
            let plan = trend.reached(most);
            self.read_ahead(plan, thread);
        }
    }

    fn most_ahead(&self) -> usize {
        self.control.settings.read_ahead.load(Relaxed) as usize
    }

    fn read_ahead(&mut self, plan: FetchAhead, thread: u32) {
        let mut is_first = true;
        for address in plan.addresses() {
            let Some(id) = self.space.pages.table.find(address).filter(|id| self.can_come_early(*id)) else {
                continue;
            };
            let fault = KernelFault { address, write: false, thread, read_ns: now_ns() };
            self.begin_fetch(id, fault, false);
            count(&self.control.counts.ahead, 1);
            if is_first {
                self.threads.faulted(thread, fault.read_ns).trend.mark(address, plan);
                is_first = false;
            }
        }
    }

    /// Returns whether a page is remote, and its slot is not in use for another purpose.
    fn can_come_early(&self, id: RecordId) -> bool {
        let record = self.space.pages.table.get(id);
        record.state == State::Remote && !record.emptying && record.contents != PageLocation::Leaving
    }

    /// Puts a page that was fetched ahead into the program, or leaves it inactive if it is the marker. No thread waits for the page yet.
    pub(super) fn finish_ahead(&mut self, fetch: Fetch) {
        let Fetch { id, fault: KernelFault { thread, .. }, .. } = fetch;
        let record = *self.space.pages.table.get(id);
        let Some(contents) = self.space.contents(id).filter(|_| record.state == State::Fetching) else {
            return;
        };
        let is_marker = self.threads.faulted(thread, now_ns()).trend.is_marker(record.address);
        let (_, result) = match (is_marker, record.contents) {
            (true, PageLocation::Landed) => self.space.memory.take(reserved_region::slot(id), contents, PAGE),
            (true, _) => (0, Ok(())),
            (false, _) => self.space.memory.give(record.address, contents, PAGE, true),
        };
        match result {
            Ok(()) => {
                self.space.contents_moved(id);
                match is_marker {
                    true => self.space.pages.stayed(id),
                    false => self.space.pages.activate(id, false, now_ns()),
                }
            }
            Err(Errno::AGAIN) => {
                self.space.fetches.begin(fetch);
                return self.space.read_changes();
            }
            // The place of the page is gone, or not writable now. Therefore the page stays remote.
            Err(_) => {
                self.space.pages.table.set_state(id, State::Remote);
                self.space.store.dropped(&mut self.space.pages.table, id);
                self.space.memory.uffd.wake(record.address);
            }
        }
        self.reclaim();
    }
}
