//! Runs of lines: how many lines travel together, and which flits they take.

use super::{Flit, MessageClass, Params};

impl Params {
    /// Returns how many lines travel together at most. This is [`run`](Params::run), or less if that is a large part
    /// of the credits or of the window. It is also a whole number of flits, so that each run of a transfer begins
    /// where a flit does.
    pub fn longest_run(&self) -> u32 {
        let most = self.run.min(self.credits / 4).min(self.outstanding / 16);
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

/// Maximum number of lines in a run: no more than a [`Line`] can count, and whole flits in either format.
const MOST: u32 = 240;

/// Flits that consecutive messages of one class take, counted from the flit in which the first one begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlitSlots {
    /// Number of slots in a flit.
    flit: u32,
    /// Number of slots of the first flit that other messages take.
    taken: u32,
    /// Number of slots of a message.
    each: u32,
}

impl FlitSlots {
    pub(super) fn new(flit: u32, taken: u32, class: MessageClass) -> FlitSlots {
        FlitSlots { flit, taken, each: class.slots() }
    }

    /// Returns the number of the flit in which message `n` begins; the first is 0.
    pub fn begins(self, n: u32) -> u64 {
        u64::from((self.taken + n * self.each) / self.flit)
    }

    /// Returns the number of the flit in which message `n` ends.
    pub fn ends(self, n: u32) -> u64 {
        u64::from((self.taken + (n + 1) * self.each - 1) / self.flit)
    }

    /// Returns the number of flits that a message takes if it begins at the start of a flit.
    pub fn alone(self) -> u64 {
        u64::from(self.each.div_ceil(self.flit))
    }
}
