//! The self-synchronizing scrambler x^58 + x^39 + 1 (§49.2.6) and its inverse, 64 bits at a time.
//!
//! Bit i of the output is s(i) = d(i) + s(i-39) + s(i-58). For 64 bits, the terms from the block before are known at
//! once; their sums are then added 39 and 58 places on within the block, and no further, since twice 39 is past its
//! end. That is six operations in a row for a block, and no more than eight in all. A form of twice the degree (x^116
//! + x^78 + 1) has three in a row but sixteen in all, which is slower as soon as other work is done beside it.
//!
//! Sync headers are not scrambled, and the state is never reset.

/// Scrambler of the sender.
#[derive(Debug, Clone)]
pub struct Scrambler {
    /// The previous block, scrambled.
    before: u64,
}

/// Descrambler of the receiver: correct from the second block on, wherever it starts.
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
    /// Returns a scrambler that has sent `before`, of which the first six bits have no effect any more.
    pub const fn after(before: u64) -> Scrambler {
        Scrambler { before }
    }

    /// Scrambles the next payload.
    #[inline]
    pub fn scramble(&mut self, payload: u64) -> u64 {
        let from_before = payload ^ self.before >> 25 ^ self.before >> 6;
        self.before = from_before ^ from_before << 39 ^ from_before << 58;
        self.before
    }
}

impl Default for Descrambler {
    fn default() -> Self {
        Descrambler::after(u64::MAX)
    }
}

impl Descrambler {
    /// Returns a descrambler that has received `before`.
    pub const fn after(before: u64) -> Descrambler {
        Descrambler { before }
    }

    /// Descrambles the next payload.
    #[inline]
    pub fn descramble(&mut self, payload: u64) -> u64 {
        let before = std::mem::replace(&mut self.before, payload);
        (payload ^ payload << 39 ^ payload << 58) ^ (before >> 25 ^ before >> 6)
    }
}
