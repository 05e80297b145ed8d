//! State of the pager of one process, and the kernel's events for it.

use super::landings::Node;
use super::silence::Silence;
use super::slots::Slots;
use super::threads::Threads;
use crate::attached;
use crate::baseline::Baseline;
use crate::control::{ControlHead, ProcessSlot};
use crate::memory::Memory;
use crate::naps::Naps;
use crate::owner::Owner;
use crate::residency::Residency;
use crate::scan::Scan;
use crate::sys::Event;
use crate::table::Id;
use crate::transfers::Transfers;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

/// State of the pager of one process.
pub(super) struct Pager {
    pub control: &'static ControlHead,
    pub slot: &'static ProcessSlot,
    pub memory: Memory,
    pub pages: Residency,
    pub transfers: Transfers,
    pub scan: Scan,
    /// Events that were read but not yet handled.
    pub backlog: VecDeque<Event>,
    incoming: Vec<Event>,
    /// Fetches under way.
    pub pending: Vec<Pending>,
    pub threads: Threads,
    /// Core that this thread is bound to.
    pub here: usize,
    pub baseline: Baseline,
    /// Number of changes of the address space applied so far.
    pub changes: u64,
    /// Time of the next attempt to take stuck pages.
    pub next_retry_ns: u64,
    /// Order to copy pages for this process alone that is being carried out.
    pub unsharing: Option<u32>,
    pub slots: Slots,
    pub node: Option<Node>,
    pub owner: Owner,
    pub silence: Silence,
    pub naps: Naps,
    /// The process is to go on without this pager when `unrack` ends.
    pub is_borrowed: bool,
    /// `unrack` was killed.
    pub is_orphaned: bool,
}

/// Fetch under way.
#[derive(Clone, Copy)]
pub(super) struct Pending {
    pub id: Id,
    /// Address of the fault; the page may have been renamed since.
    pub address: usize,
    pub due_ns: u64,
    pub read_ns: u64,
    /// Time of the request, on the clock of [`Silence`].
    pub begun_ns: u64,
    pub thread: u32,
    pub write: bool,
    /// A thread waits for it: it was not fetched ahead, or not early enough.
    pub is_awaited: bool,
}

impl Pager {
    /// Makes the pager of the process of `slot`, with empty books.
    pub(super) fn new(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        memory: Memory,
        owner: Owner,
        here: usize,
    ) -> Result<Pager, Errno> {
        let process = slot.process.load(Relaxed);
        Ok(Pager {
            control,
            slot,
            baseline: Baseline::measured(control, slot, &memory),
            memory,
            here,
            pages: Residency::new(control, slot),
            transfers: Transfers::new(control, process, attached::open_spool(control, process)?),
            owner,
            scan: Scan::default(),
            backlog: VecDeque::new(),
            incoming: Vec::new(),
            pending: Vec::new(),
            threads: Threads::default(),
            changes: 0,
            next_retry_ns: 0,
            unsharing: None,
            slots: Slots::default(),
            node: None,
            silence: Silence::default(),
            naps: Naps::new(),
            is_borrowed: false,
            is_orphaned: false,
        })
    }

    /// Reads the kernel's events. Returns whether there were any.
    pub(super) fn read_events(&mut self) -> Result<bool, Errno> {
        self.incoming.clear();
        self.memory.uffd.read(&mut self.incoming)?;
        self.backlog.extend(self.incoming.iter().copied());
        Ok(!self.incoming.is_empty())
    }
}
