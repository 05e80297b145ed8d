//! Memory in use by system calls under way, which is not taken meanwhile.

use super::thread::Thread;
use alloc::vec::Vec;

/// Range of memory that a thread's system call uses.
struct Hold {
    start: usize,
    end: usize,
    /// Thread that makes the call.
    thread: *const Thread,
}

// SAFETY: `thread` is compared, never followed.
unsafe impl Send for Hold {}

/// Holds of all threads.
#[derive(Default)]
pub(super) struct Holds(Vec<Hold>);

impl Holds {
    /// Adds a hold of `[start, end)`.
    pub(super) fn add(&mut self, thread: &Thread, start: usize, end: usize) {
        self.0.push(Hold { start, end, thread });
    }

    /// Ends all holds of a thread.
    pub(super) fn release(&mut self, thread: &Thread) {
        self.0.retain(|hold| !core::ptr::eq(hold.thread, thread));
    }

    /// Returns whether a page is held.
    pub(super) fn contains(&self, page: usize) -> bool {
        self.0.iter().any(|hold| (hold.start..hold.end).contains(&page))
    }

    /// Returns the parts of `[start, end)` that are held, each as often as it is.
    pub(super) fn parts(&self, start: usize, end: usize) -> impl Iterator<Item = (usize, usize)> {
        let within = self.0.iter().filter(move |hold| hold.start < end && start < hold.end);
        within.map(move |hold| (hold.start.max(start), hold.end.min(end)))
    }
}
