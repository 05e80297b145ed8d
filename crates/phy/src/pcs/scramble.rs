//! The self-synchronizing scrambler x^58 + x^39 + 1 (§49.2.6) and its inverse, 64 bits at a time.
//!
//! Bit i of the output is s(i) = d(i) + s(i-39) + s(i-58). Of 64 bits, what comes from the block before is known at once;
//! to that, within the block, the sums are added at 39 and 58 places on, and no further, since twice 39 is past its end.
//! Six operations in a row for a block, and no more than eight: a form of twice the degree (x^116 + x^78 + 1) has three in
//! a row but sixteen in all, which is slower as soon as anything else is done beside it.
//!
//! Sync headers are not scrambled, and nothing is ever reset.

/// The sender's side.
#[derive(Debug, Clone)]
pub struct Scrambler {
    /// The last block, scrambled.
    before: u64,
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
        Scrambler { before }
    }

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
    pub const fn after(before: u64) -> Descrambler {
        Descrambler { before }
    }

    #[inline]
    pub fn descramble(&mut self, payload: u64) -> u64 {
        let before = std::mem::replace(&mut self.before, payload);
        (payload ^ payload << 39 ^ payload << 58) ^ (before >> 25 ^ before >> 6)
    }
}
