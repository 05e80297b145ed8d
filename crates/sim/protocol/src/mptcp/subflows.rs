//! Sets of the subflows of a connection.

use crate::tcp::SubflowSet;

/// A set of subflows of one connection, which are numbered from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subflows(u64);

impl Subflows {
    /// The empty set.
    pub const NONE: Subflows = Subflows(0);

    /// Returns the set of the subflows with numbers below `count`.
    pub fn first(count: u32) -> Subflows {
        debug_assert!((1..=Subflows::MOST).contains(&count));
        Subflows(u64::MAX >> (Subflows::MOST - count))
    }

    /// Returns whether the set contains `subflow`.
    pub fn has(self, subflow: u32) -> bool {
        self.0 >> subflow & 1 == 1
    }

    /// Returns the subflows of this set that are not in `others`.
    pub fn without(self, others: Subflows) -> Subflows {
        Subflows(self.0 & !others.0)
    }
}

impl SubflowSet for Subflows {
    const MOST: u32 = u64::BITS;

    fn only(subflow: u32) -> Subflows {
        Subflows(1 << subflow)
    }
    fn is_empty(self) -> bool {
        self.0 == 0
    }
    fn set(&mut self, subflow: u32, is_in: bool) {
        self.0 = self.0 & !(1 << subflow) | u64::from(is_in) << subflow;
    }
}

impl Iterator for Subflows {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let next = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (next < Subflows::MOST).then_some(next)
    }
}
