//! Sleeping on a word by the kernel's futex.

use crate::sync::AtomicU32;
use rustix::thread::futex;
use std::time::Duration;

/// Sleeps until woken or until the timeout expires, if the word still equals `expected`. May return spuriously.
pub(super) fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| futex::Timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
}

/// Wakes all threads that sleep on the word. It wakes all, because any process that may read the word may also sleep on
/// it and could be woken instead of the word's owner. Returns whether any thread slept; returns true if the kernel
/// reports an error.
pub(super) fn wake(word: &AtomicU32) -> bool {
    const ALL: u32 = i32::MAX as u32;
    futex::wake(word, futex::Flags::empty(), ALL) != Ok(0)
}
