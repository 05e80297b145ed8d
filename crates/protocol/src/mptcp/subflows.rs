//! Some of the subflows of a connection.

/// A set of subflows, by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Subflows(u64);

impl Subflows {
    /// Most that a connection has.
    pub const MOST: u32 = u64::BITS;
    pub const NONE: Subflows = Subflows(0);

    /// The first so many.
    pub fn first(count: u32) -> Subflows {
        debug_assert!((1..=Subflows::MOST).contains(&count));
        Subflows(u64::MAX >> (Subflows::MOST - count))
    }

    pub fn only(subflow: u32) -> Subflows {
        Subflows(1 << subflow)
    }

    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    pub fn has(self, subflow: u32) -> bool {
        self.0 >> subflow & 1 == 1
    }

    pub fn set(&mut self, subflow: u32, is_in: bool) {
        self.0 = self.0 & !(1 << subflow) | u64::from(is_in) << subflow;
    }

    pub fn without(self, others: Subflows) -> Subflows {
        Subflows(self.0 & !others.0)
    }
}

/// In order.
impl Iterator for Subflows {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        let next = self.0.trailing_zeros();
        self.0 &= self.0.wrapping_sub(1);
        (next < Subflows::MOST).then_some(next)
    }
}
