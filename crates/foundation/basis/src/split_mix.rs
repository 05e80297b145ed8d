//! SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014), with the output function that Java
//! and Vigna's `splitmix64.c` use.

/// Difference between consecutive states of [`SplitMix64`]: the odd number nearest to 2^64 divided by the golden ratio.
pub const GOLDEN_GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// Generator of random numbers. Its n-th number depends only on the seed and on n.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// Returns a generator with this seed.
    pub const fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// Returns the generator advanced by `numbers` numbers.
    pub const fn after(self, numbers: u64) -> SplitMix64 {
        SplitMix64(self.0.wrapping_add(numbers.wrapping_mul(GOLDEN_GAMMA)))
    }

    /// Returns 64 random bits.
    #[inline]
    pub const fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN_GAMMA);
        mix_13(self.0)
    }
}

/// Maps similar seeds to unrelated numbers: returns the first number of [`SplitMix64`] with this seed.
#[inline]
pub const fn mix(seed: u64) -> u64 {
    mix_13(seed.wrapping_add(GOLDEN_GAMMA))
}

/// Output function of [`SplitMix64`]: variant 13 of Stafford's mixers ("Better bit mixing", 2011). It maps 0 to 0.
#[inline]
pub const fn mix_13(bits: u64) -> u64 {
    let bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// First numbers of Vigna's `splitmix64.c`, by seed.
    const PUBLISHED: [(u64, [u64; 5]); 2] = [
        (
            0,
            [
                0xe220_a839_7b1d_cdaf,
                0x6e78_9e6a_a1b9_65f4,
                0x06c4_5d18_8009_454f,
                0xf88b_b8a8_724c_81ec,
                0x1b39_896a_51a8_749b,
            ],
        ),
        (
            1_234_567,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821,
            ],
        ),
    ];

    #[test]
    fn numbers_are_the_published_ones() {
        for (seed, published) in PUBLISHED {
            let mut random = SplitMix64::new(seed);
            assert_eq!(published.map(|_| random.next_u64()), published, "seed {seed}");
            assert_eq!(mix(seed), published[0]);
        }
    }

    #[test]
    fn numbers_that_are_passed_over_are_not_seen_again() {
        let (seed, published) = PUBLISHED[1];
        for (passed, expected) in (0..).zip(published) {
            assert_eq!(SplitMix64::new(seed).after(passed).next_u64(), expected, "after {passed}");
        }
    }

    #[test]
    fn nothing_stays_nothing() {
        assert_eq!(mix_13(0), 0);
    }
}
