//! Memory that the kernel uses on behalf of the program.
//!
//! A system call that meets a missing page fails, or worse, loses data. So the memory of each call is made
//! present before it, and held until the thread's next call or fault: by then the call is over. If a handler of the
//! program interrupts the call before it is made, until that handler has returned: calls and faults of the handler
//! would otherwise let the memory go, to be fetched again, and the next signal may come before it is all there. Timers
//! with periods shorter than that kept programs from ever making a call.

use super::engine::lock;
use super::fault::{Fault, resolve};
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
        resolve(thread, Fault { address, write: false, entered_ns: now_ns() });
        at = address + PAGE;
        engine = lock();
    }
}

/// Ends the holds of a thread's last call. Those of calls that a handler interrupted end when its stack pointer shows that
/// the thread has left the handler, which may be by a jump.
pub(super) fn release(thread: &Thread, pointer: usize) {
    if thread.holds.get() {
        let alternate = thread.alternate.get();
        let is_left = |handler| alternate.has_left(handler, pointer);
        thread.holds.set(lock().space.holds.release(thread, is_left));
    }
}

/// Keeps the holds of the call before which a thread is sent to a handler, whose frame is at `handler`.
pub(super) fn keep(thread: &Thread, handler: usize) {
    if thread.holds.get() {
        lock().space.holds.keep(thread, handler);
    }
}

/// Ends the holds that were kept for a handler.
pub(super) fn end(thread: &Thread, handler: usize) {
    if thread.holds.get() {
        lock().space.holds.end(thread, handler);
    }
}
