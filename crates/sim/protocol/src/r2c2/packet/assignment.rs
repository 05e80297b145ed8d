//! Broadcasts that announce new routings of flows (§3.4). The packet contains pairs of a flow and its new routing. A pair has four bytes
//! for the flow (its source and number) and one byte for the routing; 300 pairs fit into a packet of 1,500 bytes. As in a broadcast about
//! one flow, a header with source, number and tree comes first:
//!
//! | bytes | |
//! |---|---|
//! | 0 | type: 5 in the upper half |
//! | 1 | tree |
//! | 2-3 | src: the node that chose |
//! | 4-5 | number of the announcement at its source |
//! | 6-11 | zero |
//! | 12-15 | CRC-32 of all other bytes |

use super::crc::crc32;
use super::{BROADCAST, Malformed};
use crate::r2c2::Routing;

/// Header of a broadcast that announces new routings; the pairs of flow and routing follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Announcement {
    pub tree: u8,
    pub src: u16,
    pub number: u16,
}

const ANNOUNCEMENT: u8 = 5 << 4;

impl Announcement {
    /// Returns whether the first byte of this packet is that of an announcement of routings.
    pub fn is(packet: &[u8]) -> bool {
        packet.first() == Some(&ANNOUNCEMENT)
    }

    /// Writes the header and the checksum into a packet that already contains the pairs.
    ///
    /// # Panics
    /// If the packet is shorter than the header.
    pub fn seal(self, packet: &mut [u8]) {
        packet[..BROADCAST].fill(0);
        (packet[0], packet[1]) = (ANNOUNCEMENT, self.tree);
        packet[2..4].copy_from_slice(&self.src.to_be_bytes());
        packet[4..6].copy_from_slice(&self.number.to_be_bytes());
        let checksum = checksum(packet);
        packet[12..BROADCAST].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Decodes the header and the pairs of a packet.
    ///
    /// # Errors
    /// If the length, type, checksum, a field or a pair is invalid.
    pub fn decode(packet: &[u8]) -> Result<(Announcement, impl Iterator<Item = Assignment>), Malformed> {
        let header: &[u8; BROADCAST] = packet.first_chunk().ok_or(Malformed::Length)?;
        if !Announcement::is(packet) {
            return Err(Malformed::Unknown);
        }
        if header[12..] != checksum(packet).to_be_bytes() {
            return Err(Malformed::Checksum);
        }
        if header[6..12] != [0; 6] {
            return Err(Malformed::Field);
        }
        let [src, number] = [2, 4].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        Ok((Announcement { tree: header[1], src, number }, Assignment::decode(&packet[BROADCAST..])?))
    }
}

pub(super) fn checksum(packet: &[u8]) -> u32 {
    crc32([&packet[..12], &packet[BROADCAST..]])
}

/// Decision that a flow uses a certain routing from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    pub src: u16,
    pub flow: u16,
    pub routing: Routing,
}

/// Maximum number of pairs in a packet.
pub const MOST_ASSIGNMENTS: usize = 300;
const PAIR: usize = 5;

impl Assignment {
    /// Bytes of one pair.
    pub const BYTES: usize = PAIR;

    /// Writes the first pairs of flow and routing into a packet, at most [`MOST_ASSIGNMENTS`]. Returns the number of pairs and the number
    /// of bytes written.
    pub fn encode(assignments: &[Assignment], packet: &mut [u8]) -> (usize, usize) {
        let pairs = packet.chunks_exact_mut(PAIR).take(MOST_ASSIGNMENTS);
        let written = assignments.iter().zip(pairs).map(|(assignment, pair)| {
            pair[..2].copy_from_slice(&assignment.src.to_be_bytes());
            pair[2..4].copy_from_slice(&assignment.flow.to_be_bytes());
            pair[4] = assignment.routing.code();
        });
        let count = written.count();
        (count, count * PAIR)
    }

    /// Decodes all pairs of a packet.
    ///
    /// # Errors
    /// If the length is not a whole number of pairs, or a routing is unknown.
    pub fn decode(packet: &[u8]) -> Result<impl Iterator<Item = Assignment>, Malformed> {
        let (pairs, rest) = packet.as_chunks::<PAIR>();
        if !rest.is_empty() || pairs.len() > MOST_ASSIGNMENTS {
            return Err(Malformed::Length);
        }
        if pairs.iter().any(|pair| Routing::from_code(pair[4]).is_none()) {
            return Err(Malformed::Unknown);
        }
        Ok(pairs.iter().filter_map(|[a, b, c, d, code]| {
            let routing = Routing::from_code(*code)?;
            Some(Assignment {
                src: u16::from_be_bytes([*a, *b]),
                flow: u16::from_be_bytes([*c, *d]),
                routing,
            })
        }))
    }
}
