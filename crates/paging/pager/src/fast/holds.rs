//! Memory that system calls in progress use, and that is not evicted meanwhile.

use super::thread::Thread;
use alloc::vec::Vec;

/// Range of memory that a thread's system call uses.
struct Hold {
    start: usize,
    end: usize,
    /// Thread that makes the call.
    thread: *const Thread,
    /// Address of the frame of the program's handler that interrupted the call before it was made; 0: no handler did.
    handler: usize,
}

// SAFETY: `thread` is compared, never dereferenced.
unsafe impl Send for Hold {}

/// Holds of all threads.
#[derive(Default)]
pub(super) struct Holds(Vec<Hold>);

impl Holds {
    /// Adds a hold of `[start, end)`.
    pub(super) fn add(&mut self, thread: *const Thread, start: usize, end: usize) {
        self.0.push(Hold { start, end, thread, handler: 0 });
    }

    /// Keeps the holds of a thread's call until a handler of the program that interrupted the call is left.
    pub(super) fn keep(&mut self, thread: *const Thread, handler: usize) {
        let of_call =
            self.0.iter_mut().filter(|hold| core::ptr::eq(hold.thread, thread) && hold.handler == 0);
        of_call.for_each(|hold| hold.handler = handler);
    }

    /// Ends the holds of a thread's last call, and those of calls whose handlers were left. Returns whether the thread has other holds.
    pub(super) fn release(&mut self, thread: *const Thread, is_left: impl Fn(usize) -> bool) -> bool {
        let is_own = |hold: &Hold| core::ptr::eq(hold.thread, thread);
        self.0.retain(|hold| !is_own(hold) || hold.handler != 0 && !is_left(hold.handler));
        self.0.iter().any(is_own)
    }

    /// Ends the holds that were kept for this handler.
    pub(super) fn end(&mut self, thread: *const Thread, handler: usize) {
        self.0.retain(|hold| !core::ptr::eq(hold.thread, thread) || hold.handler != handler);
    }

    /// Returns whether a page is held.
    pub(super) fn contains(&self, page: usize) -> bool {
        self.0.iter().any(|hold| (hold.start..hold.end).contains(&page))
    }

    /// Returns the parts of `[start, end)` that are held. A part that several holds cover occurs several times.
    pub(super) fn parts(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
        let within = self.0.iter().filter(move |hold| hold.start < end && start < hold.end);
        within.map(move |hold| (hold.start.max(start), hold.end.min(end)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_handler_interrupted_is_held_until_it_is_left() {
        const FRAMES: [usize; 2] = [9000, 8000];
        // The pointers are compared, never dereferenced.
        let threads = [1usize, 2].map(|n| n as *const Thread);
        let hold = |start, thread, handler| Hold { start, end: start + 1, thread, handler };
        let mut holds = Holds(alloc::vec![hold(0, threads[0], 0), hold(10, threads[1], 0)]);
        let held = |holds: &Holds| [0, 1, 10].map(|page| holds.contains(page));
        holds.keep(threads[0], FRAMES[0]);
        holds.0.push(hold(1, threads[0], 0));
        holds.keep(threads[0], FRAMES[1]);
        assert!(holds.release(threads[0], |_| false));
        assert_eq!(held(&holds), [true, true, true]);
        holds.end(threads[0], FRAMES[1]);
        assert_eq!(held(&holds), [true, false, true]);
        assert!(!holds.release(threads[0], |frame| frame == FRAMES[0]));
        assert_eq!(held(&holds), [false, false, true]);
    }
}
