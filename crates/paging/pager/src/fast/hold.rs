//! Holds: memory that the kernel uses on behalf of the program and that therefore stays present.
//!
//! If a system call meets a missing page, the call fails or, worse, loses data. Therefore the memory of each call is made present before
//! the call, and held until the thread's next call or fault, because the call is over by then. If a handler of the program interrupts the
//! call before it is made, the memory is held until that handler has returned. Otherwise the handler's own calls and faults would release
//! the memory, and it would have to be fetched again; if signals come faster than that, the program never gets to make the call. This
//! happened with timers of short periods.

use super::engine::lock;
use super::fault::{ThreadFault, resolve};
use super::thread::Thread;
use crate::sys::{PAGE, now_ns};

/// Makes every page of `[start, end)` present, and keeps it present until [`release`].
pub(super) fn hold(thread: &Thread, start: usize, end: usize) {
    let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
    let mut engine = lock();
    engine.space.holds.add(thread, start, end);
    thread.holds.set(true);
    let mut at = start;
    while let Some(address) = engine.space.next_missing(at, end) {
        drop(engine);
        resolve(thread, ThreadFault { address, write: false, entered_ns: now_ns() });
        at = address + PAGE;
        engine = lock();
    }
}

/// Ends the holds of a thread's last call. Holds of calls that a handler interrupted end when the stack pointer shows that the thread has
/// left the handler, possibly by a jump.
pub(super) fn release(thread: &Thread, pointer: usize) {
    if thread.holds.get() {
        let alternate = thread.alternate.get();
        let is_left = |handler| alternate.has_left(handler, pointer);
        thread.holds.set(lock().space.holds.release(thread, is_left));
    }
}

/// Keeps the holds of a call that a handler of the program interrupts. The frame of the handler is at `handler`.
pub(super) fn keep(thread: &Thread, handler: usize) {
    if thread.holds.get() {
        lock().space.holds.keep(thread, handler);
    }
}

/// Ends the holds that were kept while a handler ran.
pub(super) fn end(thread: &Thread, handler: usize) {
    if thread.holds.get() {
        lock().space.holds.end(thread, handler);
    }
}
