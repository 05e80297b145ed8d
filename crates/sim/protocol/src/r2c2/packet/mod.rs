//! Formats of data packets and broadcasts (§3.5, §4.2, fig. 6), bit by bit. Numbers are in network byte order.
//!
//! | data | bytes | | broadcast | bytes | |
//! |---|---|---|---|---|---|
//! | type | 0 | [`Kind`] | type, routing | 0 | 2, 3, 4 in the upper half; [`Routing::code`] in the lower |
//! | rlen | 1 | hops of the route | tree | 1 | |
//! | ridx | 2 | hops done | src | 2-3 | |
//! | zero | 3 | | dst | 4-5 | |
//! | flow | 4-5 | | flow | 6-7 | |
//! | src | 6-7 | | weight | 8 | |
//! | dst | 8-9 | | priority | 9 | |
//! | plen | 10-11 | bytes of payload | demand | 10-13 | Kb/s |
//! | seq | 12-15 | | checksum | 14-15 | |
//! | route | 16-31 | 3 bits a hop, from the lowest | | | |
//! | checksum | 32-35 | | | | |
//!
//! Departure: the paper names the fields and some of their sizes, but not their order. Here a broadcast also contains the number of its
//! flow, so that two nodes may have several flows; with this field, a broadcast fills all 16 bytes. The paper does not define
//! acknowledgements, reports of lost broadcasts and the last packet of a flow. Here they have the format of data packets, and follow a
//! route like these.
//!
//! Checksums are CRCs: CRC-32 (IEEE 802.3) of a data packet and its payload, CRC-16 (CCITT) of a broadcast. The CRC of a data packet is
//! computed with `ridx` as 0, because every node on the way increments it. This module does not allocate memory. Arbitrary bytes are either
//! decoded or refused; they cannot cause a panic.

mod assignment;
mod crc;
mod hello;

pub use assignment::{Announcement, Assignment, MOST_ASSIGNMENTS};
pub use hello::Hello;

use super::Routing;
use super::rates::Requirements;
use super::routing::MOST_HOPS;
use super::weights::FlowPaths;
use crc::{crc16, crc32};
use std::fmt;

/// Bytes of a data packet before its payload.
pub const DATA_HEADER: usize = 36;
/// Bytes of a whole broadcast.
pub const BROADCAST: usize = 16;

/// Reason why bytes are not a valid packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// The number of bytes differs from the length that the packet states.
    Length,
    /// An undefined type, routing or kind.
    Unknown,
    /// A field with a value that is not allowed.
    Field,
    /// A checksum that does not match.
    Checksum,
}

impl std::error::Error for Malformed {}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        f.write_str(match self {
            Malformed::Length => "a packet whose length differs from the length in its header",
            Malformed::Unknown => "a packet of a type that there is not",
            Malformed::Field => "a packet with a field that cannot be",
            Malformed::Checksum => "a packet with another checksum",
        })
    }
}

/// Route of a packet: for each hop, the port by which the packet leaves a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Route {
    ports: u128,
    hops: u8,
}

impl Route {
    /// Appends a hop.
    ///
    /// # Panics
    /// If the route has [`MOST_HOPS`] hops already, or no node can have this port. [`Routing::check`] refuses routings for which this could
    /// happen.
    pub fn push(&mut self, port: u32) {
        assert!(u32::from(self.hops) < MOST_HOPS && port < 8, "a route has 42 hops of 8 ports at most");
        self.ports |= u128::from(port) << (3 * self.hops);
        self.hops += 1;
    }

    /// Returns the number of hops.
    pub fn hops(self) -> u32 {
        u32::from(self.hops)
    }

    /// Returns the port of hop `index`, or `None` if the route has fewer hops.
    pub fn port(self, index: u32) -> Option<u32> {
        (index < self.hops()).then(|| (self.ports >> (3 * index)) as u32 & 7)
    }
}

/// Purpose of a packet that follows a route.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Kind {
    /// Part of a flow.
    #[default]
    Data,
    /// Data packet with the last part of a flow. All other parts of the flow have the maximum size.
    Last,
    /// Acknowledgement from a flow's destination. All packets with numbers below `seq` have arrived. The payload is a mask of [`MASK`]
    /// bytes: of the 64 packets from `seq` on, those have arrived whose bit is set.
    Ack,
    /// Ethernet frame on its way from one gateway to another ([`bridge`](super::bridge)). Its receiver does not acknowledge it.
    Frame,
    /// Report from a node that had to drop a copy of a broadcast, to the broadcast's source (§3.2). The payload is the broadcast.
    Lost,
}

impl Kind {
    const ALL: [Kind; 5] = [Kind::Data, Kind::Last, Kind::Ack, Kind::Lost, Kind::Frame];

    /// Returns the code of this kind, the first byte of a packet. The codes leave the upper half of the byte 0, because a broadcast has its
    /// type there.
    const fn code(self) -> u8 {
        match self {
            Kind::Data => 1,
            Kind::Last => 5,
            Kind::Ack => 6,
            Kind::Lost => 7,
            Kind::Frame => 8,
        }
    }

