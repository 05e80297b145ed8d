//! Random choices from a seed.

use unrack_basis::SplitMix64;
use unrack_units::Time;

/// Generator of random choices.
pub(crate) struct Draw(SplitMix64);

impl Draw {
    pub(crate) fn new(seed: u64) -> Draw {
        Draw(SplitMix64::new(seed))
    }
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
    pub(crate) fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
    pub(crate) fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
    /// Draws a time of about this length, unlikely to equal any sum of packet times and distances.
    pub(crate) fn odd(&mut self, about: Time) -> Time {
        about + Time::from_ps(self.below(1_000))
    }
}
