//! Runs: how many messages of a transfer travel together, and which flits they take.

use super::{Flit, MessageClass, Params};

impl Params {
    /// Returns the maximum number of lines that travel together as a run. This is [`run`](Params::run), limited to a
    /// quarter of the buffers and to a sixteenth of `outstanding`. It is rounded down so that a run of this many lines
    /// fills whole flits, and each run of a transfer begins at the start of a flit. If the limits leave less than one
    /// whole flit, the function returns 1.
    pub fn longest_run(&self) -> u32 {
        let most = self.run.min(self.fewest_buffers() / 4).min(self.outstanding / 16);
        let whole = match self.flit {
            // Four lines of five slots take five flits of four slots.
            Flit::B68 => 4,
            // A flit of fifteen slots holds three lines, or fifteen requests.
            Flit::B256 if most >= 15 => 15,
            Flit::B256 => 3,
        };
        (most / whole * whole).clamp(1, MOST)
    }
}

/// Upper bound of the number of lines in a run. The bound fits into the eight-bit `count` of a `Line`, and 240 messages
/// of any class fill whole flits in both flit formats.
const MOST: u32 = 240;

/// Positions of consecutive messages of one class in flits. Flits are numbered from the flit in which the first of
/// these messages begins, which has number 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlitSlots {
    /// Number of slots in a flit.
    flit: u32,
    /// Number of slots in the first flit that earlier messages occupy.
    taken: u32,
    /// Number of slots that one of the messages takes.
    each: u32,
}

impl FlitSlots {
    pub(super) fn new(flit: u32, taken: u32, class: MessageClass) -> FlitSlots {
        FlitSlots { flit, taken, each: class.slots() }
    }

    /// Returns the number of the flit in which message `n` begins. Messages and flits are numbered from 0.
    pub fn begins(self, n: u32) -> u64 {
        u64::from((self.taken + n * self.each) / self.flit)
    }

    /// Returns the number of the flit in which message `n` ends. Messages and flits are numbered from 0.
    pub fn ends(self, n: u32) -> u64 {
        u64::from((self.taken + (n + 1) * self.each - 1) / self.flit)
    }

    /// Returns the number of flits over which one message extends if it begins at the start of a flit.
    pub fn alone(self) -> u64 {
        u64::from(self.each.div_ceil(self.flit))
    }
}
