//! Where blocks begin: the lock state diagram (figure 49-14).
//!
//! Headers are looked at in windows of 64. Without lock, a window without a bad header locks, and the first bad
//! one slips by a bit. With lock, the sixteenth bad one of a window ends it.

use super::scramble::Descrambler;
use crate::block::Block;

/// Headers in a window.
pub const WINDOW: u32 = 64;
/// Bad headers of a window that end a lock.
pub const BAD: u32 = 16;

/// Takes the bits of a line, gives descrambled blocks while it is locked.
#[derive(Debug, Clone, Default)]
pub struct BlockSync {
    bits: u128,
    count: u32,
    locked: bool,
    seen: u32,
    bad: u32,
    descrambler: Descrambler,
    /// A bit is to be skipped as soon as there is one.
    to_skip: bool,
    slips: u64,
    bad_headers: u64,
    losses: u64,
}

impl BlockSync {
    pub fn new() -> BlockSync {
        BlockSync::default()
    }

    /// Eight bits came; the blocks that they complete are told, those with a bad header too.
    #[inline]
    pub fn handle_byte(&mut self, byte: u8, tell: impl FnMut(Block)) {
        self.handle_bits(u64::from(byte), 8, tell);
    }

    /// The same for the low `count` bits, at most 62, of a word whose others are zero.
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

    pub fn is_locked(&self) -> bool {
        self.locked
    }

    /// Bits that were skipped in search of a lock.
    pub fn slips(&self) -> u64 {
        self.slips
    }

    /// Bad headers while locked.
    pub fn bad_headers(&self) -> u64 {
        self.bad_headers
    }

    /// How often a lock was lost.
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

    /// Figure 49-14 for one header; whether to slip.
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
