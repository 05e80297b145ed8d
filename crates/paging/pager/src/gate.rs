//! Coordination of the program's threads and the pager: forks, merges of mappings, and the emergency end.
//!
//! A fork copies the address space, but the child does not get contents that are in the parent's arena at that moment. Therefore a thread
//! that is about to fork closes the *gate*, and the pager takes no page out while the gate is closed. If some pages are out of the program,
//! the thread also rings the *doorbell*, a page of the reserved region that is always missing: before the pager answers that fault, it puts
//! every page back.
//!
//! `CLOSED` and `BUSY` are the two flags of Dekker's algorithm: the forking thread writes `CLOSED` and then reads `BUSY`; the pager writes
//! `BUSY` and then reads `CLOSED`. Because all four accesses are sequentially consistent, at least one side sees the flag of the other.

use crate::control::{ControlHead, Unpaged};
use crate::{carried, reserved_region};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};

static CLOSED: AtomicU32 = AtomicU32::new(0);
static BUSY: AtomicBool = AtomicBool::new(false);
/// Number of pages whose contents are not in the program's memory.
static AWAY: AtomicUsize = AtomicUsize::new(0);

/// True if this process has no pager and runs with all of its memory local.
static IS_LOCAL: AtomicBool = AtomicBool::new(false);
/// True if system calls of a thread of the program are filtered. The filter might then end a thread because of one of the pager's calls.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);
/// True if the pager is to put all pages back into the program and to end.
static IS_TO_LEAVE: AtomicBool = AtomicBool::new(false);

pub(crate) const OCCUPIED: &str =
    "internal error: the place of a page that was taken is occupied. Please report this";

/// Error that is reported instead of copying from an empty slot: the copying thread is the pager itself, so that it would wait for itself.
pub(crate) const EMPTY: &str =
    "internal error: the contents of a page that was taken are gone. Please report this";

/// Time when this process last forked (monotonic ns).
static FORKED_NS: AtomicU64 = AtomicU64::new(0);

/// Guard that the pager holds while it takes pages out of the program.
pub(crate) struct OpenGate;

impl Drop for OpenGate {
    fn drop(&mut self) {
        BUSY.store(false, SeqCst);
    }
}

/// Returns a guard under which the pager may take pages out of the program, or `None` while a thread forks.
pub(crate) fn enter() -> Option<OpenGate> {
    BUSY.store(true, SeqCst);
    let open = OpenGate;
    (CLOSED.load(SeqCst) == 0).then_some(open)
}

pub(crate) fn set_away(pages: usize) {
    AWAY.store(pages, SeqCst);
}

pub(crate) fn forked_ns() -> u64 {
    FORKED_NS.load(Relaxed)
}

/// Returns whether this process has no pager and runs with all of its memory local.
pub fn is_local() -> bool {
    IS_LOCAL.load(SeqCst)
}

/// Makes this process continue without a pager. All of its pages must be in the program already.
pub fn stay_local(control: &ControlHead, why: Unpaged) {
    IS_LOCAL.store(true, SeqCst);
    control.note_unpaged(why);
}

/// Notes that the program is about to filter system calls of a thread, or that it did not install the filter after all.
pub fn set_filtered(is_filtered: bool) {
    IS_FILTERED.store(is_filtered, SeqCst);
}

/// Returns whether system calls of a thread of the program are filtered.
pub fn is_filtered() -> bool {
    IS_FILTERED.load(SeqCst)
}

/// Returns whether the pager is to put all pages back into the program and to end.
pub(crate) fn is_to_leave() -> bool {
    IS_TO_LEAVE.load(SeqCst)
}

/// Asks the pager to put all pages back and to end. Called in a thread of the program; returns when all pages are in the program.
pub(crate) fn ask_to_leave() {
    IS_TO_LEAVE.store(true, SeqCst);
    while !is_local() {
        ring();
    }
}

