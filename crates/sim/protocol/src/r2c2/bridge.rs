//! Bridge between an R2C2 rack and a switched Ethernet network (§6). The bridge encapsulates R2C2 packets in Ethernet frames, and it
//! encapsulates the Ethernet frames of hosts outside the rack in R2C2 packets.
//!
//! **An R2C2 packet in an Ethernet frame** crosses a link of the rack that leads through Ethernet switches. The frame's header is followed
//! by a length field, because Ethernet pads short frames. The length field is followed by the content of a tunnel datagram ([`Tunnel`]):
//!
//! | bytes | |
//! |---|---|
//! | 0-5, 6-11 | destination, source: [`Mac::of_node`], unless switches know others |
//! | 12-13 | [`ETHERTYPE`] |
//! | 14-15 | number of bytes that follow |
//! | 16-31 | the header of a tunnel |
//! | 32-.. | the packet |
//!
//! **An Ethernet frame in an R2C2 packet** crosses the rack from one gateway to another, unchanged, as the payload of a packet of
//! [`Kind::Frame`](super::packet::Kind). A gateway learns from source addresses behind which other gateway each outside host is, as an
//! Ethernet switch learns ports ([`Stations`]). A gateway sends frames for a group address or an unknown host to all gateways. Gateways do
//! not fragment frames; therefore hosts behind a gateway must use an MTU of at most [`most_mtu`].

use super::packet::Malformed;
use super::tunnel::{TUNNEL_HEADER, Tunnel};
use std::collections::HashMap;
use unrack_units::Time;

/// EtherType of encapsulated packets (IEEE 802, "Local Experimental Ethertype 1").
pub const ETHERTYPE: u16 = 0x88B5;
/// Bytes of an Ethernet frame before its payload.
pub const FRAME_HEADER: usize = 14;
/// Number of bytes of an Ethernet frame that precede the R2C2 packet in it.
pub const ENCAPSULATION: usize = FRAME_HEADER + 2 + TUNNEL_HEADER;

/// Ethernet address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mac(pub [u8; 6]);

impl Mac {
    /// Returns the Ethernet address of a node of the rack. The address is locally administered and contains the node's number.
    pub fn of_node(node: u16) -> Mac {
        let [high, low] = node.to_be_bytes();
        Mac([0x02, 0x52, 0xC2, 0, high, low])
    }

    /// Returns whether this is a group address (multicast or broadcast).
    pub fn is_group(self) -> bool {
        self.0[0] & 1 == 1
    }
}

/// Destination and source of a frame.
pub type FrameEnds = (Mac, Mac);

/// Returns the destination and source addresses of a frame, or `None` if the frame is shorter than an Ethernet header.
pub fn ends(frame: &[u8]) -> Option<FrameEnds> {
    let header: &[u8; FRAME_HEADER] = frame.first_chunk()?;
    Some((Mac(*header.first_chunk()?), Mac(*header[6..].first_chunk()?)))
}

/// Returns the MTU, in bytes, for the Ethernet hosts behind a gateway of a rack whose R2C2 packets carry up to `payload` bytes of payload.
pub fn most_mtu(payload: u64) -> u64 {
    payload.saturating_sub(FRAME_HEADER as u64)
}

