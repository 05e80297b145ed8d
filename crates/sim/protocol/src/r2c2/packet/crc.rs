//! Checksums of packets.

const CRC16: [u16; 256] = table16();

const fn table16() -> [u16; 256] {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut rest = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            rest = if rest >> 15 == 1 { rest << 1 ^ 0x1021 } else { rest << 1 };
            bit += 1;
        }
        table[byte] = rest;
        byte += 1;
    }
    table
}

/// Returns the CRC-32 of IEEE 802.3 over the concatenation of these byte slices.
pub(super) fn crc32<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    parts.into_iter().for_each(|part| hasher.update(part));
    hasher.finalize()
}

/// Returns the CRC-16 of CCITT, with all ones as the initial value.
pub(super) fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(!0, |rest, byte| rest << 8 ^ CRC16[usize::from((rest >> 8) as u8 ^ byte)])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Check values of the catalogue of parametrised CRC algorithms: CRC-32/ISO-HDLC, CRC-16/IBM-3740.
    #[test]
    fn check_values() {
        assert_eq!(crc32([&b"1234"[..], b"56789"]), 0xCBF4_3926);
        assert_eq!(crc16(b"123456789"), 0x29B1);
    }
}
