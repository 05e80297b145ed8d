//! Ethernet, IPv4 and TCP headers of streams, for captures.
//!
//! Node n has the address 02:00:nn:nn:nn:nn, and 10.n.n.n with the lower three bytes of its number. Each message is a
//! connection from a port of 1024 or higher at the client to port 5001. As in the simulation, the connection is open
//! from the start; therefore there is no SYN. Sequence numbers begin at 1. Timestamps (RFC 7323) count microseconds.

use super::Frame;
use unrack_engine::events::{Hop, PacketKind};
use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

const ETHERNET: usize = 14;
const IP: usize = 20;
const TCP: usize = 20;
const TIMESTAMPS: usize = 12;
const SERVER_PORT: u16 = 5001;
const FIRST_PORT: u16 = 1024;

/// ECN code point (RFC 3168 §5): ECN-capable.
const ECT_0: u8 = 0b10;
/// ECN code point (RFC 3168 §5): congestion experienced.
const CE: u8 = 0b11;

/// TCP flag: push.
const PSH: u8 = 0x08;
/// TCP flag: acknowledgement.
const ACK: u8 = 0x10;
/// TCP flag: ECN echo.
const ECE: u8 = 0x40;

pub(super) fn frame(hop: &Hop, id: MessageId, message: &Message, ecn: bool) -> Frame {
    let sack: Vec<(u64, u64)> = hop.packet.sack.into_iter().take_while(|(start, end)| start < end).collect();
    let options = TIMESTAMPS + if sack.is_empty() { 0 } else { 4 + 8 * sack.len() };
    let headers = IP + TCP + options;
    let length = headers + hop.payload as usize;
    let mut bytes = ethernet(hop);
    bytes.extend(ip(hop, length, ecn));
    let mut tcp = tcp(hop, id, message, options);
    tcp.extend(timestamps(hop));
    if !sack.is_empty() {
        tcp.extend(selective(&sack));
    }
    let check = checksum(&[&pseudo_header(hop, length - IP), &tcp]);
    tcp[16..18].copy_from_slice(&check.to_be_bytes());
    bytes.extend(tcp);
    Frame { bytes, length: (ETHERNET + length) as u32 }
}

fn ethernet(hop: &Hop) -> Vec<u8> {
    let address = |node: NodeId| [[0x02, 0].as_slice(), &node.to_be_bytes()].concat();
    let mut bytes = [address(hop.packet.dst), address(hop.packet.src)].concat();
    bytes.extend(0x0800u16.to_be_bytes());
    bytes
}

fn address(node: NodeId) -> [u8; 4] {
    let [_, high, middle, low] = node.to_be_bytes();
    [10, high, middle, low]
}

fn ip(hop: &Hop, length: usize, ecn: bool) -> [u8; IP] {
    // RFC 3168 §6.1.4: acknowledgements are sent as not ECN-capable, so that switches do not mark them.
    let code_point = match (ecn && hop.payload > 0, hop.packet.marked) {
        (false, _) => 0,
        (true, false) => ECT_0,
        (true, true) => CE,
    };
    let mut bytes = [0; IP];
    bytes[0] = 0x45;
    bytes[1] = code_point;
    // The length of a packet of 64 KiB exceeds the largest value of the field by one, and is clamped.
    bytes[2..4].copy_from_slice(&u16::try_from(length).unwrap_or(u16::MAX).to_be_bytes());
    bytes[6] = 0x40; // not to be fragmented
    bytes[8] = 64; // hops left
    bytes[9] = 6; // TCP
    bytes[12..16].copy_from_slice(&address(hop.packet.src));
    bytes[16..20].copy_from_slice(&address(hop.packet.dst));
    let check = checksum(&[&bytes]);
    bytes[10..12].copy_from_slice(&check.to_be_bytes());
    bytes
}

fn tcp(hop: &Hop, id: MessageId, message: &Message, options: usize) -> Vec<u8> {
    let packet = &hop.packet;
    let asker = FIRST_PORT + (id.0 % u32::from(u16::MAX - FIRST_PORT)) as u16;
    let asks = packet.src == message.src;
    let ports = if asks { [asker, SERVER_PORT] } else { [SERVER_PORT, asker] };
    let offset = packet.offset.unwrap_or(0);
    // The opposite direction carried either a request, which has arrived completely, or no data.
    let request = u64::from(message.request);
    let (sequence, acknowledged) = match (packet.kind, asks) {
        (PacketKind::Ack, true) => (request, offset),
        (PacketKind::Ack, false) => (0, offset),
        (_, true) => (offset, 0),
        (_, false) => (offset, request),
    };
    let mut flags = ACK;
    if hop.payload > 0 {
        flags |= PSH;
    }
    if packet.echo {
        flags |= ECE;
    }
    let mut bytes = Vec::with_capacity(TCP + options);
    ports.iter().for_each(|port| bytes.extend(port.to_be_bytes()));
    [sequence, acknowledged].iter().for_each(|offset| bytes.extend(number(*offset)));
    bytes.push((((TCP + options) / 4) << 4) as u8);
    bytes.push(flags);
    bytes.extend(u16::MAX.to_be_bytes()); // the receive window never limits the sender
    bytes.extend([0; 4]); // checksum, urgent pointer
    bytes
}

/// Returns the sequence number of a byte. The SYN takes number 0, and numbers wrap around at 2^32 (RFC 9293 §3.4).
fn number(offset: u64) -> [u8; 4] {
    (offset as u32).wrapping_add(1).to_be_bytes()
}

/// Returns the timestamps option (RFC 7323 §3.2), with padding in front.
fn timestamps(hop: &Hop) -> Vec<u8> {
    let sent = hop.packet.sent.map_or(0, |at| (at.as_ps() / Time::from_us(1).as_ps()) as u32);
    let (value, echo) = if hop.packet.kind == PacketKind::Ack { (0, sent) } else { (sent, 0) };
    [[1, 1, 8, 10], u32::to_be_bytes(value), u32::to_be_bytes(echo)].concat()
}

/// Returns the selective-acknowledgement option (RFC 2018 §3), with padding in front.
fn selective(ranges: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![1, 1, 5, 2 + 8 * ranges.len() as u8];
    for (start, end) in ranges {
        bytes.extend(number(*start));
        bytes.extend(number(*end));
    }
    bytes
}

fn pseudo_header(hop: &Hop, length: usize) -> Vec<u8> {
    let mut bytes = [address(hop.packet.src), address(hop.packet.dst)].concat();
    bytes.extend([0, 6]);
    bytes.extend((length as u16).to_be_bytes());
    bytes
}

/// Returns the Internet checksum (RFC 1071). The payload is all zeros; therefore it does not change the sum.
fn checksum(parts: &[&[u8]]) -> u16 {
    let words = parts.iter().flat_map(|part| part.chunks(2));
    let mut sum: u32 =
        words.map(|word| u32::from(u16::from_be_bytes([word[0], *word.get(1).unwrap_or(&0)]))).sum();
    while sum > 0xFFFF {
        sum = (sum & 0xFFFF) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_numbers_begin_again_after_4_gib() {
        let of = |offset: u64| u32::from_be_bytes(number(offset));
        assert_eq!(
            [0, (1 << 32) - 2, (1 << 32) - 1, 1 << 32, 5 << 30].map(of),
            [1, u32::MAX, 0, 1, (1 << 30) + 1]
        );
    }
}
