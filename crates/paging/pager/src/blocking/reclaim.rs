//! Reclaim: takes pages out of the program, and finds pages that can be taken.

use super::space::PagedSpace;
use crate::control::{ControlHead, count};
use crate::helper::{self, HelperCall};
use crate::reclaim::{Reclaim, takes_spare};
use crate::residency::{PageFate, Residency};
use crate::scan::Scan;
use crate::sys::{PAGE, now_ns};
use crate::table::{PageList, RecordId, State};
use crate::transfers::TransferAccounts;
use crate::{gate, pins, reserved_region};
use alloc::vec::Vec;
use rustix::io::Errno;

/// Number of waits for a busy memory node before faults are handled again.
const MOST_WAITS: usize = 4;
/// Time in ns between two attempts to take stuck pages out of the program.
const RETRY_PAUSE_NS: u64 = 20_000_000;
/// Maximum number of stuck pages that are retried at a time.
const MOST_RETRIED: usize = 512;

/// State of reclaim in one process, apart from the bookkeeping of its pages.
pub(super) struct Reclaimer {
    control: &'static ControlHead,
    scan: Scan,
    /// Time of the next attempt to take out stuck pages.
    next_retry_ns: u64,
    /// Number of the helper's current order to copy shared pages for this process, if there is one.
    unsharing: Option<u32>,
}

impl Reclaimer {
    pub(super) fn new(control: &'static ControlHead) -> Reclaimer {
        Reclaimer { control, scan: Scan::default(), next_retry_ns: 0, unsharing: None }
    }

    /// Brings the run back under its limit, as far as this process is responsible, and makes room for `coming` pages that are about to come.
    pub(super) fn reclaim(&mut self, space: &mut PagedSpace, transfers: &mut TransferAccounts, coming: u64) {
        let wanted = space.pages.excess(coming);
        if wanted == 0 {
            return;
        }
        let Some(_open) = gate::enter() else { return };
        space.store.connect();
        let (mut evicted, mut waits) = (0, 0);
        while evicted < wanted && waits < MOST_WAITS && (ReclaimRun { own: self, space }).find_victims() {
            let Some(oldest) = space.pages.next_victim() else { continue };
            if write_out(space, transfers, oldest) {
                evicted += 1;
            } else {
                space.wait_for_node();
                waits += 1;
            }
        }
        gate::set_away(space.pages.table.len(PageList::Inactive) + space.pages.remote_in_slots());
    }

    /// Makes stuck pages active from time to time, and whenever shared pages were copied, so that reclaim tries them again.
    pub(super) fn retry_stuck(&mut self, space: &mut PagedSpace) {
        let now = now_ns();
        let were_copied = self.unsharing.take_if(|order| helper::is_done(*order)).is_some();
        if now < self.next_retry_ns && !were_copied {
            return;
        }
        self.next_retry_ns = now + RETRY_PAUSE_NS;
        let table = &mut space.pages.table;
        for _ in 0..table.len(PageList::Stuck).min(MOST_RETRIED) {
            let Some(id) = table.oldest(PageList::Stuck) else { return };
            table.set_state(id, State::Active);
        }
    }

    /// Has shared pages copied for this process. Only one order may be outstanding, because pages that were taken out before an old order
    /// is carried out would come back because of it.
    fn unshare(&mut self, at: usize, len: usize) {
        if self.unsharing.is_some() || !takes_spare(self.control, len / PAGE) {
            return;
        }
        self.unsharing = helper::post(HelperCall::Unshare { at, len });
        if self.unsharing.is_some() {
            count(&self.control.counts.unshared, (len / PAGE) as u64);
        }
    }
}

/// Makes an inactive page remote. Returns false if the memory node is too busy now.
fn write_out(space: &mut PagedSpace, transfers: &mut TransferAccounts, id: RecordId) -> bool {
    let leaving = space.pages.leaving(id);
    let is_sent = space.store.send_out(&mut space.pages.table, &space.memory, id, leaving.changed);
    if is_sent {
        space.pages.left(leaving, transfers, now_ns());
    }
    is_sent
}

/// Reclaim with access to the pages of its process.
struct ReclaimRun<'a> {
    own: &'a mut Reclaimer,
    space: &'a mut PagedSpace,
}

