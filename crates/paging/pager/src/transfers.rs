//! Transfers of one process over the blade's link: when they arrive, what they and other faults cost, and their
//! capture.

use crate::attached;
use crate::control::{ControlHead, count};
use crate::gate;
use crate::link::{self, Delays};
use crate::spool::{FETCH, Spool, SpooledTransfer, WRITE_BACK};
use crate::sys::PAGE;
use alloc::collections::BTreeMap;
use core::sync::atomic::Ordering::{Relaxed, Release};
use core::sync::atomic::compiler_fence;

/// Accounts of a process's transfers.
pub(crate) struct Transfers {
    control: &'static ControlHead,
    delays: Delays,
    spool: Option<Spool>,
    /// Time in ns for which a page occupies the link.
    transmit_ns: u64,
    /// Part of a fault's cost that a pager cannot see, in ns: half before it, half after it.
    unseen_ns: u64,
    /// Start of the run (monotonic ns).
    start_ns: u64,
    /// Time in ns that each thread, by its index, lost to the pager itself.
    lost_ns: BTreeMap<u32, u64>,
}

/// Fetch that has ended.
pub(crate) struct Fetched {
    pub(crate) address: usize,
    /// Time when the pager knew of the fault.
    pub(crate) seen_ns: u64,
    /// Time when the program should have had the page.
    pub(crate) due_ns: u64,
    /// Index of the thread that waited.
    pub(crate) thread: u32,
    /// Our time in ns, since the thread's previous fetch, for faults that a real blade would not have.
    pub(crate) overhead_ns: u64,
}

impl Transfers {
    /// Makes the accounts of the process with this index.
    pub(crate) fn new(control: &'static ControlHead, process: u32, spool: Option<Spool>) -> Transfers {
        let settings = &control.settings;
        Transfers {
            control,
            delays: Delays::new(control, attached::samples(control), process),
            spool,
            transmit_ns: link::transmit_ns(settings, PAGE as u64),
            unseen_ns: settings.unseen_ns.load(Relaxed),
            start_ns: settings.start_ns.load(Relaxed),
            lost_ns: BTreeMap::new(),
        }
    }

    /// Requests a page for a fault seen at `seen_ns`. Returns when to give it to the program, if that takes
    /// `finish_ns`.
    pub(crate) fn request(&mut self, seen_ns: u64, finish_ns: u64) -> u64 {
        let latency_ns = self.delays.next_ns(&self.control.settings, self.transmit_ns);
        // The access came half the unseen part before we knew of it, and goes on half of it after.
        let unseen = self.unseen_ns / 2;
        let free = &self.control.downlink_free_ns;
        let arrival = link::arrival(free, seen_ns.saturating_sub(unseen), self.transmit_ns, latency_ns);
        let due_ns = arrival.saturating_sub(unseen + finish_ns);
        if due_ns < seen_ns {
            count(&self.control.counts.below_floor, 1);
        }
        due_ns
    }

    /// Accounts a fetch whose page the program has since `now_ns`.
    pub(crate) fn fetched(&mut self, fetched: Fetched, now_ns: u64) {
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

    /// Accounts a page that changed and leaves now: it occupies the link that sends.
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

    /// Accounts a fault that was no fetch, seen at `seen_ns`. Returns its cost: time in ns that a real blade would
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
        // What is counted next has its record, also if the process ends in between.
        compiler_fence(Release);
    }
}
