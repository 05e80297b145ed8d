//! Engine of fast mode: its books, and moves of pages between their slots and the program.
//!
//! Unlike the blocking pager, we make all changes of the address space ourselves, in the program's stead, with the
//! lock held: the books are never outdated, and every page that is tracked as active is present.

use super::holds::Holds;
use super::lock::{Held, Lock};
use crate::baseline::Baseline;
use crate::control::ControlHead;
use crate::den;
use crate::gate;
use crate::memory::Memory;
use crate::owner::Owner;
use crate::ranges::Ranges;
use crate::residency::Residency;
use crate::scan::Scan;
use crate::sys::PAGE;
use crate::table::Id;
use crate::transfers::Transfers;

/// State of fast mode in one process.
pub(super) struct Engine {
    pub(super) control: &'static ControlHead,
    pub(super) memory: Access,
    pub(super) pages: Residency,
    pub(super) transfers: Transfers,
    pub(super) scan: Scan,
    pub(super) owner: Owner,
    /// Memory whose missing pages raise `SIGBUS`. All pages present in it are tracked.
    pub(super) registered: Ranges,
    /// Memory in use by system calls under way.
    pub(super) holds: Holds,
    pub(super) baseline: Baseline,
    /// Address at which the heap ends.
    pub(super) brk: usize,
    pub(super) next_tick_ns: u64,
    /// Time when this process last forked.
    pub(super) forked_ns: u64,
    /// Moving average of our own work between a page's arrival and the program, in ns.
    pub(super) finish_ns: u64,
    /// Number of the next fetch.
    pub(super) next_serial: u64,
}

/// Access to the program's memory; none in a process that goes on with all of it local, where nothing is registered or tracked.
pub(super) struct Access(pub(super) Option<Memory>);

impl core::ops::Deref for Access {
    type Target = Memory;
    fn deref(&self) -> &Memory {
        self.0.as_ref().expect("only what is registered is looked at")
    }
}

static ENGINE: Lock<Engine> = Lock::new();

/// Waits for the engine, which [`install`] installed.
pub(super) fn lock() -> Held<Engine> {
    ENGINE.lock()
}

/// Installs the engine at start, before any thread can ask for it.
pub(super) fn install(engine: Engine) {
    ENGINE.put(engine);
}

impl Engine {
    /// Moves a page's contents from its slot into the program; copies them into memory that is not writable right
    /// now, or locked, where `UFFDIO_MOVE` refuses.
    pub(super) fn put_back(&mut self, id: Id, write: bool, now_ns: u64) {
        let (address, slot) = (self.pages.table.get(id).address, den::slot(id));
        if self.memory.give(address, slot, PAGE, false).1.is_err() {
            if self.memory.copy(self.control, address, slot).is_err() {
                gate::die(self.control, "internal error: a page has no place any more. Please report this");
            }
            // SAFETY: the contents are in the program again.
            unsafe { den::forget(slot, PAGE) };
        }
        self.pages.activate(id, write, now_ns);
    }
}
