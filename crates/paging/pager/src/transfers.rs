//! Transfers of one process over the blade's link: their arrival times, their cost and that of other faults, and their capture.

use crate::attached;
use crate::control::{ControlHead, count};
use crate::gate;
use crate::link::{self, LatencySource};
use crate::spool::{FETCH, Spool, SpooledTransfer, WRITE_BACK};
use crate::sys::PAGE;
use alloc::collections::BTreeMap;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

/// Accounts of the transfers of one process.
pub(crate) struct TransferAccounts {
    control: &'static ControlHead,
    delays: LatencySource,
    spool: Option<Spool>,
    /// Time in ns for which a page occupies the link.
    transmit_ns: u64,
    /// Part of a fault's cost that a pager cannot measure, in ns: half of it before the pager sees the fault, half of it after.
    unseen_ns: u64,
    /// Start of the run (monotonic ns).
    start_ns: u64,
    /// Time in ns that each thread lost to the pager itself, by the index of the thread.
    lost_ns: BTreeMap<u32, u64>,
}

/// A fetch that has ended.
pub(crate) struct EndedFetch {
    pub(crate) address: usize,
    /// Time when the pager learned of the fault (monotonic ns).
    pub(crate) seen_ns: u64,
    /// Time when the program should have had the page (monotonic ns).
    pub(crate) due_ns: u64,
    /// Index of the thread that waited for the page.
    pub(crate) thread: u32,
    /// Time in ns that the pager spent since the thread's previous fetch on faults that a real blade would not have.
    pub(crate) overhead_ns: u64,
}

impl TransferAccounts {
    /// Makes the accounts of the process with this index.
    pub(crate) fn new(control: &'static ControlHead, process: u32, spool: Option<Spool>) -> TransferAccounts {
        let settings = &control.settings;
        TransferAccounts {
            control,
            delays: LatencySource::new(control, attached::samples(control), process),
            spool,
            transmit_ns: link::transmit_ns(settings, PAGE as u64),
            unseen_ns: settings.unseen_ns.load(Relaxed),
            start_ns: settings.start_ns.load(Relaxed),
            lost_ns: BTreeMap::new(),
        }
    }

    /// Requests a page because of a fault that the pager saw at `seen_ns`. Returns the time at which the pager must begin to give the page
    /// to the program if giving takes `finish_ns`.
    pub(crate) fn request(&mut self, seen_ns: u64, finish_ns: u64) -> u64 {
        let latency_ns = self.delays.next_ns(&self.control.settings, self.transmit_ns);
        // The access happened half of the unseen time before the pager saw it, and continues half of the unseen time after the pager has
        // answered.
        let unseen = self.unseen_ns / 2;
        let free = &self.control.downlink_free_ns;
        let arrival = link::arrival(free, seen_ns.saturating_sub(unseen), self.transmit_ns, latency_ns);
        let due_ns = arrival.saturating_sub(unseen + finish_ns);
        if due_ns < seen_ns {
            count(&self.control.counts.below_floor, 1);
        }
        due_ns
    }

    /// Accounts a fetch whose page came into the program at `now_ns`.
    pub(crate) fn fetched(&mut self, fetched: EndedFetch, now_ns: u64) {
        let wait_ns = now_ns - fetched.seen_ns + self.unseen_ns;
        let lost_ns = self.lost_ns.entry(fetched.thread).or_default();
        *lost_ns += now_ns.saturating_sub(fetched.due_ns) + fetched.overhead_ns;
        self.control.counts.pager_ns.fetch_max(*lost_ns, Relaxed);
        self.record(SpooledTransfer {
            t_ns: fetched.seen_ns.saturating_sub(self.unseen_ns / 2 + self.start_ns),
            page: (fetched.address / PAGE) as u64,
            wait_ns,
            overhead_ns: fetched.overhead_ns,
            thread: fetched.thread,
            kind: FETCH,
        });
        count(&self.control.counts.fetches, 1);
        count(&self.control.counts.wait_ns, wait_ns);
    }

    /// Accounts a changed page that leaves the program now and therefore occupies the sending link.
    pub(crate) fn wrote_back(&mut self, address: usize, now_ns: u64) {
        link::arrival(&self.control.uplink_free_ns, now_ns, self.transmit_ns, 0);
        self.record(SpooledTransfer {
            t_ns: now_ns.saturating_sub(self.start_ns),
            page: (address / PAGE) as u64,
            wait_ns: 0,
            overhead_ns: 0,
            thread: 0,
            kind: WRITE_BACK,
        });
        count(&self.control.counts.write_backs, 1);
    }

    /// Accounts a fault that the pager saw at `seen_ns` and that was not a fetch. Returns its cost: the time in ns that a real blade would
    /// not have taken.
    pub(crate) fn overhead_ns(&self, seen_ns: u64, now_ns: u64) -> u64 {
        let cost_ns = now_ns - seen_ns + self.unseen_ns;
        count(&self.control.counts.overhead_ns, cost_ns);
        cost_ns
    }

    fn record(&mut self, transfer: SpooledTransfer) {
        if let Some(spool) = &mut self.spool
            && spool.push(transfer).is_err()
        {
            gate::die(self.control, "no room left on disk to capture the run's remote transfers");
        }
        // The record is written before the counts that follow, so that each counted transfer has a record even if the process ends in
        // between.
        compiler_fence(Release);
    }
}
