//! A header for fabrics whose headers Wireshark does not know. It has the link type `LINKTYPE_USER0`, and
//! `examples/wireshark/unrack.lua` dissects it.
//!
//! All numbers are big-endian.
//!
//! | at | bytes | |
//! |---|---|---|
//! | 0 | 2 | `UR` |
//! | 2 | 1 | version: 1 |
//! | 3 | 1 | kind of packet: its index in [`PacketKind::ALL`] |
//! | 4 | 1 | flags: 1 marked for congestion, 2 reports marks, 4 has an offset, 8 has a message |
//! | 5 | 1 | priority; 0 is the highest |
//! | 6 | 2 | 0 |
//! | 8 | 4 | message, numbered in order of submission |
//! | 12 | 4 | node that created the packet |
//! | 16 | 4 | node to which the packet is addressed |
//! | 20 | 4 | bytes on the wire, rounded up, with all overhead |
//! | 24 | 4 | bytes of payload, which would follow but is not kept |
//! | 28 | 8 | offset of the first byte of data; in control packets, of the first byte not yet acknowledged or granted |
//! | 36 | 12 | name of the fabric, padded with zeros |

use super::Frame;
use unrack_engine::events::{Hop, PacketKind};

/// Bytes of the header.
pub const LENGTH: usize = 48;
const VERSION: u8 = 1;
const NAME: usize = 12;

pub(super) fn frame(hop: &Hop, fabric: &str) -> Frame {
    let packet = &hop.packet;
    let kind = PacketKind::ALL.iter().position(|kind| *kind == packet.kind).expect("all kinds are listed");
    let flags = [packet.marked, packet.echo, packet.offset.is_some(), hop.message.is_some()];
    let flags = (0..).zip(flags).fold(0, |sum, (bit, set)| sum | u8::from(set) << bit);
    let mut bytes = Vec::with_capacity(LENGTH);
    bytes.extend([b'U', b'R', VERSION, kind as u8, flags, packet.priority, 0, 0]);
    let message = hop.message.map_or(0, |id| id.0);
    for number in [message, packet.src, packet.dst, hop.wire, hop.payload] {
        bytes.extend(number.to_be_bytes());
    }
    bytes.extend(packet.offset.unwrap_or(0).to_be_bytes());
    let name = &fabric.as_bytes()[..fabric.len().min(NAME)];
    bytes.extend(name);
    bytes.resize(LENGTH, 0);
    Frame { bytes, length: LENGTH as u32 + hop.payload }
}
