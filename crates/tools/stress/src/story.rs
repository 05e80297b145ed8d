//! Records the last operations of a thread, and reports a failure. A failure ends the process at once with exit status 1.
//!
//! A failure may be detected in a forked child in which only this thread exists, so the code here takes no lock.

use crate::model::WrongByte;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt::Display;

/// Number of operations that are kept.
const KEPT: usize = 24;

/// Last operations of one thread.
#[derive(Default)]
struct RecentOperations {
    seed: u64,
    thread: usize,
    done: usize,
    lines: VecDeque<String>,
}

thread_local! {
    static STORY: RefCell<RecentOperations> = RefCell::default();
}

/// Starts the record of this thread.
pub(crate) fn begin(seed: u64, thread: usize) {
    STORY.with_borrow_mut(|s| *s = RecentOperations { seed, thread, ..RecentOperations::default() });
}

/// Starts a numbered operation.
pub(crate) fn op(name: &str) {
    STORY.with_borrow_mut(|s| {
        s.done += 1;
        let line = format!("#{} {name}", s.done);
        if s.lines.len() == KEPT {
            s.lines.pop_front();
        }
        s.lines.push_back(line);
    });
}

/// Adds a detail to the current operation.
pub(crate) fn note(detail: impl Display) {
    STORY.with_borrow_mut(|s| {
        if let Some(line) = s.lines.back_mut() {
            line.push_str(&format!("; {detail}"));
        }
    });
}

/// Reports a failure with this thread's last operations, and ends the process.
pub(crate) fn fail(what: impl Display) -> ! {
    let text = STORY.with_borrow(|s| {
        let mut text = format!(
            "unrack-stress: {what}\n  seed {} thread {} process {} after {} operations, the last ones:\n",
            s.seed,
            s.thread,
            std::process::id(),
            s.done
        );
        for line in &s.lines {
            text.push_str(&format!("    {line}\n"));
        }
        text
    });
    // SAFETY: the bytes are alive for the call; `_exit` never returns.
    unsafe {
        libc::write(2, text.as_ptr().cast(), text.len());
        libc::_exit(1)
    }
}

/// Ends the process with a report if a byte is wrong.
pub(crate) fn expect(result: Result<(), WrongByte>, place: impl Display) {
    if let Err(m) = result {
        fail(format_args!(
            "wrong byte at {:#x} ({place}): expected {:#04x}, found {:#04x}",
            m.address, m.expected, m.found
        ));
    }
}