/// Returns the headers that precede an R2C2 packet of `packet` bytes in an Ethernet frame, or `None` if the packet is too long for the
/// length field.
pub fn encapsulate((dst, src): FrameEnds, tunnel: Tunnel, packet: usize) -> Option<[u8; ENCAPSULATION]> {
    let length = u16::try_from(TUNNEL_HEADER + packet).ok()?;
    let mut header = [0; ENCAPSULATION];
    header[..6].copy_from_slice(&dst.0);
    header[6..12].copy_from_slice(&src.0);
    header[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
    header[14..16].copy_from_slice(&length.to_be_bytes());
    header[16..].copy_from_slice(&tunnel.encode());
    Some(header)
}

/// Returns the R2C2 packet that an Ethernet frame contains, with the frame's addresses and the tunnel header, which names the link that the
/// packet crosses.
///
/// # Errors
/// If the frame is too short, or does not contain an encapsulated R2C2 packet.
pub fn decapsulate(frame: &[u8]) -> Result<(FrameEnds, Tunnel, &[u8]), Malformed> {
    let ends = ends(frame).ok_or(Malformed::Length)?;
    if frame[12..14] != ETHERTYPE.to_be_bytes() {
        return Err(Malformed::Unknown);
    }
    let (length, rest) = frame[FRAME_HEADER..].split_first_chunk::<2>().ok_or(Malformed::Length)?;
    let datagram = rest.get(..u16::from_be_bytes(*length).into()).ok_or(Malformed::Length)?;
    let (tunnel, packet) = Tunnel::decode(datagram)?;
    Ok((ends, tunnel, packet))
}

/// Outside hosts that a gateway knows: maps each host's Ethernet address to the gateway behind which the host is.
#[derive(Debug, Clone, Default)]
pub struct Stations(HashMap<Mac, (u16, Time)>);

/// Time after which a gateway forgets a host if no frame from that host arrives, as in IEEE 802.1D.
const AGEING: Time = Time::from_us(300_000_000);
/// Maximum number of hosts that a gateway remembers. A host that invents source addresses can fill the table, but the only effect is that
/// the gateway then sends frames for hosts that are not in the table to all gateways.
const MOST_STATIONS: usize = 4_096;

impl Stations {
    /// Records that the host with the frame's source address is behind the gateway `gateway`.
    pub fn learn(&mut self, now: Time, frame: &[u8], gateway: u16) {
        let Some((_, src)) = ends(frame).filter(|(_, src)| !src.is_group()) else { return };
        if self.0.len() >= MOST_STATIONS && !self.0.contains_key(&src) {
            self.0.retain(|_, (_, heard)| *heard + AGEING > now);
        }
        if self.0.len() < MOST_STATIONS || self.0.contains_key(&src) {
            self.0.insert(src, (gateway, now));
        }
    }

    /// Returns the gateway behind which a frame's destination host is, or `None` if the destination is a group address or an unknown host.
    pub fn gateway_of(&self, now: Time, frame: &[u8]) -> Option<u16> {
        let (dst, _) = ends(frame).filter(|(dst, _)| !dst.is_group())?;
        self.0.get(&dst).filter(|(_, heard)| *heard + AGEING > now).map(|(gateway, _)| *gateway)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn frame(dst: Mac, src: Mac) -> Vec<u8> {
        [&dst.0[..], &src.0, &[8, 0], b"something"].concat()
    }

    proptest! {
        /// An R2C2 packet in an Ethernet frame can be decoded again, however many bytes of padding the frame has.
        #[test]
        fn packets_in_frames_read_back(
            rack: u64, link: u32, packet in prop::collection::vec(any::<u8>(), 0..100), filling in 0usize..50, nodes: (u16, u16),
        ) {
            let (tunnel, ends) = (Tunnel { rack, link }, (Mac::of_node(nodes.0), Mac::of_node(nodes.1)));
            let header = encapsulate(ends, tunnel, packet.len()).unwrap();
            let frame = [&header[..], &packet, &vec![0; filling]].concat();
            prop_assert_eq!(decapsulate(&frame), Ok((ends, tunnel, &packet[..])));
            prop_assert!(decapsulate(&frame[..ENCAPSULATION + packet.len()]).is_ok());
            prop_assert!(decapsulate(&frame[..ENCAPSULATION + packet.len() - 1]).is_err());
        }

        /// Arbitrary bytes in place of a frame are either decoded correctly or refused.
        #[test]
        fn nonsense_is_read_or_refused(mut bytes in prop::collection::vec(any::<u8>(), 0..80), seal in 0u8..3) {
            if bytes.len() > 18 && seal > 0 {
                bytes[12..14].copy_from_slice(&ETHERTYPE.to_be_bytes());
                bytes[14] = 0;
                bytes[15] %= 70;
            }
            if bytes.len() > 20 && seal > 1 {
                bytes[16..20].copy_from_slice(&[0x52, 0xC2, 1, 0]);
            }
            if let Ok((ends, tunnel, packet)) = decapsulate(&bytes) {
                let header = encapsulate(ends, tunnel, packet.len()).unwrap();
                let all = [&header[..], packet].concat();
                prop_assert_eq!(&all[..], &bytes[..all.len()]);
            }
            let mut stations = Stations::default();
            stations.learn(Time::ZERO, &bytes, 3);
            prop_assert!(stations.gateway_of(Time::ZERO, &bytes).is_none_or(|gateway| gateway == 3));
        }
    }

    #[test]
    fn a_packet_that_is_too_long_for_a_frame_is_refused() {
        let (ends, tunnel) = ((Mac::of_node(1), Mac::of_node(2)), Tunnel { rack: 1, link: 2 });
        assert!(encapsulate(ends, tunnel, 65_519).is_some() && encapsulate(ends, tunnel, 65_520).is_none());
        assert_eq!(Mac::of_node(0x0102), Mac([2, 0x52, 0xC2, 0, 1, 2]));
    }

    #[test]
    fn stations_are_learnt_moved_and_forgotten() {
        let [a, b] = [1, 2].map(|n| Mac([2, 0, 0, 0, 0, n]));
        let (from_a, to_a, to_all) = (frame(b, a), frame(a, b), frame(Mac([255; 6]), b));
        let mut stations = Stations::default();
        assert_eq!(stations.gateway_of(Time::ZERO, &to_a), None);
        stations.learn(Time::ZERO, &from_a, 7);
        assert_eq!(stations.gateway_of(Time::from_us(1), &to_a), Some(7));
        assert_eq!(stations.gateway_of(Time::from_us(1), &to_all), None);
        stations.learn(Time::from_us(2), &from_a, 9);
        assert_eq!(stations.gateway_of(Time::from_us(3), &to_a), Some(9));
        assert_eq!(stations.gateway_of(AGEING + Time::from_us(2), &to_a), None);
    }

    #[test]
    fn invented_addresses_take_no_more_than_their_room() {
        let mut stations = Stations::default();
        let station = |n: u32| Mac([2, 0, 0, (n >> 16) as u8, (n >> 8) as u8, n as u8]);
        (0..10_000).for_each(|n| stations.learn(Time::ZERO, &frame(station(0), station(n)), 1));
        assert_eq!(stations.0.len(), MOST_STATIONS);
        stations.learn(AGEING, &frame(station(0), station(9_999)), 1);
        assert_eq!(stations.0.len(), 1);
    }
}
