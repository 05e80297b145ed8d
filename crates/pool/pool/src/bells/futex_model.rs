//! Model of the kernel's futex for the model checker: all models sleep on one word, one thread at a time.

use crate::sync::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Queue {
    /// True while a thread sleeps.
    waits: Mutex<bool>,
    woken: Condvar,
}

loom::lazy_static! {
    static ref QUEUE: Queue = Queue::default();
}

/// Sleeps without a timeout: if only a timeout ends a sleep, a wake-up was lost.
pub(super) fn wait(word: &AtomicU32, expected: u32, _: Option<Duration>) {
    let mut waits = QUEUE.waits.lock().unwrap();
    // The kernel, too, compares the word and begins to wait in one step.
    if word.load(Ordering::SeqCst) == expected {
        *waits = true;
        while *waits {
            waits = QUEUE.woken.wait(waits).unwrap();
        }
    }
}

/// Wakes the sleeping thread; returns whether there was one.
pub(super) fn wake(_: &AtomicU32) -> bool {
    let waited = std::mem::take(&mut *QUEUE.waits.lock().unwrap());
    QUEUE.woken.notify_all();
    waited
}
