//! Conversion of blocks to the bits of a line, eight of which form a byte. The sync header is sent first, and of each field the lowest bit
//! first.

use crate::block::Block;

/// Converts blocks to the bytes of a line. It stores the bits that do not fill a byte yet.
#[derive(Debug, Clone, Default)]
pub struct Line {
    bits: u128,
    count: u32,
}

impl Line {
    /// Adds a block, which must be scrambled already, and writes the bytes that it completes.
    pub fn send(&mut self, block: Block, line: &mut Vec<u8>) {
        self.bits |= (u128::from(block.payload) << 2 | u128::from(block.header & 3)) << self.count;
        self.count += 66;
        let whole = self.count as usize / 8;
        line.extend(&self.bits.to_le_bytes()[..whole]);
        self.bits >>= 8 * whole;
        self.count %= 8;
    }

    /// Writes the remaining bits, padded with zeros to a whole byte.
    pub fn finish(self, line: &mut Vec<u8>) {
        if self.count > 0 {
            line.push(self.bits as u8);
        }
    }
}
