//! Memory that the kernel uses on behalf of the program.
//!
//! A system call that meets a missing page fails, or worse, loses data. So the memory of each call is made
//! present before it, and held until the thread's next call or fault: by then the call is over.

use super::engine::{Engine, lock};
use super::fault::{Fault, resolve};
use super::thread::Thread;
use crate::sys::{PAGE, now_ns};
use crate::table::State;

/// Makes every page of `[start, end)` present, and keeps it present until [`release`].
pub(super) fn hold(thread: &Thread, start: usize, end: usize) {
    let (start, end) = (start & !(PAGE - 1), end.next_multiple_of(PAGE));
    let mut engine = lock();
    engine.holds.add(thread, start, end);
    thread.holds.set(true);
    let mut at = start;
    while let Some(address) = engine.next_missing(at, end) {
        drop(engine);
        resolve(thread, Fault { address, write: false, entered_ns: now_ns() });
        at = address + PAGE;
        engine = lock();
    }
}

/// Ends all holds of a thread.
pub(super) fn release(thread: &Thread) {
    if thread.holds.replace(false) {
        lock().holds.release(thread);
    }
}

impl Engine {
    /// Returns the first page of `[start, end)` that an access would fault on.
    fn next_missing(&self, start: usize, end: usize) -> Option<usize> {
        let table = &self.pages.table;
        let is_here = |page| {
            let state = table.find(page).map(|id| table.get(id).state);
            matches!(state, Some(State::Active | State::Stuck))
        };
        let mut at = start;
        while let Some((from, to)) = self.registered.next(at)
            && from < end
        {
            let missing = (at.max(from)..to.min(end)).step_by(PAGE).find(|page| !is_here(*page));
            if missing.is_some() {
                return missing;
            }
            at = to;
        }
        None
    }
}
