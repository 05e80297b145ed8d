//! The two ends of a pair of queues, without threads, without waiting, and without allocation of buffers.
//!
//! A pair consists of a request queue and an answer queue with the same number of lines. One rule keeps the two queues
//! from overflowing: *every entry of the request queue is answered by exactly one entry*, and the [`Caller`] has at
//! most as many unanswered entries as there are lines. Therefore neither end ever waits for room, and a peer that
//! breaks the rule overwrites only its own queue.
//!
//! A call occupies a *slot* of the caller. Entries contain the slot and the generation of their call, so that each end
//! finds the call without searching: the caller finds its buffer, and the [`Callee`] finds whether it has seen the call
//! before. The callee remembers the last call of each slot, so that a call that is sent again runs at most once.

mod callee;
mod caller;

pub(crate) use callee::is_newer;
pub use callee::{Callee, IncomingCall};
pub(crate) use caller::has_bytes;
pub use caller::{CallChange, Caller, QueueFull};

/// Buffer of the caller, in memory that the callee can access.
pub trait CallerBuffer {
    /// Returns the offset by which the callee finds the buffer; a multiple of the size of a line.
    fn offset(&self) -> u64;
    /// Returns the address of the buffer in this process.
    fn base(&self) -> *mut u8;
    /// Returns the size of the buffer in bytes; a multiple of the size of a line.
    fn capacity(&self) -> usize;
}

/// Access of the callee to the memory that the caller has granted.
pub trait Reach {
    /// Returns the address in this process of the `bytes` bytes from `offset` on; `None` unless the caller has granted
    /// all of them.
    fn reach(&self, offset: u64, bytes: usize) -> Option<*mut u8>;
}

/// Positions of the two queues in the memory area of a pair.
#[derive(Debug, Clone, Copy)]
pub struct QueueLayout {
    lines: usize,
}

impl QueueLayout {
    /// Returns the layout of the largest pair of queues that fits in `area` bytes; `None` if a queue would have less
    /// than two lines.
    pub fn fitting(area: usize) -> Option<QueueLayout> {
        let most = (area / crate::queue::bytes(2)).min(crate::queue::entry::MOST_SLOTS);
        (most >= 2).then(|| QueueLayout { lines: 1 << most.ilog2() })
    }

    /// Returns the number of lines of each queue.
    pub fn lines(self) -> usize {
        self.lines
    }

    /// Returns the byte offset of the request queue.
    pub fn requests(self) -> usize {
        0
    }

    /// Returns the byte offset of the answer queue.
    pub fn answers(self) -> usize {
        crate::queue::bytes(self.lines)
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
