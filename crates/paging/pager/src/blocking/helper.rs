//! Helper thread of the pager, for calls that the pager cannot make itself.
//!
//! `madvise` on registered memory returns only after the pager has read the message about it. Therefore the pager must never call
//! `madvise`, and the helper does so on its behalf:
//! - *forget*: empties slots of the arena whose contents are not needed, so that pages can be moved in again;
//! - *unshare*: pages that a fork left shared cannot be moved. If the helper populates them for writing, this process gets its own copies.
//!   Some pages may be missing at that time, which causes faults that the pager serves.
//!
//! The helper is also the guard of the pager during bursts ([`super::handover`]). It gives no guard while it makes a call for the pager, so
//! it ends the burst first.
//!
//! Orders pass through a ring that only the pager fills and only the helper empties; each side advances only its own counter. `FILLED`
//! (release) pairs with the helper's load (acquire), `EMPTIED` (release) with [`is_done`]. The helper sleeps until `CALLS` changes.

use super::handover::{self, GUARD_NS, Guard};
use crate::sys::timespec;
use crate::{bare_thread, door, gate, reserved_region};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};
use rustix::io::Errno;
use rustix::thread::futex;

const RING: usize = 256;

/// Call that the helper makes for `[at, at+len)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum HelperCall {
    Forget { at: usize, len: usize },
    Unshare { at: usize, len: usize },
}

static AT: [AtomicUsize; RING] = [const { AtomicUsize::new(0) }; RING];
/// Lengths of the ranges; the lowest bit marks [`HelperCall::Unshare`].
static LEN: [AtomicUsize; RING] = [const { AtomicUsize::new(0) }; RING];
static FILLED: AtomicU32 = AtomicU32::new(0);
/// Number of calls of the helper, for whatever reason.
static CALLS: AtomicU32 = AtomicU32::new(0);
static EMPTIED: AtomicU32 = AtomicU32::new(0);
static RUNNING: AtomicU32 = AtomicU32::new(0);
/// Number of the helper thread; 0: it has not begun.
static THREAD: AtomicU32 = AtomicU32::new(0);
static ENDING: AtomicU32 = AtomicU32::new(0);

/// Queues an order for the helper. Returns its number, or `None` if the ring is full or the helper cannot be started; the caller must try
/// again later.
pub(super) fn post(order: HelperCall) -> Option<u32> {
    handover::end();
    let number = FILLED.load(Relaxed);
    if number.wrapping_sub(EMPTIED.load(Acquire)) as usize == RING || !ensure_running() {
        return None;
    }
    let (at, len) = match order {
        HelperCall::Forget { at, len } => (at, len),
        HelperCall::Unshare { at, len } => (at, len | 1),
    };
    AT[number as usize % RING].store(at, Relaxed);
    LEN[number as usize % RING].store(len, Relaxed);
    FILLED.store(number.wrapping_add(1), Release);
    wake();
    Some(number)
}

/// Makes the helper look for what it has to do. Starts the helper if necessary and possible.
pub(super) fn call() {
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
pub(super) fn is_done(number: u32) -> bool {
    EMPTIED.load(Acquire).wrapping_sub(number) as i32 > 0
}

/// Ends the helper thread, if it exists, after it has carried out its orders. No further order may be queued.
pub(super) fn end() {
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
pub(super) fn thread() -> u32 {
    while RUNNING.load(Acquire) == 1 && THREAD.load(Acquire) == 0 {
        rustix::thread::sched_yield();
    }
    THREAD.load(Acquire)
}

/// Resets the state in the child of a fork, which has no helper and no orders.
pub(super) fn reset() {
    handover::reset();
    FILLED.store(0, Relaxed);
    EMPTIED.store(0, Relaxed);
    RUNNING.store(0, Relaxed);
    THREAD.store(0, Relaxed);
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
    let mut guard = Guard::default();
    let moment = timespec(GUARD_NS);
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
    }
}

fn carry_out(at: usize, len: usize) {
    if len & 1 == 0 {
        // SAFETY: the pager gave these slots up and reuses them only after this call.
        return unsafe { reserved_region::forget(at, len) };
    }
    // SAFETY: changes no contents. The call fails without harm if memory is gone or not writable.
    let _ =
        unsafe { rustix::mm::madvise(at as *mut c_void, len - 1, rustix::mm::Advice::LinuxPopulateWrite) };
}
