//! Keep-alive packets. Neighbours send them to each other continually, so that silence indicates a failed link. Each keep-alive contains
//! the sender's newest state of every link that has ever failed. Therefore the next keep-alive makes up for a lost one:
//!
//! | bytes | |
//! |---|---|
//! | 0 | type: 6 in the upper half |
//! | 1-3 | zero |
//! | 4-7 | CRC-32 of all other bytes |
//! | 8 for each link | number, version |

use super::Malformed;
use super::crc::crc32;
use crate::r2c2::links::LinkState;

/// Codec of keep-alives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Hello;

/// Bytes before the links.
const HEADER: usize = 8;
const LINK: usize = 8;
const HELLO: u8 = 6 << 4;

impl Hello {
    /// Returns whether the first byte of this packet is that of a keep-alive.
    pub fn is(packet: &[u8]) -> bool {
        packet.first() == Some(&HELLO)
    }

    /// Returns the number of link states that fit into a keep-alive of `bytes` bytes.
    pub const fn fit(bytes: usize) -> usize {
        bytes.saturating_sub(HEADER) / LINK
    }

    /// Writes a keep-alive with these link states into an empty packet.
    pub fn encode(states: &[LinkState], packet: &mut Vec<u8>) {
        packet.clear();
        packet.resize(HEADER, 0);
        packet[0] = HELLO;
        for LinkState { link, version } in states {
            packet.extend(link.to_be_bytes());
            packet.extend(version.to_be_bytes());
        }
        let checksum = checksum(packet);
        packet[4..HEADER].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Decodes the link states of a packet.
    ///
    /// # Errors
    /// If the length, type, checksum or a field is invalid.
    pub fn decode(packet: &[u8]) -> Result<impl Iterator<Item = LinkState>, Malformed> {
        let header: &[u8; HEADER] = packet.first_chunk().ok_or(Malformed::Length)?;
        if header[0] != HELLO {
            return Err(Malformed::Unknown);
        }
        let (links, rest) = packet[HEADER..].as_chunks::<LINK>();
        if !rest.is_empty() {
            return Err(Malformed::Length);
        }
        if header[4..] != checksum(packet).to_be_bytes() {
            return Err(Malformed::Checksum);
        }
        if header[1..4] != [0; 3] {
            return Err(Malformed::Field);
        }
        Ok(links.iter().map(|[a, b, c, d, version @ ..]| LinkState {
            link: u32::from_be_bytes([*a, *b, *c, *d]),
            version: u32::from_be_bytes(*version),
        }))
    }
}

pub(super) fn checksum(packet: &[u8]) -> u32 {
    crc32([&packet[..4], &packet[HEADER..]])
}
