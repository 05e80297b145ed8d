//! CRC-8 of x^8 + x^2 + x + 1, bits in the order of the line, from all ones (CRC-8/ROHC).
//!
//! A wrong bit on the line becomes up to three behind the descrambler: itself, 39 and 58 bits on (§49.2.10). The
//! polynomial is (x + 1) times a primitive one of degree 7. So whichever of the three a message holds are found:
//! an odd number by the first factor, two by the second, since 19, 39 and 58 are no multiples of 127.

/// `TABLES[k][b]`: what byte b leaves after k bytes of zeros.
const TABLES: [[u8; 256]; 8] = tables();
/// The polynomial, lowest bit first.
const POLYNOMIAL: u8 = 0xe0;

const fn tables() -> [[u8; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut left = byte as u8;
        let mut k = 0;
        while k < 8 {
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

/// What is left of the blocks so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Check(u8);

impl Check {
    pub const START: Check = Check(0xff);

    #[inline]
    pub fn block(self, payload: u64) -> Check {
        let [first, rest @ ..] = payload.to_le_bytes();
        // What came before is in the first byte alone: the others do not wait for it.
        let rest = (0..7).fold(0, |left, at| left ^ TABLES[6 - at][usize::from(rest[at])]);
        Check(rest ^ TABLES[7][usize::from(first ^ self.0)])
    }

    /// The last block, whose top byte is free, with the check in it.
    #[inline]
    pub fn close(self, payload: u64) -> u64 {
        let seven = (payload ^ u64::from(self.0)).to_le_bytes();
        let check = (0..7).fold(0, |left, at| left ^ TABLES[6 - at][usize::from(seven[at])]);
        payload | u64::from(check) << 56
    }

    /// The last block with a check that is wrong in every bit: a switch's word that the message was not damaged on the
    /// way from it, but before. One wrong bit of a line does not look like it, nor does what becomes of it if all three
    /// bits are in the message: an odd number, and this is an even one. Of two, one pair in 127 does.
    pub fn mark(self, payload: u64) -> u64 {
        self.close(payload) ^ 0xff << 56
    }

    /// Whether these blocks end with a [`mark`](Check::mark).
    pub fn is_mark(self) -> bool {
        self.0 == TABLES[0][0xff]
    }

    /// Whether these blocks end with their own check.
    pub fn holds(self) -> bool {
        self.0 == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// "123456789" gives 0xd0: the check value of CRC-8/ROHC in the catalogue of parametrised CRC algorithms
    /// (G. Cook), and of RFC 3095 §5.9.1's CRC.
    #[test]
    fn the_published_check_value() {
        let first = Check::START.block(u64::from_le_bytes(*b"12345678"));
        let all = TABLES[0][usize::from(first.0 ^ b'9')];
        assert_eq!(all, 0xd0);
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