impl Reclaim for ReclaimRun<'_> {
    fn books(&self) -> &Residency {
        &self.space.pages
    }

    fn scans(&self) -> &Scan {
        &self.own.scan
    }

    fn deactivate(&mut self) -> usize {
        let mut pinned = Vec::new();
        let batch = self.space.pages.choose(usize::MAX, |id, record| match () {
            _ if pins::is_pinned(record.address) => {
                pinned.push(id);
                PageFate::Untracked
            }
            _ if record.emptying => PageFate::Stays,
            _ => PageFate::Goes,
        });
        pinned.into_iter().for_each(|id| self.space.untrack(id));
        let (mut taken, mut rest) = (0, &batch[..]);
        let changes = self.space.events.changes();
        // After a change of the address space was applied, the batch may contain pages that no longer exist.
        while !rest.is_empty() && self.space.events.changes() == changes {
            let (run, others) = rest.split_at(self.space.pages.run_length(rest));
            taken += self.take(run);
            rest = others;
        }
        count(&self.own.control.counts.deactivations, taken as u64);
        taken
    }

    /// Tracks the pages that are present in unregistered memory, because the kernel does not report them. Some scans cover all memory,
    /// because other memory may have replaced registered memory unnoticed. Returns whether there were new pages.
    fn scan(&mut self) -> bool {
        if !self.own.scan.begin(&self.space.memory, self.own.control) {
            return false;
        }
        let all = self.own.scan.looks_everywhere();
        let mut found = false;
        for area in &self.own.scan.areas {
            for (start, end) in self.space.pages.table.unreported(area.start, area.end, all) {
                let is_wanted = |page| !pins::is_pinned(page);
                found |= self.space.pages.track_present(&self.space.memory, start, end, is_wanted);
            }
        }
        self.own.scan.end();
        self.space.pages.scanned();
        found
    }
}

impl ReclaimRun<'_> {
    /// Takes neighbouring pages out of the program. Pages that cannot be taken now become stuck; pages that no longer exist are dropped
    /// from the table. Returns how many pages were taken.
    fn take(&mut self, run: &[RecordId]) -> usize {
        let address = self.space.pages.table.get(run[0]).address;
        if !self.registered(address, run.len()) {
            return self.cannot_take(run, Errno::NOENT);
        }
        match self.make_sure(run) {
            Ok(()) => {}
            Err(Errno::AGAIN) => {
                self.space.read_changes();
                return 0;
            }
            Err(refusal) => return self.cannot_take(run, refusal),
        }
        let (moved, result) =
            self.space.memory.take(reserved_region::slot(run[0]), address, run.len() * PAGE);
        let moved = moved / PAGE;
        self.space.pages.taken(&run[..moved]);
        match result {
            Ok(()) => moved,
            // Some of the remaining pages may be gone or moved by now; they can wait for the next round.
            Err(Errno::AGAIN) => {
                self.space.read_changes();
                moved
            }
            // Neighbouring pages may be in two mappings.
            Err(Errno::INVAL) if moved == 0 && run.len() > 1 => {
                let changes = self.space.events.changes();
                let mut taken = 0;
                for page in run.chunks(1) {
                    if self.space.events.changes() == changes {
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

    /// Makes sure that pages are in registered memory. A page that is taken out of unregistered memory would be lost, because the kernel
    /// would put an empty page in its place. Pages that were found by scanning may be in a mapping that replaced the registered one.
    /// Therefore the pager asks the kernel before it takes these pages for the first time. Afterwards the kernel reports any change of the
    /// mapping, and refuses moves until the report was read. Because a move stays within one mapping, the check of one page covers the
    /// whole run.
    fn make_sure(&mut self, run: &[RecordId]) -> Result<(), Errno> {
        if run.iter().all(|id| self.space.pages.table.get(*id).sure) {
            return Ok(());
        }
        let address = self.space.pages.table.get(run[0]).address;
        match self.space.memory.uffd.probe(address) {
            Err(Errno::EXIST) => Ok(()),
            Err(Errno::AGAIN) => Err(Errno::AGAIN),
            Err(Errno::NOENT) => {
                self.space.pages.table.set_registered(address, address + run.len() * PAGE, false);
                Err(Errno::INVAL)
            }
            Ok(()) | Err(_) => Err(Errno::NOENT),
        }
    }

    fn cannot_take(&mut self, run: &[RecordId], error: Errno) -> usize {
        for id in run {
            match error {
                Errno::NOENT | Errno::FAULT | Errno::NOMEM => self.space.untrack(*id),
                _ => {
                    self.space.pages.table.set_state(*id, State::Stuck);
                    count(&self.own.control.counts.stuck, 1);
                }
            }
        }
        if error == Errno::BUSY
            && let Some((at, len)) = self.space.pages.shared(run[0], gate::forked_ns())
        {
            self.own.unshare(at, len);
        }
        0
    }

    fn registered(&mut self, address: usize, pages: usize) -> bool {
        let end = address + pages * PAGE;
        let each = || (address..end).step_by(PAGE);
        self.space.pages.table.is_all_registered(address, end)
            || each().all(|page| self.space.pages.table.is_registered(page) || self.register_mapping(page))
    }

    /// Registers the whole mapping of a page. If only a part were registered, the mapping would be split, and `mremap` would fail.
    fn register_mapping(&mut self, address: usize) -> bool {
        let Some(area) = self.own.scan.area_at(&self.space.memory, address) else { return false };
        self.space.register(area.start, area.end)
    }
}