/// Closes the gate before a fork, in the forking thread. When this function returns, every page is in the program and stays there.
pub fn close() {
    CLOSED.fetch_add(1, SeqCst);
    while BUSY.load(SeqCst) && !is_local() {
        give_way();
    }
    // Another thread's ring may have been answered instead of this one. Therefore the loop checks the result.
    while AWAY.load(SeqCst) > 0 && !is_local() {
        ring();
    }
    carried::carry(!is_filtered() && !is_local());
}

/// Opens the gate after the fork, in the parent.
pub fn open() {
    if carried::put_down() {
        note_fork();
    }
    CLOSED.fetch_sub(1, SeqCst);
}

/// Lets another thread run. Makes no system call where a filter might end this thread because of it.
pub(crate) fn give_way() {
    match is_filtered() {
        true => core::hint::spin_loop(),
        false => rustix::thread::sched_yield(),
    }
}

/// Notes that this process forked just now.
pub(crate) fn note_fork() {
    FORKED_NS.store(crate::sys::now_ns(), Relaxed);
}

/// Closes the gate permanently, in the pager: from then on, no page is taken out of the program.
pub(crate) fn shut() {
    CLOSED.fetch_add(1, SeqCst);
}

/// Resets the state of the gate after the fork, in the child.
pub(crate) fn reset() {
    carried::reset();
    CLOSED.store(0, SeqCst);
    BUSY.store(false, SeqCst);
    AWAY.store(0, SeqCst);
    MERGE[1].store(0, SeqCst);
    MERGING.store(false, SeqCst);
}

/// Start and length of the range that [`merge`] wants registered as a whole; valid while the length is not 0.
static MERGE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static MERGING: AtomicBool = AtomicBool::new(false);

/// Has the pager register all of `[start, start+len)`. This is necessary because the kernel treats registered and unregistered parts of one
/// mapping as separate mappings, which `mremap` refuses. Returns when the range is registered, or when it cannot be.
pub fn merge(start: usize, len: usize) {
    while MERGING.swap(true, SeqCst) {
        give_way();
    }
    MERGE[0].store(start, SeqCst);
    MERGE[1].store(len, SeqCst);
    while MERGE[1].load(SeqCst) > 0 && !is_local() {
        ring();
    }
    MERGING.store(false, SeqCst);
}

/// Returns the start and the length of the range that a thread in [`merge`] wants registered.
pub(crate) fn merge_wish() -> Option<(usize, usize)> {
    let len = MERGE[1].load(SeqCst);
    (len > 0).then(|| (MERGE[0].load(SeqCst), len))
}

pub(crate) fn merge_done() {
    MERGE[1].store(0, SeqCst);
}

pub(crate) fn is_closed() -> bool {
    CLOSED.load(SeqCst) != 0
}

/// Calls the pager. Where a system call might end this thread, the function only spins, because the pager checks for requests at each tick
/// anyway.
pub(crate) fn ring() {
    if is_filtered() {
        return core::hint::spin_loop();
    }
    let bell = reserved_region::doorbell();
    // SAFETY: the doorbell has no contents. Dropping it makes the next read a fault.
    unsafe { reserved_region::forget(bell, reserved_region::DOORBELL_BYTES) };
    // SAFETY: mapped and readable. The read returns when the pager has answered.
    unsafe { (bell as *const AtomicUsize).as_ref() }.expect("the reserved region is reserved").load(Relaxed);
}

/// Reason that is reported when a program is ended because it calls `userfaultfd`.
pub const OWN_PAGER: &str =
    "this program uses userfaultfd itself, and memory cannot have two pagers: run it natively";

/// Exit status of a program that cannot run with remote memory.
pub const LACKING: u8 = 3;

/// Ends the process because its program uses userfaultfd itself.
pub fn die_of_own_pager(control: &ControlHead) -> ! {
    control.fail_lacking(OWN_PAGER);
    crate::sys::exit(LACKING)
}

/// Ends the process because the `unrack` that watched over it was killed.
pub(crate) fn die_orphaned(control: &ControlHead) -> ! {
    die(control, "the process of unrack that watched over this run was killed")
}

/// Ends the process rather than let it continue with wrong data, and records the reason for `unrack`.
pub fn die(control: &ControlHead, reason: &str) -> ! {
    control.fail(reason);
    crate::sys::exit(1)
}
