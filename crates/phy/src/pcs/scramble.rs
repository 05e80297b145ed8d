//! The self-synchronizing scrambler x^58 + x^39 + 1 (§49.2.6) and its inverse, 64 bits at a time.
//!
//! Bit i of the output is s(i) = d(i) + s(i-39) + s(i-58): within a block, bits would wait for bits. But multiplied by
//! itself the polynomial is x^116 + x^78 + 1, since a square of sums is the sum of squares. So
//! s(i) = e(i) + s(i-78) + s(i-116), where e(i) = d(i) + d(i-39) + d(i-58): all of a block follows from the two before it,
//! in a shift and two additions from the last one on. Sync headers are not scrambled, and nothing is ever reset.

/// The sender's side.
#[derive(Debug, Clone)]
pub struct Scrambler {
    /// The last block, scrambled and not, and the one before it, scrambled.
    before: u64,
    plain_before: u64,
    two_before: u64,
}

/// The receiver's side: right from the second block on, wherever it begins to listen.
#[derive(Debug, Clone)]
pub struct Descrambler {
    before: u64,
}

impl Default for Scrambler {
    fn default() -> Self {
        Scrambler::after(u64::MAX)
    }
}

impl Scrambler {
    /// One that sent `before`, of which the first six bits have no effect any more.
    pub const fn after(before: u64) -> Scrambler {
        // Whatever was sent before that, some plain block made `before` of it: of zeros, this one.
        Scrambler { before, plain_before: before ^ before << 39 ^ before << 58, two_before: 0 }
    }

    #[inline]
    pub fn scramble(&mut self, payload: u64) -> u64 {
        let Scrambler { before, plain_before, two_before } = *self;
        let e = payload ^ (payload << 39 | plain_before >> 25) ^ (payload << 58 | plain_before >> 6);
        let scrambled = e ^ two_before >> 50 ^ two_before >> 12 ^ (before << 14 ^ before << 52);
        *self = Scrambler { before: scrambled, plain_before: payload, two_before: before };
        scrambled
    }
}

impl Default for Descrambler {
    fn default() -> Self {
        Descrambler::after(u64::MAX)
    }
}

impl Descrambler {
    pub const fn after(before: u64) -> Descrambler {
        Descrambler { before }
    }

    #[inline]
    pub fn descramble(&mut self, payload: u64) -> u64 {
        let before = std::mem::replace(&mut self.before, payload);
        payload ^ (payload << 39 | before >> 25) ^ (payload << 58 | before >> 6)
    }
}
