//! Reclaim: takes pages from the program, and finds pages that could be taken.

use super::helper::{self, Order};
use super::pager::Pager;
use crate::control::count;
use crate::reclaim::{Reclaim, takes_spare};
use crate::residency::{Fate, Residency};
use crate::scan::Scan;
use crate::sys::{PAGE, now_ns};
use crate::table::{Id, PageList, State};
use crate::{den, gate, pins};
use alloc::vec::Vec;
use rustix::io::Errno;

/// Number of waits for a busy memory node before faults are handled again.
const MOST_WAITS: usize = 4;
/// Time in ns between two attempts to take stuck pages.
const RETRY_PAUSE_NS: u64 = 20_000_000;
/// Most stuck pages that are tried again at a time.
const MOST_RETRIED: usize = 512;

impl Reclaim for Pager {
    fn books(&self) -> &Residency {
        &self.pages
    }

    fn scans(&self) -> &Scan {
        &self.scan
    }

    fn deactivate(&mut self) -> usize {
        let mut pinned = Vec::new();
        let batch = self.pages.choose(usize::MAX, |id, record| match () {
            _ if pins::is_pinned(record.address) => {
                pinned.push(id);
                Fate::Untracked
            }
            _ if record.emptying => Fate::Stays,
            _ => Fate::Goes,
        });
        pinned.into_iter().for_each(|id| self.untrack(id));
        let (mut taken, mut rest) = (0, &batch[..]);
        let changes = self.changes;
        // After a change of the address space was applied, the batch may name pages that no longer exist.
        while !rest.is_empty() && self.changes == changes {
            let (run, others) = rest.split_at(self.pages.run_length(rest));
            taken += self.take(run);
            rest = others;
        }
        count(&self.control.counts.deactivations, taken as u64);
        taken
    }

    /// Tracks the pages present in unregistered memory, which are not reported otherwise. Now and then it looks
    /// everywhere, for memory that replaced registered memory unnoticed. Returns whether there were any.
    fn scan(&mut self) -> bool {
        if !self.scan.begin(&self.memory, self.control) {
            return false;
        }
        let all = self.scan.looks_everywhere();
        let mut found = false;
        for area in &self.scan.areas {
            for (start, end) in self.pages.table.unreported(area.start, area.end, all) {
                let is_wanted = |page| !pins::is_pinned(page);
                found |= self.pages.track_present(&self.memory, start, end, is_wanted);
            }
        }
        self.scan.end();
        self.pages.scanned();
        found
    }
}

impl Pager {
    /// Brings the run back under its limit, as far as this process has to.
    pub(super) fn reclaim(&mut self) {
        let wanted = self.pages.excess();
        if wanted == 0 {
            return;
        }
        let Some(_open) = gate::enter() else { return };
        self.connect();
        let (mut evicted, mut waits) = (0, 0);
        while evicted < wanted && waits < MOST_WAITS && self.find_victims() {
            let Some(oldest) = self.pages.next_victim() else { continue };
            if self.write_out(oldest) {
                evicted += 1;
            } else {
                self.wait_for_node();
                waits += 1;
            }
        }
        gate::set_away(self.pages.table.len(PageList::Inactive) + self.pages.remote_in_slots());
    }

    /// Makes an inactive page remote. Returns false if the memory node is too busy now.
    fn write_out(&mut self, id: Id) -> bool {
        let leaving = self.pages.leaving(id);
        let is_sent = self.send_out(id, leaving.changed);
        if is_sent {
            self.pages.left(leaving, &mut self.transfers, now_ns());
        }
        is_sent
    }

    /// Makes stuck pages active from time to time, so that taking them is tried again, and when some were copied.
    pub(super) fn retry_stuck(&mut self) {
        let now = now_ns();
        let were_copied = self.unsharing.take_if(|order| helper::is_done(*order)).is_some();
        if now < self.next_retry_ns && !were_copied {
            return;
        }
        self.next_retry_ns = now + RETRY_PAUSE_NS;
        for _ in 0..self.pages.table.len(PageList::Stuck).min(MOST_RETRIED) {
            let Some(id) = self.pages.table.oldest(PageList::Stuck) else { return };
            self.pages.table.set_state(id, State::Active);
        }
    }

