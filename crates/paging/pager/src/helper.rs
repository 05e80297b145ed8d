//! Helper thread of the blocking pager, for calls that the pager cannot make itself.
//!
//! `madvise` and `mremap` on registered memory return only after the pager has read the message about them. Therefore the pager must never
//! make these calls, and the helper makes them on its behalf:
//! - *forget*: empties slots of the arena whose contents are not needed, so that pages can be moved in again;
//! - *unshare*: pages that a fork left shared cannot be moved. If the helper populates them for writing, this process gets its own copies.
//!   Some pages may be missing at that time, which causes faults that the pager serves;
//! - *set aside*: takes pages out of the program on a kernel without `UFFDIO_MOVE` ([`crate::copies`]).
//!
//! The helper is also the guard of the pager during bursts ([`crate::blocking::handover`]). It gives no guard while it makes a call for the
//! pager, so it ends the burst first.
//!
//! Orders pass through a ring that only the pager fills and only the helper empties; each side advances only its own counter. `FILLED`
//! (release) pairs with the helper's load (acquire), `EMPTIED` (release) with [`is_done`]. The helper sleeps until `CALLS` changes.

use crate::blocking::handover::{self, GUARD_NS, Guard};
use crate::{bare_thread, door, gate, reserved_region, sys};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{
    AtomicI32, AtomicU32, AtomicU64, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release,
};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use rustix::thread::futex;

const RING: usize = 256;

/// Call that the helper makes for `[at, at+len)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum HelperCall {
    Forget {
        at: usize,
        len: usize,
    },
    Unshare {
        at: usize,
        len: usize,
    },
    /// Moves the mapping's pages to [`reserved_region::stage`]; their place in the program becomes empty.
    SetAside {
        at: usize,
        len: usize,
    },
}

static AT: [AtomicUsize; RING] = [const { AtomicUsize::new(0) }; RING];
/// Lengths of the ranges, plus `UNSHARE` or `SET_ASIDE`. Lengths are multiples of the page size.
static LEN: [AtomicUsize; RING] = [const { AtomicUsize::new(0) }; RING];
const UNSHARE: usize = 1;
const SET_ASIDE: usize = 2;
static FILLED: AtomicU32 = AtomicU32::new(0);
/// Number of calls of the helper, for whatever reason.
static CALLS: AtomicU32 = AtomicU32::new(0);
static EMPTIED: AtomicU32 = AtomicU32::new(0);
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// Number of the helper thread; 0: it has not begun.
static THREAD: AtomicU32 = AtomicU32::new(0);
static ENDING: AtomicU32 = AtomicU32::new(0);
/// Descriptor of the userfaultfd for [`HelperCall::SetAside`].
static UFFD: AtomicI32 = AtomicI32::new(-1);
/// Error number of the latest [`HelperCall::SetAside`]; 0: it succeeded.
static OUTCOME: AtomicI32 = AtomicI32::new(0);
/// Number of the latest [`HelperCall::Unshare`].
static UNSHARING: AtomicU64 = AtomicU64::new(NO_ORDER);
const NO_ORDER: u64 = u64::MAX;

/// Queues an order for the helper. Returns its number, or `None` if the ring is full or the helper cannot be started; the caller must try
/// again later.
pub(crate) fn post(order: HelperCall) -> Option<u32> {
    handover::end();
    let number = FILLED.load(Relaxed);
    if number.wrapping_sub(EMPTIED.load(Acquire)) as usize == RING || !ensure_running() {
        return None;
    }
    let (at, len) = match order {
        HelperCall::Forget { at, len } => (at, len),
        HelperCall::Unshare { at, len } => {
            UNSHARING.store(u64::from(number), Relaxed);
            (at, len | UNSHARE)
        }
        HelperCall::SetAside { at, len } => (at, len | SET_ASIDE),
    };
    AT[number as usize % RING].store(at, Relaxed);
    LEN[number as usize % RING].store(len, Relaxed);
    FILLED.store(number.wrapping_add(1), Release);
    wake();
    Some(number)
}

/// Makes the helper look for what it has to do. Starts the helper if necessary and possible.
pub(crate) fn call() {
    if ensure_running() {
        wake();
    }
}

fn wake() {
    CALLS.fetch_add(1, Release);
    // A wakeup fails only for an address that is not mapped.
    let _ = futex::wake(&CALLS, futex::Flags::PRIVATE, 1);
}

/// Returns whether the helper has carried out the order with this number.
pub(crate) fn is_done(number: u32) -> bool {
    EMPTIED.load(Acquire).wrapping_sub(number) as i32 > 0
}

/// Waits until the helper has carried out the order with this number. The order must not need an answer by the pager.
pub(crate) fn wait(number: u32) {
    let pause = sys::timespec(1_000_000);
    loop {
        let emptied = EMPTIED.load(Acquire);
        if is_done(number) {
            return;
        }
        // A timeout or a change of the counter ends the wait; both are checked above.
        let _ = futex::wait(&EMPTIED, futex::Flags::PRIVATE, emptied, Some(&pause));
    }
}

