//! Random numbers for the mutation of one input.

use unrack_basis::mix;

/// Random number generator that depends only on a seed and on the number of an input.
pub struct Draws(u64);

impl Draws {
    /// Returns the generator for one input.
    pub fn new(seed: u64, number: u64) -> Draws {
        Draws(mix(seed) ^ mix(mix(number)))
    }

    /// Returns 64 random bits.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(1);
        mix(self.0)
    }

    /// Returns a number below `end`, or 0 if `end` is 0.
    pub fn below(&mut self, end: usize) -> usize {
        if end == 0 { 0 } else { (self.next() % end as u64) as usize }
    }

    /// Returns a random element of `all`; `None` if `all` is empty.
    pub fn one_of<'a, T>(&mut self, all: &'a [T]) -> Option<&'a T> {
        all.get(self.below(all.len()))
    }

    /// Returns true with probability 1 / `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }
}