    fn from_code(code: u8) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.code() == code)
    }

    /// Returns the kind of a packet that follows a route, from the first byte of the packet.
    pub fn from_packet(packet: &[u8]) -> Option<Kind> {
        packet.first().and_then(|code| Kind::from_code(*code))
    }

    /// Returns whether packets of this kind carry payload of applications.
    pub const fn is_data(self) -> bool {
        matches!(self, Kind::Data | Kind::Last | Kind::Frame)
    }
}

/// Number of bytes of the mask in an acknowledgement. The mask is in network byte order.
pub const MASK: usize = 8;

/// The header of a data packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Data {
    pub kind: Kind,
    /// Number of the flow. It is unique at the node that sends the flow, which is the packet's source or, for an acknowledgement, the
    /// packet's destination.
    pub flow: u16,
    pub src: u16,
    pub dst: u16,
    pub seq: u32,
    /// Bytes of payload.
    pub plen: u16,
    pub route: Route,
    /// Hops done.
    pub ridx: u8,
}

impl Data {
    /// Writes the header and the payload into `packet`, and returns their total length in bytes. Returns `None` if `packet` is too short
    /// for them, or if the payload's length is not `plen`.
    pub fn encode(&self, payload: &[u8], packet: &mut [u8]) -> Option<usize> {
        let length = DATA_HEADER + payload.len();
        if payload.len() != usize::from(self.plen) || packet.len() < length {
            return None;
        }
        let packet = &mut packet[..length];
        packet[DATA_HEADER..].copy_from_slice(payload);
        self.seal(packet);
        Some(length)
    }

    /// Writes the header before a payload that is already in place.
    ///
    /// # Panics
    /// If the payload's length is not `plen`.
    pub fn seal(&self, packet: &mut [u8]) {
        assert_eq!(
            packet.len(),
            DATA_HEADER + usize::from(self.plen),
            "a packet whose length differs from the length in its header"
        );
        packet[..4].copy_from_slice(&[self.kind.code(), self.route.hops, self.ridx, 0]);
        packet[4..6].copy_from_slice(&self.flow.to_be_bytes());
        packet[6..8].copy_from_slice(&self.src.to_be_bytes());
        packet[8..10].copy_from_slice(&self.dst.to_be_bytes());
        packet[10..12].copy_from_slice(&self.plen.to_be_bytes());
        packet[12..16].copy_from_slice(&self.seq.to_be_bytes());
        packet[16..32].copy_from_slice(&self.route.ports.to_be_bytes());
        let checksum = Data::checksum(packet);
        packet[32..36].copy_from_slice(&checksum.to_be_bytes());
    }

    /// Decodes the header and the payload of a packet.
    ///
    /// # Errors
    /// If the bytes are not a packet that follows a route, or the checksum is wrong.
    pub fn decode(packet: &[u8]) -> Result<(Data, &[u8]), Malformed> {
        let header: &[u8; DATA_HEADER] = packet.first_chunk().ok_or(Malformed::Length)?;
        let [kind, hops, ridx, zero] = header[..4] else { unreachable!("a slice of four") };
        let kind = Kind::from_code(kind).ok_or(Malformed::Unknown)?;
        let [flow, src, dst, plen] = [4, 6, 8, 10].map(|at| u16::from_be_bytes([header[at], header[at + 1]]));
        let ports = u128::from_be_bytes(*header[16..].first_chunk().expect("sixteen bytes"));
        // Bits beyond the last hop are zero.
        let beyond = u32::from(hops) > MOST_HOPS || ports >> (3 * hops) != 0;
        if zero != 0 || beyond || ridx > hops {
            return Err(Malformed::Field);
        }
        if packet.len() != DATA_HEADER + usize::from(plen) {
            return Err(Malformed::Length);
        }
        if header[32..36] != Data::checksum(packet).to_be_bytes() {
            return Err(Malformed::Checksum);
        }
        let seq = u32::from_be_bytes(*header[12..].first_chunk().expect("four bytes"));
        let route = Route { ports, hops };
        Ok((Data { kind, flow, src, dst, seq, plen, route, ridx }, &packet[DATA_HEADER..]))
    }

    /// Forwards a packet at a node: returns the port by which the packet leaves, and increments the packet's hop counter. Returns `None` if
    /// this node is the packet's destination. Like a switch, this function examines only the type and the route, and not the checksum.
    ///
    /// # Errors
    /// If the header is too short, or its type or route is invalid.
    pub fn forward(packet: &mut [u8]) -> Result<Option<u32>, Malformed> {
        let header: &mut [u8; DATA_HEADER] = packet.first_chunk_mut().ok_or(Malformed::Length)?;
        let [kind, hops, ridx] = header[..3] else { unreachable!("a slice of three") };
        if Kind::from_code(kind).is_none() {
            return Err(Malformed::Unknown);
        }
        if u32::from(hops) > MOST_HOPS || ridx > hops {
            return Err(Malformed::Field);
        }
        let ports = u128::from_be_bytes(*header[16..].first_chunk().expect("sixteen bytes"));
        let port = Route { ports, hops }.port(u32::from(ridx));
        header[2] += u8::from(port.is_some());
        Ok(port)
    }

