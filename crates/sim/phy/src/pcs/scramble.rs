//! The self-synchronizing scrambler x^58 + x^39 + 1 (§49.2.6) and its inverse, the descrambler. They process 64 bits at a time.
//!
//! Bit i of the output is s(i) = d(i) + s(i-39) + s(i-58), where d is the input. For a block of 64 bits, the terms from the previous block
//! are known at the start. Their sums are then added 39 and 58 places later within the block. One such step is enough, because twice 39
//! places are beyond the end of the block. This takes six dependent operations for a block, and no more than eight in total. A form of
//! twice the degree (x^116 + x^78 + 1) has only three dependent operations but sixteen in total, and is therefore slower as soon as the
//! processor does other work at the same time.
//!
//! Sync headers are not scrambled, and the state of the scrambler is never reset.

/// Scrambler of a sender.
#[derive(Debug, Clone)]
pub struct Scrambler {
    /// The previous block, scrambled.
    before: u64,
}

/// Descrambler of a receiver. Whatever its initial state, its output is correct from the second block on.
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
    /// Returns a scrambler in the state after it has sent the scrambled block `before`. The first six bits of that block no longer have an
    /// effect.
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
    /// Returns a descrambler in the state after it has received the scrambled block `before`.
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
