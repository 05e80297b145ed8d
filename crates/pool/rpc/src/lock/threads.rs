//! Thread numbers and memory barriers for the lock.

use rustix::thread::{MembarrierCommand, membarrier};
use std::cell::Cell;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence};

/// Returns the number of this thread, which is unique in the process and at least 2.
#[inline]
pub(super) fn this_thread() -> usize {
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

/// Returns whether this process can make the kernel order the stores of all its threads (`membarrier`).
pub(super) fn can_withdraw() -> bool {
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    *REGISTERED.get_or_init(|| membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok())
}

/// Orders this thread's accesses against those of a thread that calls `barrier_everywhere`: either that thread's later
/// loads see this thread's earlier stores, or this thread's later loads see that thread's earlier stores.
#[inline]
pub(super) fn barrier_here() {
    compiler_fence(Ordering::SeqCst);
}

/// Executes a memory barrier in all threads of this process.
pub(super) fn barrier_everywhere() {
    membarrier(MembarrierCommand::PrivateExpedited).expect("the process is registered for it");
}
