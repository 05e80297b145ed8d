//! CRC-8 of x^8 + x^2 + x + 1, bits in the order of the line, from all ones (CRC-8/ROHC).
//!
//! A wrong bit on the line becomes up to three behind the descrambler: itself, and those 39 and 58 bits on (§49.2.10).
//! The polynomial is (x + 1) times a primitive one of degree 7. So the check finds the error whichever of the three
//! bits a message holds: one or three by the first factor, two by the second, since 19, 39 and 58 are no multiples of
//! 127.
//!
//! The period of 127 makes the check fast, too: modulo the polynomial, x^127 is 1. So the remainder of a message fits
//! in a ring of 127 bits, in which one more block is a rotation by 64 and an addition. Only the end of a message uses
//! tables.

/// `TABLES[k][b]`: remainder of byte b followed by k bytes of zeros.
const TABLES: [[u8; 256]; 16] = tables();
/// The polynomial, lowest bit first.
const POLYNOMIAL: u8 = 0xe0;

const fn tables() -> [[u8; 256]; 16] {
    let mut tables = [[0; 256]; 16];
    let mut byte = 0;
    while byte < 256 {
        let mut left = byte as u8;
        let mut k = 0;
        while k < 16 {
            let mut bit = 0;
            while bit < 8 {
                left = left >> 1 ^ if left & 1 == 1 { POLYNOMIAL } else { 0 };
                bit += 1;
            }
            tables[k][byte] = left;
            k += 1;
        }
        byte += 1;
    }
    tables
}

/// Remainder of the blocks so far modulo x^127 + 1: bit n of `last` stands for x^(63 - n), of `before` for x^(127 -
/// n).
#[derive(Debug, Clone, Copy)]
pub(crate) struct Check {
    before: u64,
    last: u64,
}

impl Default for Check {
    fn default() -> Check {
        Check::START
    }
}

impl Check {
    /// State before the first block: it adds ones to the block's first byte, as CRC-8/ROHC prescribes.
    pub(crate) const START: Check = Check { before: 0xff << 1, last: 0 };

    /// Adds a block.
    #[inline]
    pub(crate) fn block(self, payload: u64) -> Check {
        let Check { before, last } = self;
        // x^(127 - n) times x^64 is x^(64 - n): the ring's bit n + 63.
        Check { before: last ^ before << 63, last: payload ^ before >> 1 }
    }

    /// Returns the last block, whose top byte is free, with the check in it.
    #[inline]
    pub(crate) fn close(self, payload: u64) -> u64 {
        let Check { before, last } = self.block(payload);
        // The check covers the bytes before it, one byte less than the block.
        let of_last = last.to_le_bytes()[..7].iter().rev().zip(&TABLES).fold(0, look_up);
        let of_before = before.to_le_bytes().iter().rev().zip(&TABLES[7..]).fold(0, look_up);
        // The ring's part of the last byte, which the check has to cancel.
        let carried = (last ^ payload).to_le_bytes()[7];
        payload | u64::from(of_last ^ of_before ^ carried) << 56
    }

    /// Returns the last block with a check that is wrong in every bit: the switch's mark of a message that was damaged
    /// before the switch, not behind it. A wrong bit of a line does not look like a mark, nor do all three bits that
    /// it becomes: their number is odd, and a mark's is even. Of pairs of them, one in 127 does.
    pub(crate) fn mark(self, payload: u64) -> u64 {
        self.close(payload) ^ 0xff << 56
    }

    /// Returns whether these blocks end with a [`mark`](Check::mark).
    pub(crate) fn is_mark(self) -> bool {
        self.left() == TABLES[0][0xff]
    }

    /// Returns whether these blocks end with a valid check.
    #[inline]
    pub(crate) fn holds(self) -> bool {
        self.left() == 0
    }

    #[inline]
    fn left(self) -> u8 {
        // Modulo the polynomial, x^64 is x^4 + x + 1: `before`, multiplied by it, is added to `last`. So are the bits
        // that the shifts push out of the word.
        let times_x64 = |word: u64| word ^ word >> 1 ^ word >> 4;
        let Check { before, last } = self;
        let word = last ^ times_x64(before) ^ times_x64(before << 63 ^ before << 60);
        word.to_le_bytes().iter().rev().zip(&TABLES).fold(0, look_up)
    }
}

#[inline]
fn look_up(left: u8, (byte, table): (&u8, &[u8; 256])) -> u8 {
    left ^ table[usize::from(*byte)]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "123456789" gives 0xd0: the check value of CRC-8/ROHC in the catalogue of parametrised CRC algorithms
    /// (G. Cook), and of RFC 3095 §5.9.1's CRC.
    #[test]
    fn the_published_check_value() {
        let first = Check::START.block(u64::from_le_bytes(*b"12345678"));
        assert_eq!(TABLES[0][usize::from(first.left() ^ b'9')], 0xd0);
    }

    /// Compares the ring with the definition, a bit at a time.
    #[test]
    fn any_number_of_blocks() {
        let (mut random, mut check, mut left) = (1_u64, Check::START, 0xff_u8);
        for _ in 0..500 {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
            let payload = random ^ random >> 29;
            let free = payload << 8 >> 8;
            let mut of_seven = left;
            for bit in 0..64 {
                let one = (left ^ (payload >> bit) as u8) & 1;
                left = left >> 1 ^ if one == 1 { POLYNOMIAL } else { 0 };
                if bit < 56 {
                    let one = (of_seven ^ (free >> bit) as u8) & 1;
                    of_seven = of_seven >> 1 ^ if one == 1 { POLYNOMIAL } else { 0 };
                }
            }
            assert_eq!(check.close(free), free | u64::from(of_seven) << 56);
            check = check.block(payload);
            assert_eq!(check.left(), left);
        }
    }

    #[test]
    fn what_is_closed_holds() {
        let closed = Check::START.block(0x0123_4567_89ab_cdef).close(0x0042_1234_5678_9abc);
        assert!(Check::START.block(0x0123_4567_89ab_cdef).block(closed).holds());
    }

    #[test]
    fn a_mark_is_no_check() {
        let check = Check::START.block(0x0123_4567_89ab_cdef);
        let (closed, marked) = (check.block(check.close(0x65)), check.block(check.mark(0x65)));
        assert!(marked.is_mark() && !marked.holds() && closed.holds() && !closed.is_mark());
    }
}
