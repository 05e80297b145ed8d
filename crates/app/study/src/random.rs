//! Random numbers for computed figures. The same seed gives the same numbers on every machine.

use unrack_basis::SplitMix64;

/// Generator of random numbers.
#[derive(Debug, Clone)]
pub struct Random(SplitMix64);

impl Random {
    /// Returns a generator with this seed.
    pub fn new(seed: u64) -> Random {
        Random(SplitMix64::new(seed))
    }

    /// Returns 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number above 0 and at most 1.
    pub fn share(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns an integer from 0 up to, not including, `limit`.
    pub fn below(&mut self, limit: u32) -> u32 {
        ((u128::from(self.bits()) * u128::from(limit)) >> 64) as u32
    }
}
