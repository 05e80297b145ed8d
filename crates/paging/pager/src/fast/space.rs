//! Pages of the process and the memory that they are in.
//!
//! Unlike the blocking pager, fast mode makes all changes of the address space itself, on behalf of the program and with the lock held.
//! Therefore the bookkeeping is never outdated, and every page that is tracked as active is present.

use super::holds::Holds;
use crate::control::{ControlHead, ProcessSlot};
use crate::memory::Memory;
use crate::ranges::AddressSet;
use crate::residency::Residency;
use crate::sys::PAGE;
use crate::table::{RecordId, State};
use crate::{gate, reserved_region};
use alloc::vec::Vec;
use core::ffi::c_void;
use rustix::mm::Advice;

/// The program's address space: the bookkeeping of its pages, and the memory that is registered and held.
pub(super) struct FastSpace {
    pub(super) control: &'static ControlHead,
    pub(super) memory: SpaceAccess,
    pub(super) pages: Residency,
    /// Memory whose missing pages raise `SIGBUS`. All pages that are present in it are tracked.
    pub(super) registered: AddressSet,
    /// Memory in use by system calls in progress.
    pub(super) holds: Holds,
    /// Address at which the program's heap ends.
    pub(super) brk: usize,
}

/// Access to the program's memory. A process that runs with all its memory local has no access, and registers and tracks no memory.
pub(super) struct SpaceAccess(Option<Memory>);

impl core::ops::Deref for SpaceAccess {
    type Target = Memory;
    fn deref(&self) -> &Memory {
        self.0.as_ref().expect("only what is registered is looked at")
    }
}

impl FastSpace {
    /// Makes the space of the process that has this `slot`, with no memory tracked or registered yet.
    pub(super) fn new(
        control: &'static ControlHead,
        slot: &'static ProcessSlot,
        memory: Option<Memory>,
        brk: usize,
    ) -> FastSpace {
        FastSpace {
            control,
            memory: SpaceAccess(memory),
            pages: Residency::new(control, slot),
            registered: AddressSet::default(),
            holds: Holds::default(),
            brk,
        }
    }

    /// Moves a page's contents from its slot into the program. Copies them instead if the memory is currently not writable or is locked,
    /// because `UFFDIO_MOVE` refuses such memory.
    pub(super) fn put_back(&mut self, id: RecordId, write: bool, now_ns: u64) {
        let (address, slot) = (self.pages.table.get(id).address, reserved_region::slot(id));
        if self.memory.give(address, slot, PAGE, false).1.is_err() {
            if self.memory.copy(self.control, address, slot).is_err() {
                gate::die(self.control, "internal error: a page has no place any more. Please report this");
            }
            // SAFETY: the contents are in the program again.
            unsafe { reserved_region::forget(slot, PAGE) };
        }
        self.pages.activate(id, write, now_ns);
    }

    /// Returns the first page of `[start, end)` on which an access would fault.
    pub(super) fn next_missing(&self, start: usize, end: usize) -> Option<usize> {
        let table = &self.pages.table;
        let is_here = |page| {
            let state = table.find(page).map(|id| table.get(id).state);
            matches!(state, Some(State::Active | State::Stuck))
        };
        let mut at = start;
        while let Some((from, to)) = self.registered.next(at)
            && from < end
        {
            let missing = (at.max(from)..to.min(end)).step_by(PAGE).find(|page| !is_here(*page));
            if missing.is_some() {
                return missing;
            }
            at = to;
        }
        None
    }

    /// Registers memory. Returns whether pages were found there.
    pub(super) fn register(&mut self, start: usize, end: usize) -> bool {
        // A system call in progress must find the pages that it uses.
        self.holds.parts(start, end).for_each(|(from, to)| populate(from, to - from));
        if self.memory.uffd.register(start, end - start).is_err() {
            return false;
        }
        self.registered.add(start, end);
        self.track_present(start, end)
    }

    pub(super) fn track_present(&mut self, start: usize, end: usize) -> bool {
        self.pages.track_present(&self.memory, start, end, |_| true)
    }

    /// Registers memory that was registered before it moved.
    pub(super) fn register_again(&mut self, start: usize, end: usize) {
        if start < end && self.memory.uffd.register(start, end - start).is_err() {
            gate::die(self.control, "internal error: moved memory cannot be registered. Please report this");
        }
        self.registered.add(start, end);
    }

    /// Removes these addresses from the bookkeeping: their pages and their registration.
    pub(super) fn forget_mapping(&mut self, start: usize, end: usize) {
        self.forget(start, end);
        self.registered.remove(start, end);
    }

    /// Removes pages whose contents are gone from the bookkeeping.
    pub(super) fn forget(&mut self, start: usize, end: usize) {
        let mut full: Vec<RecordId> = Vec::new();
        for id in self.tracked(start, end) {
            self.pages.lost(id);
            if !matches!(self.pages.table.get(id).state, State::Active | State::Stuck) {
                full.push(id);
            }
            self.pages.table.remove(id);
        }
        full.sort_unstable();
        for run in full.chunk_by(|a, b| a + 1 == *b) {
            // SAFETY: these contents are not needed, and the lock keeps the slots from being reused meanwhile.
            unsafe { reserved_region::forget(reserved_region::slot(run[0]), run.len() * PAGE) };
        }
    }

    /// Returns the tracked pages of a range.
    pub(super) fn tracked(&self, start: usize, end: usize) -> Vec<RecordId> {
        let mut ids = Vec::new();
        if start < end {
            self.pages.table.tracked_in(start, end, &mut ids);
        }
        ids
    }
}

/// Makes the kernel provide present and private pages, as if the program had written to them.
pub(super) fn populate(start: usize, len: usize) {
    // SAFETY: changes no contents. The call fails without harm if memory is not writable.
    let _ = unsafe { rustix::mm::madvise(start as *mut c_void, len, Advice::LinuxPopulateWrite) };
}