    /// Returns the port by which the next node on a packet's route will send the packet, or `None` if the next node is the packet's
    /// destination.
    pub fn next_port(packet: &[u8]) -> Option<u32> {
        let header: &[u8; DATA_HEADER] = packet.first_chunk()?;
        let ports = u128::from_be_bytes(*header[16..].first_chunk()?);
        Route { ports, hops: header[1].min(MOST_HOPS as u8) }.port(u32::from(header[2]))
    }

    fn checksum(packet: &[u8]) -> u32 {
        crc32([&packet[..2], &[0], &packet[3..32], &packet[DATA_HEADER..]])
    }
}

/// Writes the correct checksum into a packet with arbitrary content, so that tests reach the checks of the other fields. Packets that are
/// too short or have an unknown type stay unchanged.
pub fn repair(packet: &mut [u8]) {
    let (at, checksum) = match packet.len() {
        8.. if Hello::is(packet) => (4, hello::checksum(packet)),
        BROADCAST.. if Announcement::is(packet) => (12, assignment::checksum(packet)),
        BROADCAST if Broadcast::is(packet) => {
            let checksum = crc16(&packet[..14]);
            return packet[14..].copy_from_slice(&checksum.to_be_bytes());
        }
        DATA_HEADER.. if Kind::from_packet(packet).is_some() => (32, Data::checksum(packet)),
        _ => return,
    };
    packet[at..at + 4].copy_from_slice(&checksum.to_be_bytes());
}

/// Event of a flow that a broadcast announces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    Start,
    End,
    /// The flow's weight, priority, demand or routing changes.
    Demand,
}

impl Event {
    const ALL: [Event; 3] = [Event::Start, Event::End, Event::Demand];

    /// Returns the type of its packets.
    const fn code(self) -> u8 {
        self as u8 + 2
    }
}

/// A broadcast packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Broadcast {
    pub event: Event,
    pub src: u16,
    pub dst: u16,
    /// Number of the flow that the broadcast is about; it is unique at the flow's source.
    pub flow: u16,
    pub asked: Requirements,
    pub routing: Routing,
    /// Broadcast tree of the source along which nodes forward the broadcast.
    pub tree: u8,
}

impl Broadcast {
    /// Returns the paths of the flow's packets.
    pub fn ways(&self) -> FlowPaths {
        let Broadcast { routing, src, dst, flow, .. } = *self;
        FlowPaths { routing, src: src.into(), dst: dst.into(), flow: flow.into() }
    }

    /// Encodes the broadcast.
    pub fn encode(&self) -> [u8; BROADCAST] {
        let mut packet = [0; BROADCAST];
        packet[0] = self.event.code() << 4 | self.routing.code();
        packet[1] = self.tree;
        packet[2..4].copy_from_slice(&self.src.to_be_bytes());
        packet[4..6].copy_from_slice(&self.dst.to_be_bytes());
        packet[6..8].copy_from_slice(&self.flow.to_be_bytes());
        (packet[8], packet[9]) = (self.asked.weight, self.asked.priority);
        packet[10..14].copy_from_slice(&self.asked.demand_kbps.to_be_bytes());
        let checksum = crc16(&packet[..14]);
        packet[14..].copy_from_slice(&checksum.to_be_bytes());
        packet
    }

    /// Returns whether this packet is a broadcast rather than a packet that follows a route, according to its first byte.
    pub fn is(packet: &[u8]) -> bool {
        packet.first().is_some_and(|kind| kind >> 4 != 0)
    }

    /// Decodes a broadcast.
    ///
    /// # Errors
    /// If the length, checksum, type or a field is invalid.
    pub fn decode(packet: &[u8]) -> Result<Broadcast, Malformed> {
        let packet: &[u8; BROADCAST] = packet.try_into().map_err(|_| Malformed::Length)?;
        if packet[14..] != crc16(&packet[..14]).to_be_bytes() {
            return Err(Malformed::Checksum);
        }
        let event = Event::ALL.into_iter().find(|event| event.code() == packet[0] >> 4);
        let routing = Routing::from_code(packet[0] & 15);
        let (Some(event), Some(routing)) = (event, routing) else { return Err(Malformed::Unknown) };
        let [src, dst, flow] = [2, 4, 6].map(|at| u16::from_be_bytes([packet[at], packet[at + 1]]));
        let demand_kbps = u32::from_be_bytes(*packet[10..].first_chunk().expect("four bytes"));
        let asked = Requirements { weight: packet[8], priority: packet[9], demand_kbps };
        if asked.weight == 0 {
            return Err(Malformed::Field);
        }
        Ok(Broadcast { event, src, dst, flow, asked, routing, tree: packet[1] })
    }
}

#[cfg(test)]
mod tests;
