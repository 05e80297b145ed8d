//! A packet on its way, and its description for an observer.

use super::kind::{Kind, SignalOf, SubflowsOf};
use super::{Role, Streams};
use unrack_engine as engine;
use unrack_engine::events::{Hop, LinkId, PacketKind};
use unrack_engine::network::Departure;
use unrack_engine::topology::End;
use unrack_protocol::tcp::{Ack, Segment, StreamSignal, SubflowSet};
use unrack_units::Time;
use unrack_workload::NodeId;

#[derive(Debug, Clone, Copy)]
pub(super) struct Packet<S> {
    pub stream: u32,
    /// Words about the stream, beside the header.
    pub signal: S,
    pub to: NodeId,
    /// Switch port that the packet is on its way to, or in.
    pub port: u32,
    /// Hash that selects one of several equal-cost paths.
    pub hash: u32,
    pub wire: u32,
    pub payload: u32,
    pub marked: bool,
    pub body: Body,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    Data(Segment),
    Ack(Ack),
}

impl<K: Kind> Streams<K> {
    /// Describes a packet over a link, by when it joined the queue, leaves, and can go on.
    pub(super) fn seen(
        &self,
        packet: &Packet<SignalOf<K>>,
        link: LinkId,
        ready: Time,
        Departure { first, last }: Departure,
        onward: Time,
    ) -> Hop {
        let network = &self.plan.network;
        let (propagation, to_switch) = match link {
            LinkId::Host(_) => (network.topology.propagation(link), true),
            LinkId::Port(port) => {
                let hop = &self.hops[port as usize];
                (hop.propagation, matches!(hop.end, End::Switch(_)))
            }
        };
        let device = if to_switch { network.switch_latency } else { Time::ZERO };
        Hop {
            link,
            message: Some(self.streams[packet.stream].id),
            packet: self.looks(packet),
            wire: packet.wire,
            payload: packet.payload,
            ready,
            first,
            last,
            shares: false,
            repeated: Time::ZERO,
            serial: onward - first - propagation - device,
            propagation,
            onward,
        }
    }

    /// Describes a packet to an observer.
    pub(super) fn looks(&self, packet: &Packet<SignalOf<K>>) -> engine::ObservedPacket {
        let stream = &self.streams[packet.stream];
        let mss = self.plan.framing.mss().get();
        let bytes = |segment: u32| (u64::from(segment) * mss).min(stream.bytes);
        let from = if packet.to == stream.dst { stream.src } else { stream.dst };
        match packet.body {
            Body::Data(segment) => {
                let kind = if stream.role == Role::Request { PacketKind::Request } else { PacketKind::Data };
                let offset = Some(bytes(packet.signal.in_stream(segment.number)));
                let (sent, marked) = (Some(segment.sent), packet.marked);
                engine::ObservedPacket {
                    offset,
                    sent,
                    marked,
                    ..engine::ObservedPacket::new(kind, from, packet.to)
                }
            }
            Body::Ack(ack) => {
                let mut sack = [(0, 0); 3];
                // Where there are several subflows, blocks are of a subflow's own segments.
                let blocks = ack.sack.blocks().filter(|_| SubflowsOf::<K>::MOST == 1);
                for (range, block) in sack.iter_mut().zip(blocks) {
                    *range = (bytes(block.start), bytes(block.end));
                }
                let plain = engine::ObservedPacket::new(PacketKind::Ack, from, packet.to);
                let (offset, sent, echo) =
                    (Some(bytes(packet.signal.in_stream(ack.next))), Some(ack.echo), ack.marked);
                engine::ObservedPacket { offset, sack, sent, echo, ..plain }
            }
        }
    }
}
