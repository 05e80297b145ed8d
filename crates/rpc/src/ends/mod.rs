//! The two ends of a pair of queues, without threads, waiting, or opinions on where buffers come from.
//!
//! A pair has a request queue and an answer queue of as many lines each. What keeps both from overflowing is
//! one law: *every entry of the request queue is answered by exactly one entry*, and the [`Caller`] has at
//! most as many unanswered ones as there are lines. So neither end ever waits for room, and a peer that
//! breaks the law overwrites only its own queue.
//!
//! A call lives in a *slot* of the caller. Slots and generations are what entries name, so both ends find a call
//! without searching: the caller its buffer, the [`Callee`] whether it has seen this call before. It remembers
//! the last call of each slot, so that a call that is sent again runs at most once.

mod callee;
mod caller;

pub(crate) use callee::is_newer;
pub use callee::{Callee, Incoming};
pub(crate) use caller::has_bytes;
pub use caller::{Caller, Change, Full};

/// A buffer of the caller's, in memory that the callee can reach.
pub trait Buffer {
    /// Where it begins, as the callee names it. A multiple of a line.
    fn offset(&self) -> u64;
    /// Where it begins, here.
    fn base(&self) -> *mut u8;
    /// Bytes; whole lines.
    fn capacity(&self) -> usize;
}

/// How the callee finds what the caller has granted to it.
pub trait Reach {
    /// Where the bytes from `offset` on are mapped here, if all of them are granted by this caller.
    fn reach(&self, offset: u64, bytes: usize) -> Option<*mut u8>;
}

/// Where the lines of a pair of queues begin in an area that is theirs.
#[derive(Debug, Clone, Copy)]
pub struct Layout {
    lines: usize,
}

impl Layout {
    /// The largest pair of queues that fits; `None` below two lines each.
    pub fn fitting(area: usize) -> Option<Layout> {
        let most = (area / crate::queue::bytes(2)).min(crate::queue::entry::MOST_SLOTS);
        (most >= 2).then(|| Layout { lines: 1 << most.ilog2() })
    }

    pub fn lines(self) -> usize {
        self.lines
    }

    pub fn requests(self) -> usize {
        0
    }

    pub fn answers(self) -> usize {
        crate::queue::bytes(self.lines)
    }
}

#[cfg(all(test, loom))]
mod models;
#[cfg(all(test, not(loom)))]
mod tests;
