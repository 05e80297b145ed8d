//! Tunnel that carries R2C2 packets through a switched network (§6). Each packet travels in its own datagram, after a header that names the
//! rack and the link of the rack that the tunnel replaces.
//!
//! | bytes | |
//! |---|---|
//! | 0-1 | [`MAGIC`] |
//! | 2 | version: 1 |
//! | 3 | zero |
//! | 4-11 | rack: a number that all parts of a rack share |
//! | 12-15 | link, as its graph numbers them |
//! | 16-.. | the packet |
//!
//! Numbers are in network byte order. The R2C2 packet contains its own checksum, which the receiver of the datagram does not check.

use super::packet::Malformed;

/// Header of a tunnelled packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tunnel {
    pub rack: u64,
    pub link: u32,
}

/// Bytes of [`Tunnel`], before the packet.
pub const TUNNEL_HEADER: usize = 16;
/// First bytes of a tunnel datagram.
pub const MAGIC: [u8; 2] = [0x52, 0xC2];
const VERSION: u8 = 1;

impl Tunnel {
    /// Encodes the header.
    pub fn encode(self) -> [u8; TUNNEL_HEADER] {
        let mut header = [0; TUNNEL_HEADER];
        header[..2].copy_from_slice(&MAGIC);
        header[2] = VERSION;
        header[4..12].copy_from_slice(&self.rack.to_be_bytes());
        header[12..].copy_from_slice(&self.link.to_be_bytes());
        header
    }

    /// Decodes the header of a tunnel datagram. Returns the header and the R2C2 packet that follows it.
    ///
    /// # Errors
    /// If the datagram is too short, or does not begin with the magic bytes and the version of the tunnel protocol.
    pub fn decode(datagram: &[u8]) -> Result<(Tunnel, &[u8]), Malformed> {
        let (header, packet) = datagram.split_first_chunk::<TUNNEL_HEADER>().ok_or(Malformed::Length)?;
        if header[..3] != [MAGIC[0], MAGIC[1], VERSION] {
            return Err(Malformed::Unknown);
        }
        if header[3] != 0 {
            return Err(Malformed::Field);
        }
        let rack = u64::from_be_bytes(*header[4..].first_chunk().expect("eight bytes"));
        let link = u32::from_be_bytes(*header[12..].first_chunk().expect("four bytes"));
        Ok((Tunnel { rack, link }, packet))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn headers_read_back(rack: u64, link: u32, packet in prop::collection::vec(any::<u8>(), 0..60)) {
            let tunnel = Tunnel { rack, link };
            let datagram = [&tunnel.encode()[..], &packet].concat();
            prop_assert_eq!(Tunnel::decode(&datagram), Ok((tunnel, &packet[..])));
        }

        /// Arbitrary bytes are either refused or decoded correctly.
        #[test]
        fn nonsense_is_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..40), seal: bool) {
            if seal && bytes.len() > 4 {
                bytes[..3].copy_from_slice(&[0x52, 0xC2, 1]);
            }
            if let Ok((tunnel, packet)) = Tunnel::decode(&bytes) {
                prop_assert_eq!([&tunnel.encode()[..], packet].concat(), bytes);
            }
        }
    }

    #[test]
    fn the_header_is_as_told() {
        let header = Tunnel { rack: 0x0102_0304_0506_0708, link: 0x090A_0B0C }.encode();
        assert_eq!(header, [0x52, 0xC2, 1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
    }
}
