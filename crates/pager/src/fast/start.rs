//! Start of the engine and of its tick thread, in a program that begins and in the child of a fork.

use super::descriptors::hide;
use super::engine::{self, Engine};
use super::holds::Holds;
use super::{raw, reclaim};
use crate::attached;
use crate::bare_thread::{self, with_signals_blocked};
use crate::baseline::{self, Baseline};
use crate::control::{ControlHead, count};
use crate::memory::Memory;
use crate::owner::Owner;
use crate::ranges::Ranges;
use crate::residency::Residency;
use crate::scan::Scan;
use crate::sys::{FEATURE_MOVE, FEATURE_SIGBUS};
use crate::transfers::Transfers;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

/// Features that the kernel's userfaultfd must offer.
pub const FEATURES: u64 = FEATURE_SIGBUS | FEATURE_MOVE;

/// Starts the engine, with empty books. Nothing is taken before [`start_ticking`].
pub(super) fn start_engine(control: &'static ControlHead) -> Result<(), Errno> {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let slot = &control.slots[control.take_slot(pid).ok_or(Errno::NOSPC)?];
    let process = slot.process.load(Relaxed);
    let memory = Memory::open(FEATURES, hide)?;
    baseline::measure();
    let spool =
        attached::open_spool(control, process)?.map(|spool| spool.with_descriptor(hide)).transpose()?;
    // SAFETY: only queries the end of the heap.
    let brk = unsafe { raw::call(libc::SYS_brk as usize, [0; 6]) } as usize;
    engine::install(Engine {
        control,
        baseline: Baseline::measured(control, slot, &memory),
        memory,
        pages: Residency::new(control, slot),
        transfers: Transfers::new(control, process, spool),
        scan: Scan::default(),
        owner: Owner::new(attached::open_locked(control).map(hide).transpose()?),
        registered: Ranges::default(),
        holds: Holds::default(),
        brk,
        next_tick_ns: 0,
        forked_ns: 0,
        finish_ns: 0,
        next_serial: 1,
    });
    count(&control.counts.processes, 1);
    Ok(())
}

/// Starts the tick thread, which takes pages. From now on the calling thread's faults have to come to us.
pub(super) fn start_ticking() -> Result<(), Errno> {
    // SAFETY: `tick_main` never returns, uses only its own stack, the first, and its own memory, and touches no
    // thread-local storage.
    with_signals_blocked(|| unsafe { bare_thread::start(reclaim::tick_main, 0, true, 0) })
}
