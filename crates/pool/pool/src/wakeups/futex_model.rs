//! Model of the kernel's futex for the model checker. All models sleep on one word, with one thread at a time.

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

/// Sleeps without a timeout, because a sleep that only a timeout ends has lost its wakeup.
pub(super) fn wait(word: &AtomicU32, expected: u32, _: Option<Duration>) {
    let mut waits = QUEUE.waits.lock().unwrap();
    // As in the kernel, comparing the word and starting to wait are one step.
    if word.load(Ordering::SeqCst) == expected {
        *waits = true;
        while *waits {
            waits = QUEUE.woken.wait(waits).unwrap();
        }
    }
}

/// Wakes the sleeping thread. Returns whether a thread slept.
pub(super) fn wake(_: &AtomicU32) -> bool {
    let waited = std::mem::take(&mut *QUEUE.waits.lock().unwrap());
    QUEUE.woken.notify_all();
    waited
}
