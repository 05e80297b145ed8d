//! Engine of fast mode: its state in one process, protected by a lock.

use super::lock::{Lock, LockGuard};
use super::space::FastSpace;
use crate::baseline::Baseline;
use crate::owner::RunOwner;
use crate::scan::Scan;
use crate::transfers::TransferAccounts;

/// State of fast mode in one process.
pub(super) struct FastMode {
    pub(super) space: FastSpace,
    pub(super) transfers: TransferAccounts,
    pub(super) scan: Scan,
    pub(super) owner: RunOwner,
    pub(super) baseline: Baseline,
    pub(super) next_tick_ns: u64,
    /// Time when this process last forked.
    pub(super) forked_ns: u64,
    /// Moving average of the pager's own work between the arrival of a page and its move into the program, in ns.
    pub(super) finish_ns: u64,
    /// Number of the next fetch.
    pub(super) next_serial: u64,
}

static ENGINE: Lock<FastMode> = Lock::new();

/// Waits for the lock on the engine, which [`install`] must have installed.
pub(super) fn lock() -> LockGuard<FastMode> {
    ENGINE.lock()
}

/// Returns whether another thread waits for the lock on the engine.
pub(super) fn is_awaited() -> bool {
    ENGINE.is_awaited()
}

/// Installs the engine at start, before any thread can lock it.
pub(super) fn install(engine: FastMode) {
    ENGINE.put(engine);
}
