//! Coordination of the program's threads and the pager: forks, merges of mappings, and the emergency end.
//!
//! A fork copies the address space; contents that are in the arena at that moment would be lost to the child. So
//! a thread that is about to fork closes the *gate*: reclaim takes nothing while it is closed. If pages are away,
//! the thread rings the *doorbell*, a page of the den that is always missing: before it answers that fault, the
//! pager puts every page back.
//!
//! `CLOSED` and `BUSY` are Dekker's two flags: the forking thread writes CLOSED then reads BUSY, the pager writes
//! BUSY then reads CLOSED, all sequentially consistent, so at least one sees the other.

use crate::control::{ControlHead, Unpaged};
use crate::{carried, den};
use core::sync::atomic::{
    AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::SeqCst,
};

static CLOSED: AtomicU32 = AtomicU32::new(0);
static BUSY: AtomicBool = AtomicBool::new(false);
/// Number of pages whose contents are not in the program.
static AWAY: AtomicUsize = AtomicUsize::new(0);

/// True if this process has no pager, and goes on with all of its memory local.
static IS_LOCAL: AtomicBool = AtomicBool::new(false);
/// True if system calls of a thread are filtered: it might be ended for one of ours.
static IS_FILTERED: AtomicBool = AtomicBool::new(false);
/// True if the pager is to give all back and to end.
static IS_TO_LEAVE: AtomicBool = AtomicBool::new(false);

pub(crate) const OCCUPIED: &str =
    "internal error: the place of a page that was taken is occupied. Please report this";

/// Reported instead of copying from an empty slot, which would wait for the pager, the very thread that copies.
pub(crate) const EMPTY: &str =
    "internal error: the contents of a page that was taken are gone. Please report this";

/// Time when this process last forked (monotonic ns).
static FORKED_NS: AtomicU64 = AtomicU64::new(0);

/// Guard that is held while pages are being taken.
pub(crate) struct Open;

impl Drop for Open {
    fn drop(&mut self) {
        BUSY.store(false, SeqCst);
    }
}

/// Returns a guard with which the pager may take pages; `None` while a thread forks.
pub(crate) fn enter() -> Option<Open> {
    BUSY.store(true, SeqCst);
    let open = Open;
    (CLOSED.load(SeqCst) == 0).then_some(open)
}

pub(crate) fn set_away(pages: usize) {
    AWAY.store(pages, SeqCst);
}

pub(crate) fn forked_ns() -> u64 {
    FORKED_NS.load(Relaxed)
}

/// Returns whether this process has no pager, and goes on with all of its memory local.
pub fn is_local() -> bool {
    IS_LOCAL.load(SeqCst)
}

/// Lets this process go on without a pager. All of its pages are in the program.
pub fn stay_local(control: &ControlHead, why: Unpaged) {
    IS_LOCAL.store(true, SeqCst);
    control.note_unpaged(why);
}

/// Notes that the program is about to filter system calls of a thread, or that it does not after all.
pub fn set_filtered(is_filtered: bool) {
    IS_FILTERED.store(is_filtered, SeqCst);
}

/// Returns whether system calls of a thread are filtered.
pub fn is_filtered() -> bool {
    IS_FILTERED.load(SeqCst)
}

/// Returns whether the pager is to give all back and to end.
pub(crate) fn is_to_leave() -> bool {
    IS_TO_LEAVE.load(SeqCst)
}

/// Has the pager give all back and end, in a thread of the program. Returns when all is in the program.
pub(crate) fn ask_to_leave() {
    IS_TO_LEAVE.store(true, SeqCst);
    while !is_local() {
        ring();
    }
}

/// Closes the gate before a fork, in the forking thread. Returns when every page is in the program and will stay.
pub fn close() {
    CLOSED.fetch_add(1, SeqCst);
    while BUSY.load(SeqCst) {
        give_way();
    }
    // Another thread's ring may have been answered in place of ours: only the result counts.
    while AWAY.load(SeqCst) > 0 {
        ring();
    }
    if !is_filtered() {
        carried::carry();
    }
}

/// Opens the gate after the fork, in the parent.
pub fn open() {
    if !is_filtered() {
        carried::put_down();
        note_fork();
    }
    CLOSED.fetch_sub(1, SeqCst);
}

/// Lets another thread run, without a call where one might end this thread.
fn give_way() {
    match is_filtered() {
        true => core::hint::spin_loop(),
        false => rustix::thread::sched_yield(),
    }
}

/// Notes that this process forked just now.
pub(crate) fn note_fork() {
    FORKED_NS.store(crate::sys::now_ns(), Relaxed);
}

/// Closes the gate for ever, in the pager: no page is taken any more.
pub(crate) fn shut() {
    CLOSED.fetch_add(1, SeqCst);
}

/// Resets the state after the fork, in the child.
pub(crate) fn reset() {
    CLOSED.store(0, SeqCst);
    BUSY.store(false, SeqCst);
    AWAY.store(0, SeqCst);
    MERGE[1].store(0, SeqCst);
    MERGING.store(false, SeqCst);
}

/// Range to register as a whole, for [`merge`]; valid while its length is not 0.
static MERGE: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];
static MERGING: AtomicBool = AtomicBool::new(false);

/// Registers all of `[start, start+len)`, since the kernel treats registered and unregistered parts of one
/// mapping as separate ones, which `mremap` refuses. Returns when that is done, or cannot be.
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

/// Returns the range that a thread in [`merge`] wants registered.
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

/// Calls the pager. Where a call might end this thread, the pager looks by itself at each tick.
fn ring() {
    if is_filtered() {
        return core::hint::spin_loop();
    }
    let bell = den::doorbell();
    // SAFETY: the doorbell holds nothing; forgetting it makes the next read a fault.
    unsafe { den::forget(bell, den::DOORBELL_BYTES) };
    // SAFETY: mapped and readable. The read returns when the pager has answered.
    unsafe { (bell as *const AtomicUsize).as_ref() }.expect("the den is reserved").load(Relaxed);
}

/// Reason for the end of a program that calls `userfaultfd`.
pub const OWN_PAGER: &str =
    "this program uses userfaultfd itself, and memory cannot have two pagers: run it natively";

/// Exit status of a program that cannot run with remote memory.
pub const LACKING: u8 = 3;

/// Ends the process of a program that uses userfaultfd itself.
pub fn die_of_own_pager(control: &ControlHead) -> ! {
    control.fail_lacking(OWN_PAGER);
    crate::sys::exit(LACKING)
}

/// Ends the process, whose `unrack` was killed.
pub(crate) fn die_orphaned(control: &ControlHead) -> ! {
    die(control, "the process of unrack that watched over this run was killed")
}

/// Ends the process rather than let it continue with wrong data, and leaves the reason for `unrack`.
pub fn die(control: &ControlHead, reason: &str) -> ! {
    control.fail(reason);
    crate::sys::exit(1)
}
