//! Search for the boundaries of blocks in the bits of a line, by the lock state diagram (figure 49-14).
//!
//! The receiver checks sync headers in windows of 64 headers. While it is not locked, it skips one bit at the first bad header, and a
//! window without a bad header establishes the lock. While it is locked, the sixteenth bad header in a window ends the lock.

use super::scramble::Descrambler;
use crate::block::Block;

/// Number of sync headers in a window.
pub const WINDOW: u32 = 64;
/// Number of bad sync headers in one window that ends the lock.
pub const BAD: u32 = 16;

/// Converts the bits of a line to descrambled blocks. It outputs blocks only while it is locked to their boundaries.
#[derive(Debug, Clone, Default)]
pub struct BlockSync {
    bits: u128,
    count: u32,
    locked: bool,
    seen: u32,
    bad: u32,
    descrambler: Descrambler,
    /// Whether to skip the next bit.
    to_skip: bool,
    slips: u64,
    bad_headers: u64,
    losses: u64,
}

impl BlockSync {
    /// Returns a synchronizer without lock.
    pub fn new() -> BlockSync {
        BlockSync::default()
    }

    /// Handles the next eight bits of the line, and passes each block that they complete to the callback, including blocks with a bad
    /// header.
    #[inline]
    pub fn handle_byte(&mut self, byte: u8, tell: impl FnMut(Block)) {
        self.handle_bits(u64::from(byte), 8, tell);
    }

    /// Handles the low `count` bits of `bits`, at most 62, like [`BlockSync::handle_byte`]. The other bits of `bits` must be zero.
    #[inline]
    pub fn handle_bits(&mut self, bits: u64, count: u32, mut tell: impl FnMut(Block)) {
        debug_assert!(count <= 62 && bits >> count == 0);
        self.bits |= u128::from(bits) << self.count;
        self.count += count;
        self.skip();
        while self.count >= 66 {
            let block = Block { header: self.bits as u8 & 3, payload: (self.bits >> 2) as u64 };
            let is_good = matches!(block.header, 1 | 2);
            let payload = self.descrambler.descramble(block.payload);
            if self.locked {
                tell(Block { payload, ..block });
            }
            self.bits >>= 66;
            self.count -= 66;
            self.to_skip = self.look(is_good);
            self.skip();
        }
    }

    /// Returns whether the synchronizer is locked.
    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Returns the number of bits that the receiver has skipped in search of a lock.
    pub fn slips(&self) -> u64 {
        self.slips
    }

    /// Returns the number of bad sync headers that arrived while the receiver was locked.
    pub fn bad_headers(&self) -> u64 {
        self.bad_headers
    }

    /// Returns how often the receiver has lost the lock.
    pub fn losses(&self) -> u64 {
        self.losses
    }

    fn skip(&mut self) {
        if self.to_skip && self.count > 0 {
            self.bits >>= 1;
            self.count -= 1;
            self.to_skip = false;
        }
    }

    /// Advances the state of figure 49-14 by one sync header. Returns whether the receiver must skip a bit.
    fn look(&mut self, is_good: bool) -> bool {
        self.seen += 1;
        self.bad += u32::from(!is_good);
        self.bad_headers += u64::from(self.locked && !is_good);
        if !is_good && (!self.locked || self.bad == BAD) {
            self.losses += u64::from(self.locked);
            (self.locked, self.seen, self.bad) = (false, 0, 0);
            self.slips += 1;
            return true;
        }
        if self.seen == WINDOW {
            self.locked |= self.bad == 0;
            (self.seen, self.bad) = (0, 0);
        }
        false
    }
}
