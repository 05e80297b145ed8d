//! The two ends of a pair of queues, without threads, waiting, or allocation of buffers.
//!
//! A pair has a request queue and an answer queue of equally many lines. One rule keeps both from overflowing:
//! *every entry of the request queue is answered by exactly one entry*, and the [`Caller`] has at most as many
//! unanswered ones as there are lines. So neither end ever waits for room, and a peer that breaks the rule
//! overwrites only its own queue.
//!
//! A call occupies a *slot* of the caller. Entries name slots and generations, so both ends find a call without
//! searching: the caller finds its buffer, the [`Callee`] whether it has seen this call before. It remembers the
//! last call of each slot, so that a call that is sent again runs at most once.

mod callee;
mod caller;

pub(crate) use callee::is_newer;
pub use callee::{Callee, IncomingCall};
pub(crate) use caller::has_bytes;
pub use caller::{Caller, Change, Full};

/// Buffer of the caller, in memory that the callee can reach.
pub trait CallerBuffer {
    /// Returns the offset by which the callee names the buffer. A multiple of a line.
    fn offset(&self) -> u64;
    /// Returns the buffer's address here.
    fn base(&self) -> *mut u8;
    /// Returns the buffer's bytes; whole lines.
    fn capacity(&self) -> usize;
}

/// Access of the callee to memory that the caller has granted to it.
pub trait Reach {
    /// Returns the address here of the bytes from `offset` on, if all of them are granted by this caller.
    fn reach(&self, offset: u64, bytes: usize) -> Option<*mut u8>;
}

/// Positions of the two queues in the area of a pair.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    lines: usize,
}

impl Layout {
    /// Returns the layout of the largest pair of queues that fits in `area` bytes; `None` below two lines each.
    pub fn fitting(area: usize) -> Option<Layout> {
        let most = (area / crate::queue::bytes(2)).min(crate::queue::entry::MOST_SLOTS);
        (most >= 2).then(|| Layout { lines: 1 << most.ilog2() })
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
