//! Thread numbers and barriers for the model checker. The model replaces the kernel's barrier in all threads by a fence
//! in each of two threads, which orders the two threads in the same way.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use unrack_pool::sync::{Ordering, fence};

/// Returns the number of this thread, which is unique in the process and at least 2.
pub(super) fn this_thread() -> usize {
    loom::thread_local!(static NUMBER: Cell<usize> = Cell::new(0));
    // This is not the checker's atomic, because the order of the numbers makes no difference.
    static NEXT: AtomicUsize = AtomicUsize::new(2);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        number.get()
    })
}

/// Returns true, because the model's barrier is always available.
pub(super) fn can_withdraw() -> bool {
    true
}

/// Executes a fence in this thread.
pub(super) fn barrier_here() {
    fence(Ordering::SeqCst);
}

/// Executes a fence, which together with `barrier_here` models a barrier in all threads.
pub(super) fn barrier_everywhere() {
    fence(Ordering::SeqCst);
}
