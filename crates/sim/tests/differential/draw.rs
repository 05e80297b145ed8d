//! Random choices from a seed.

use unrack_units::Time;

/// Generator of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Draw(pub u64);

impl Draw {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
    pub fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
    pub fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
    pub fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
    /// Draws a time of about this length, unlikely to equal any sum of packet times and distances.
    pub fn odd(&mut self, about: Time) -> Time {
        about + Time::from_ps(self.below(1_000))
    }
}
