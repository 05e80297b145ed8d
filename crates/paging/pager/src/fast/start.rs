//! Start of the engine and of its tick thread, in a program that begins and in the child of a fork.

use super::descriptors::{self, hide};
use super::engine::{self, FastMode};
use super::space::FastSpace;
use super::{raw, reclaim};
use crate::attached;
use crate::bare_thread::{self, with_signals_blocked};
use crate::baseline::{self, Baseline};
use crate::control::{ControlHead, ProcessSlot, Unpaged, count};
use crate::memory::Memory;
use crate::owner::RunOwner;
use crate::scan::Scan;
use crate::sys::{FEATURE_MOVE, FEATURE_SIGBUS};
use crate::transfers::TransferAccounts;
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

/// Features that the kernel's userfaultfd must offer.
pub const FEATURES: u64 = FEATURE_SIGBUS | FEATURE_MOVE;

/// Starts the engine, with no page tracked yet. No page is evicted before [`start_ticking`].
pub(super) fn start_engine(control: &'static ControlHead) -> Result<(), Errno> {
    let pid = rustix::process::getpid().as_raw_nonzero().get() as u32;
    let slot = &control.slots[control.take_slot(pid).ok_or(Errno::NOSPC)?];
    let installed = install(control, slot);
    if installed.is_err() {
        control.free(slot, pid);
    }
    installed
}

fn install(control: &'static ControlHead, slot: &'static ProcessSlot) -> Result<(), Errno> {
    let process = slot.process.load(Relaxed);
    descriptors::keep_over_forks();
    let memory = Memory::open(FEATURES, &mut descriptors::kept(), hide)?;
    baseline::measure();
    let spool =
        attached::open_spool(control, process)?.map(|spool| spool.with_descriptor(hide)).transpose()?;
    let owner = RunOwner::new(attached::open_locked(control).map(hide).transpose()?);
    let baseline = Baseline::measured(control, slot, &memory);
    let transfers = TransferAccounts::new(control, process, spool);
    let space = FastSpace::new(control, slot, Some(memory), heap_end());
    engine::install(engine(space, transfers, owner, baseline));
    count(&control.counts.processes, 1);
    Ok(())
}

/// Starts an engine that leaves all memory of this process local, in the child of a fork that cannot have another engine. The program's
/// calls and signals still go to the handlers of fast mode.
pub(super) fn start_local_engine(control: &'static ControlHead, why: Errno) {
    let space = FastSpace::new(control, &NOWHERE, None, heap_end());
    let transfers = TransferAccounts::new(control, 0, None);
    engine::install(engine(space, transfers, RunOwner::new(None), Baseline::unmeasured(control, &NOWHERE)));
    control.note_unpaged(match why {
        Errno::ACCESS | Errno::PERM | Errno::NOENT => Unpaged::Rights,
        _ => Unpaged::Limits,
    });
}

fn engine(space: FastSpace, transfers: TransferAccounts, owner: RunOwner, baseline: Baseline) -> FastMode {
    FastMode {
        space,
        transfers,
        scan: Scan::default(),
        owner,
        baseline,
        next_tick_ns: 0,
        forked_ns: 0,
        finish_ns: 0,
        next_serial: 1,
    }
}

fn heap_end() -> usize {
    // SAFETY: only queries the end of the heap.
    unsafe { raw::call(libc::SYS_brk as usize, [0; 6]) as usize }
}

/// Slot for processes that have no slot in the control file.
static NOWHERE: ProcessSlot = ProcessSlot::new();

/// Starts the tick thread, which evicts pages. From now on, the calling thread's faults must be dispatched to fast mode.
pub(super) fn start_ticking() -> Result<(), Errno> {
    // SAFETY: `tick_main` never returns, uses only its own stack, the first, and its own memory, and touches no thread-local storage.
    with_signals_blocked(|| unsafe { bare_thread::start(reclaim::tick_main, 0, true, 0) })
}
