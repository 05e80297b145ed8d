//! Threads and the kernel for the model checker: a barrier of the kernel's in all threads orders what two threads do as
//! if each had made a fence of its own.

use std::cell::Cell;
use std::sync::atomic::AtomicUsize;
use unrack_pool::sync::{Ordering, fence};

pub fn this_thread() -> usize {
    loom::thread_local!(static NUMBER: Cell<usize> = Cell::new(0));
    // Not the checker's: which number it is makes no difference.
    static NEXT: AtomicUsize = AtomicUsize::new(2);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, std::sync::atomic::Ordering::Relaxed));
        }
        number.get()
    })
}

pub fn can_withdraw() -> bool {
    true
}

pub fn barrier_here() {
    fence(Ordering::SeqCst);
}

pub fn barrier_everywhere() {
    fence(Ordering::SeqCst);
}
