//! Engine of fast mode: its state in one process, protected by a lock.

use super::lock::{Held, Lock};
use super::space::Space;
use crate::baseline::Baseline;
use crate::owner::Owner;
use crate::scan::Scan;
use crate::transfers::Transfers;

/// State of fast mode in one process.
pub(super) struct Engine {
    pub(super) space: Space,
    pub(super) transfers: Transfers,
    pub(super) scan: Scan,
    pub(super) owner: Owner,
    pub(super) baseline: Baseline,
    pub(super) next_tick_ns: u64,
    /// Time when this process last forked.
    pub(super) forked_ns: u64,
    /// Moving average of the pager's own work between the arrival of a page and its move into the program, in ns.
    pub(super) finish_ns: u64,
    /// Number of the next fetch.
    pub(super) next_serial: u64,
}

static ENGINE: Lock<Engine> = Lock::new();

/// Waits for the lock on the engine, which [`install`] must have installed.
pub(super) fn lock() -> Held<Engine> {
    ENGINE.lock()
}

/// Installs the engine at start, before any thread can lock it.
pub(super) fn install(engine: Engine) {
    ENGINE.put(engine);
}
