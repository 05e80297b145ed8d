//! Descriptions of packets for observers.

use super::kind::{Kind, SignalOf, SubflowsOf};
use super::open::{OpenStreams, StreamRole};
use super::packet::{Body, Packet};
use unrack_engine::ObservedPacket;
use unrack_engine::events::PacketKind;
use unrack_protocol::tcp::{StreamSignal, SubflowSet};

/// Describes a packet to an observer. `mss`: payload bytes of a full segment.
pub(super) fn looks<K: Kind>(
    packet: &Packet<SignalOf<K>>,
    open: &OpenStreams<K>,
    mss: u64,
) -> ObservedPacket {
    let stream = &open[packet.stream];
    let bytes = |segment: u32| (u64::from(segment) * mss).min(stream.bytes);
    let from = if packet.to == stream.dst { stream.src } else { stream.dst };
    match packet.body {
        Body::Data(segment) => {
            let kind =
                if stream.role == StreamRole::Request { PacketKind::Request } else { PacketKind::Data };
            let offset = Some(bytes(packet.signal.in_stream(segment.number)));
            let (sent, marked) = (Some(segment.sent), packet.marked);
            ObservedPacket { offset, sent, marked, ..ObservedPacket::new(kind, from, packet.to) }
        }
        Body::Ack(ack) => {
            let mut sack = [(0, 0); 3];
            // With several subflows, blocks count the segments of one subflow and not of the stream, so they are left out.
            let blocks = ack.sack.blocks().filter(|_| SubflowsOf::<K>::MOST == 1);
            for (range, block) in sack.iter_mut().zip(blocks) {
                *range = (bytes(block.start), bytes(block.end));
            }
            let plain = ObservedPacket::new(PacketKind::Ack, from, packet.to);
            let (offset, sent, echo) =
                (Some(bytes(packet.signal.in_stream(ack.next))), Some(ack.echo), ack.marked);
            ObservedPacket { offset, sack, sent, echo, ..plain }
        }
    }
}
