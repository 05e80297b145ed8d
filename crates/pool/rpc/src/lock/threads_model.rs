//! Threads and the kernel for the model checker: the kernel's barrier in all threads orders two threads as if
//! each had made a fence of its own.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use unrack_pool::sync::{Ordering, fence};

/// Returns a number that no other thread has, from 2 on.
pub(super) fn this_thread() -> usize {
    loom::thread_local!(static NUMBER: Cell<usize> = Cell::new(0));
    // Not the checker's atomic: the number makes no difference.
    static NEXT: AtomicUsize = AtomicUsize::new(2);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        number.get()
    })
}

/// Returns true: the model's barrier is always there.
pub(super) fn can_withdraw() -> bool {
    true
}

/// Makes a fence in this thread.
pub(super) fn barrier_here() {
    fence(Ordering::SeqCst);
}

/// Makes a fence, which together with `barrier_here` models a barrier in all threads.
pub(super) fn barrier_everywhere() {
    fence(Ordering::SeqCst);
}
