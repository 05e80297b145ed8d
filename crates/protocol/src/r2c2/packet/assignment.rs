//! Announcements of chosen routings (§3.4): pairs of four bytes for the flow, its source and number, and one for the
//! routing; 300 of them in a packet of 1,500 bytes.

use super::Malformed;
use crate::r2c2::Routing;

/// A flow is to use this routing from now on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    pub src: u16,
    pub flow: u16,
    pub routing: Routing,
}

/// Pairs in a packet.
pub const MOST_ASSIGNMENTS: usize = 300;
const PAIR: usize = 5;

impl Assignment {
    /// Of one pair.
    pub const BYTES: usize = PAIR;

    /// Writes up to [`MOST_ASSIGNMENTS`] pairs; returns how many, and of how many bytes.
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

    /// All pairs of a packet, or what is wrong with it.
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
