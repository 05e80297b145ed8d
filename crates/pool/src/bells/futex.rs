//! Sleeping on a word: the kernel's futex.

use crate::sync::AtomicU32;
use rustix::thread::futex;
use std::time::Duration;

/// Sleeps until somebody wakes, or the time is over, if the word still is as `expected`. May return for no reason.
pub fn wait(word: &AtomicU32, expected: u32, timeout: Option<Duration>) {
    let timeout = timeout.map(|timeout| futex::Timespec {
        tv_sec: timeout.as_secs().min(i32::MAX as u64) as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    });
    let _ = futex::wait(word, futex::Flags::empty(), expected, timeout.as_ref());
}

/// Wakes all who sleep on the word: whoever may read it may sleep on it, too, and would be woken in the place of the one
/// whose word it is. Says whether there was any, or the kernel does not say.
pub fn wake(word: &AtomicU32) -> bool {
    const ALL: u32 = i32::MAX as u32;
    futex::wake(word, futex::Flags::empty(), ALL) != Ok(0)
}
