//! What the lock needs to know of threads, and of the kernel.

use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// A number that no other thread has, from 2 on.
#[inline]
pub fn this_thread() -> usize {
    thread_local!(static NUMBER: Cell<usize> = const { Cell::new(0) });
    match NUMBER.get() {
        0 => {
            static NEXT: AtomicUsize = AtomicUsize::new(2);
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            NUMBER.set(number);
            number
        }
        number => number,
    }
}

/// Whether this process may have the kernel order the stores of all its threads.
pub fn can_withdraw() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

/// What this thread stored before is seen by who makes a barrier everywhere and loads after that; or this thread loads
/// what that one stored before.
#[inline]
pub fn barrier_here() {
    compiler_fence(Ordering::SeqCst);
}

pub fn barrier_everywhere() {
    membarrier(MembarrierCommand::PrivateExpedited).expect("the process is registered for it");
}
