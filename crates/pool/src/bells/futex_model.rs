//! The kernel's futex for the model checker: all models sleep on one word, one thread at a time.

use crate::sync::{AtomicU32, Ordering};
use loom::sync::{Condvar, Mutex};
use std::time::Duration;

#[derive(Default)]
struct Queue {
    /// Somebody sleeps.
    waits: Mutex<bool>,
    woken: Condvar,
}

loom::lazy_static! {
    static ref QUEUE: Queue = Queue::default();
}

/// Without a time-out: what only that ends is a wake-up that was lost.
pub fn wait(word: &AtomicU32, expected: u32, _: Option<Duration>) {
    let mut waits = QUEUE.waits.lock().unwrap();
    // The kernel, too, looks at the word and begins to wait in one step.
    if word.load(Ordering::SeqCst) == expected {
        *waits = true;
        while *waits {
            waits = QUEUE.woken.wait(waits).unwrap();
        }
    }
}

pub fn wake(_: &AtomicU32) -> bool {
    let waited = std::mem::take(&mut *QUEUE.waits.lock().unwrap());
    QUEUE.woken.notify_all();
    waited
}
