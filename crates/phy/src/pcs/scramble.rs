//! The self-synchronizing scrambler x^58 + x^39 + 1 (§49.2.6) and its inverse, 64 bits at a time.
//!
//! Bit i of the output is s(i) = d(i) + s(i-39) + s(i-58). With p the 64 bits before, the part that depends on
//! them is t = d ^ p>>25 ^ p>>6; what is left is s = t ^ s<<39 ^ s<<58, of which the low 25 and 6 bits of s
//! are those of t. Sync headers are not scrambled, and nothing is ever reset.

/// The sender's side.
#[derive(Debug, Clone)]
pub struct Scrambler {
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
        let mixed = payload ^ (self.before >> 25 ^ self.before >> 6);
        self.before = mixed ^ mixed << 39 ^ mixed << 58;
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
        payload ^ payload << 39 ^ payload << 58 ^ before >> 25 ^ before >> 6
    }
}