    /// Takes neighbouring pages. Those that cannot be taken now become stuck; those that no longer exist are
    /// forgotten. Returns how many were taken.
    fn take(&mut self, run: &[Id]) -> usize {
        let address = self.pages.table.get(run[0]).address;
        if !self.registered(address, run.len()) {
            return self.cannot_take(run, Errno::NOENT);
        }
        match self.make_sure(run) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                self.read_changes();
                return 0;
            }
            Err(refusal) => return self.cannot_take(run, refusal),
        }
        let (moved, result) = self.memory.take(den::slot(run[0]), address, run.len() * PAGE);
        let moved = moved / PAGE;
        self.pages.taken(&run[..moved]);
        match result {
            Ok(()) => moved,
            // Some of the rest may be gone or elsewhere now; they can wait for the next round.
            Err(Errno::AGAIN) => {
                self.read_changes();
                moved
            }
            // Neighbours may be in two mappings.
            Err(Errno::INVAL) if moved == 0 && run.len() > 1 => {
                let changes = self.changes;
                let mut taken = 0;
                for page in run.chunks(1) {
                    if self.changes == changes {
                        taken += self.take(page);
                    }
                }
                taken
            }
            Err(error) => {
                let after = self.cannot_take(&run[moved..moved + 1], error);
                moved + after + if moved + 1 < run.len() { self.take(&run[moved + 1..]) } else { 0 }
            }
        }
    }

    /// Makes sure that pages are in registered memory. A page taken from unregistered memory would be lost: the
    /// kernel would put an empty one in its place. Pages found by scanning may be in a mapping that replaced the
    /// registered one, so this asks the kernel before they are taken for the first time. Afterwards any change of
    /// the mapping is reported, and until the report was read nothing can be moved. A move stays within one
    /// mapping, so one page stands for all.
    fn make_sure(&mut self, run: &[Id]) -> Result<(), Errno> {
        if run.iter().all(|id| self.pages.table.get(*id).sure) {
            return Ok(());
        }
        let address = self.pages.table.get(run[0]).address;
        match self.memory.uffd.probe(address) {
            Err(Errno::EXIST) => Ok(()),
            Err(Errno::AGAIN) => Err(Errno::AGAIN),
            Err(Errno::NOENT) => {
                self.pages.table.set_registered(address, address + run.len() * PAGE, false);
                Err(Errno::INVAL)
            }
            Ok(()) | Err(_) => Err(Errno::NOENT),
        }
    }

    fn cannot_take(&mut self, run: &[Id], error: Errno) -> usize {
        for id in run {
            match error {
                Errno::NOENT | Errno::FAULT | Errno::NOMEM => self.untrack(*id),
                _ => {
                    self.pages.table.set_state(*id, State::Stuck);
                    count(&self.control.counts.stuck, 1);
                }
            }
        }
        if error == Errno::BUSY
            && let Some((at, len)) = self.pages.shared(run[0], gate::forked_ns())
        {
            self.unshare(at, len);
        }
        0
    }

    /// Has pages copied for this process. One order at a time: what is taken before an old one is carried out would come
    /// back by it.
    fn unshare(&mut self, at: usize, len: usize) {
        if self.unsharing.is_some() {
            return;
        }
        if !takes_spare(self.control, len / PAGE) {
            return;
        }
        self.unsharing = helper::post(Order::Unshare { at, len });
        if self.unsharing.is_some() {
            count(&self.control.counts.unshared, (len / PAGE) as u64);
        }
    }

    fn registered(&mut self, address: usize, pages: usize) -> bool {
        let end = address + pages * PAGE;
        let each = || (address..end).step_by(PAGE);
        self.pages.table.is_all_registered(address, end)
            || each().all(|page| self.pages.table.is_registered(page) || self.register_mapping(page))
    }

    /// Registers the whole mapping of a page: registering a part would split it, which makes `mremap` fail.
    fn register_mapping(&mut self, address: usize) -> bool {
        let Some(area) = self.scan.area_at(&self.memory, address) else { return false };
        let registered = self.memory.uffd.register(area.start, area.end - area.start).is_ok();
        if registered {
            self.pages.table.set_registered(area.start, area.end, true);
        }
        registered
    }
}
