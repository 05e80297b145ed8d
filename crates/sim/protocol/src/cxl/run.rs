//! Runs of lines: how many travel together, and which flits they take.

use super::{Class, Flit, Params};

impl Params {
    /// Returns how many lines travel together at most: [`run`](Params::run), less if that is much of the credits or of
    /// the window, and in whole flits, so that each run of a message begins where a flit does.
    pub fn longest_run(&self) -> u32 {
        let most = self.run.min(self.credits / 4).min(self.outstanding / 16);
        let whole = match self.flit {
            // Four lines of five slots, in five flits of four.
            Flit::B68 => 4,
            // Three lines in a flit of fifteen, or as many requests as it has slots.
            Flit::B256 if most >= 15 => 15,
            Flit::B256 => 3,
        };
        (most / whole * whole).clamp(1, MOST)
    }
}

/// Most lines in a run: those that a [`Line`] can count, in whole flits of either format.
const MOST: u32 = 240;

/// Flits that consecutive messages of one class take, from the flit in which the first begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slots {
    /// Slots of a flit.
    flit: u32,
    /// Slots of the first flit that are taken by others.
    taken: u32,
    /// Slots of a message.
    each: u32,
}

impl Slots {
    pub(super) fn new(flit: u32, taken: u32, class: Class) -> Slots {
        Slots { flit, taken, each: class.slots() }
    }

    /// Returns the number of the flit in which message `n` begins; the first is 0.
    pub fn begins(self, n: u32) -> u64 {
        u64::from((self.taken + n * self.each) / self.flit)
    }

    /// Returns the number of the flit in which message `n` ends.
    pub fn ends(self, n: u32) -> u64 {
        u64::from((self.taken + (n + 1) * self.each - 1) / self.flit)
    }

    /// Returns the number of flits that a message takes which begins with one.
    pub fn alone(self) -> u64 {
        u64::from(self.each.div_ceil(self.flit))
    }
}