/// Returns whether an order to copy shared pages is not carried out yet. Such an order may need the pager to serve faults.
pub(crate) fn is_unsharing() -> bool {
    match UNSHARING.load(Relaxed) {
        NO_ORDER => false,
        number => !is_done(number as u32),
    }
}

/// Names the userfaultfd for the following orders. The descriptor must stay open in the table of files of the calling thread.
pub(crate) fn set_userfaultfd(number: c_int) {
    UFFD.store(number, Relaxed);
}

/// Returns the result of the latest [`HelperCall::SetAside`], which must be done.
pub(crate) fn outcome() -> Result<(), Errno> {
    match OUTCOME.load(Relaxed) {
        0 => Ok(()),
        error => Err(Errno::from_raw_os_error(error)),
    }
}

/// Ends the helper thread, if it exists, after it has carried out its orders. No further order may be queued.
pub(crate) fn end() {
    ENDING.store(1, Relaxed);
    let is_there = || match THREAD.load(Acquire) {
        0 => true,
        thread => bare_thread::is_alive(thread),
    };
    while RUNNING.load(Relaxed) == 1 && is_there() {
        wake();
        rustix::thread::sched_yield();
    }
}

/// Returns the number of the helper thread, after waiting until it has begun; 0 if there is none.
pub(crate) fn thread() -> u32 {
    while RUNNING.load(Acquire) == 1 && THREAD.load(Acquire) == 0 {
        rustix::thread::sched_yield();
    }
    THREAD.load(Acquire)
}

/// Resets the state in the child of a fork, which has no helper and no orders.
pub(crate) fn reset() {
    handover::reset();
    FILLED.store(0, Relaxed);
    EMPTIED.store(0, Relaxed);
    RUNNING.store(0, Relaxed);
    THREAD.store(0, Relaxed);
    UNSHARING.store(NO_ORDER, Relaxed);
}

/// Starts the helper thread unless it is running. It inherits the pager's signal mask, in which all signals are blocked, and shares the
/// pager's table of files. Returns whether the thread runs.
fn ensure_running() -> bool {
    if RUNNING.load(Relaxed) == 1 {
        return true;
    }
    // SAFETY: `helper_main` never returns and uses only its own stack, the second, and the statics above.
    let started = unsafe { bare_thread::start(helper_main, 1, true, 0) }.is_ok();
    RUNNING.store(started as u32, Release);
    started
}

extern "C" fn helper_main(_: *mut c_void) -> c_int {
    THREAD.store(rustix::thread::gettid().as_raw_nonzero().get() as u32, Release);
    door::guard_this_thread();
    let mut guard = Guard::new();
    let moment = sys::timespec(GUARD_NS);
    let mut next = 0u32;
    loop {
        let calls = CALLS.load(Acquire);
        if next == FILLED.load(Acquire) {
            if ENDING.load(Relaxed) != 0 {
                guard.end();
                bare_thread::end();
            }
            let patience = guard.begin().then_some(&moment);
            let waited = futex::wait(&CALLS, futex::Flags::PRIVATE, calls, patience);
            if waited == Err(Errno::TIMEDOUT) && guard.check() {
                gate::ring();
            }
            continue;
        }
        guard.end();
        carry_out(AT[next as usize % RING].load(Relaxed), LEN[next as usize % RING].load(Relaxed));
        next = next.wrapping_add(1);
        EMPTIED.store(next, Release);
        let _ = futex::wake(&EMPTIED, futex::Flags::PRIVATE, 1);
    }
}

fn carry_out(at: usize, marked: usize) {
    let len = marked & !(UNSHARE | SET_ASIDE);
    match marked & (UNSHARE | SET_ASIDE) {
        // SAFETY: the pager gave these slots up and reuses them only after this call.
        0 => unsafe { reserved_region::forget(at, len) },
        UNSHARE => {
            let advice = rustix::mm::Advice::LinuxPopulateWrite;
            // SAFETY: changes no contents. The call fails without harm if memory is gone or not writable.
            let _ = unsafe { rustix::mm::madvise(at as *mut c_void, len, advice) };
        }
        _ => {
            let outcome = set_aside(at, len).err().map_or(0, Errno::raw_os_error);
            OUTCOME.store(outcome, Relaxed);
        }
    }
}

/// Moves pages to the stage, unless the address space is changing. Returns after the pager has read the message about the move, or at once
/// if the memory was not registered.
fn set_aside(at: usize, len: usize) -> Result<(), Errno> {
    // SAFETY: the pager keeps its userfaultfd open as long as the helper lives, and the helper shares the pager's table of files.
    if sys::is_changing(unsafe { BorrowedFd::borrow_raw(UFFD.load(Relaxed)) }) {
        return Err(Errno::AGAIN);
    }
    let stage = reserved_region::stage().ok_or(Errno::NOMEM)?;
    // SAFETY: only the pager uses the stage. It is empty, and it puts the pages that it receives into the slots of the arena.
    let moved = unsafe { sys::set_aside(at, len, stage) };
    if moved.is_err() {
        reserved_region::mend_stage(len);
    }
    moved
}
