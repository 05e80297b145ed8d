//! CRC-8 with the polynomial x^8 + x^2 + x + 1, the bit order of the line, and an initial value of all ones
//! (CRC-8/ROHC).
//!
//! The descrambler turns a wrong bit on the line into up to three wrong bits: the bit itself, and those 39 and 58 bits later (§49.2.10).
//! The polynomial is the product of (x + 1) and a primitive polynomial of degree 7. Therefore the check detects the error whichever of the
//! three bits are in a message. The first factor detects one or three wrong bits. The second factor detects two wrong bits, because their
//! distances (19, 39 or 58 bits) are not multiples of 127.
//!
//! The period of the polynomial, 127, also makes the check fast: modulo the polynomial, x^127 is 1. Therefore a message is first reduced
//! modulo x^127 + 1, which fits into a ring of 127 bits. Each further block takes only a rotation of the ring by 64 bits and an addition.
//! Tables are needed only for the end of a message.

/// `TABLES[k][b]` is the CRC remainder of byte b followed by k zero bytes.
const TABLES: [[u8; 256]; 16] = tables();
/// The polynomial, with the lowest bit first.
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

/// Check of the blocks so far, as their remainder modulo x^127 + 1. Bit n of `last` is the coefficient of x^(63 - n), and bit n of `before`
/// is that of x^(127 - n).
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
    /// State before the first block. It inverts the bits of the first byte, as CRC-8/ROHC prescribes.
    pub(crate) const START: Check = Check { before: 0xff << 1, last: 0 };

    /// Adds a block.
    #[inline]
    pub(crate) fn block(self, payload: u64) -> Check {
        let Check { before, last } = self;
        // x^(127 - n) times x^64 is x^(64 - n), which is bit n + 63 of the ring.
        Check { before: last ^ before << 63, last: payload ^ before >> 1 }
    }

    /// Returns the payload of the last block of a message with the check in its top byte, which must be 0 in `payload`.
    #[inline]
    pub(crate) fn close(self, payload: u64) -> u64 {
        let Check { before, last } = self.block(payload);
        // The check covers the bytes before it, which are the first seven bytes of the block.
        let of_last = last.to_le_bytes()[..7].iter().rev().zip(&TABLES).fold(0, look_up);
        let of_before = before.to_le_bytes().iter().rev().zip(&TABLES[7..]).fold(0, look_up);
        // Bits of the ring that fall into the last byte, which the check has to cancel.
        let carried = (last ^ payload).to_le_bytes()[7];
        payload | u64::from(of_last ^ of_before ^ carried) << 56
    }

    /// Returns the payload of the last block of a message with a check that is wrong in all eight bits. With this mark, the switch shows
    /// the receiver that the message was damaged before the switch and not on the receiver's link. A single wrong bit does not look like a
    /// mark, and neither do the three bits into which the descrambler turns it, because a mark has an even number of wrong bits. If only
    /// two of the three bits are in the message, they look like a mark in one of 127 cases.
    pub(crate) fn mark(self, payload: u64) -> u64 {
        self.close(payload) ^ 0xff << 56
    }

    /// Returns whether the blocks so far end with a [`mark`](Check::mark) instead of a check.
    pub(crate) fn is_mark(self) -> bool {
        self.left() == TABLES[0][0xff]
    }

    /// Returns whether the blocks so far end with a valid check.
    #[inline]
    pub(crate) fn holds(self) -> bool {
        self.left() == 0
    }

    #[inline]
    fn left(self) -> u8 {
        // Modulo the polynomial, x^64 is x^4 + x + 1. Therefore `before` is multiplied by that and added to `last`,
        // and so are the bits that the shifts push out of the word.
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

    /// The check of the bytes "123456789" is 0xd0. This is the check value of CRC-8/ROHC, the CRC of RFC 3095 §5.9.1, in the catalogue of
    /// parametrised CRC algorithms (G. Cook).
    #[test]
    fn the_published_check_value() {
        let first = Check::START.block(u64::from_le_bytes(*b"12345678"));
        assert_eq!(TABLES[0][usize::from(first.left() ^ b'9')], 0xd0);
    }

    /// The computation with the ring gives the same check as the definition of the CRC, computed bit by bit.
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
