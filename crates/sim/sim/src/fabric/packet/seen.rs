//! Descriptions of packets for observers.

use super::{OUTSIDE, Packet, TransferRole, Transport, Wires};
use unrack_engine as engine;
use unrack_engine::events::{Hop, LinkId, PacketKind};
use unrack_engine::network::Departure;
use unrack_engine::topology::LinkEnd;
use unrack_units::Time;

impl<T: Transport> Wires<T> {
    /// Describes the passage of a packet over a link: `departure` is when its bits leave, and `onward` is when it can be forwarded.
    pub(super) fn seen(
        &self,
        packet: &Packet<T::Header>,
        link: LinkId,
        Departure { first, last }: Departure,
        onward: Time,
    ) -> Hop {
        let network = &self.plan.network;
        let (propagation, to_switch) = match link {
            LinkId::Host(_) => (network.topology.host_link().propagation, true),
            LinkId::Port(port) => {
                let port = &self.ports[port as usize];
                (port.propagation, matches!(port.end, LinkEnd::Switch(_)))
            }
        };
        let device = if to_switch { network.switch_latency } else { Time::ZERO };
        // A packet to [`OUTSIDE`] arrives completely before it is forwarded.
        let serial = if packet.to == OUTSIDE { last - first } else { onward - first - propagation - device };
        Hop {
            link,
            message: Some(self.transfers[packet.transfer].message),
            packet: self.looks(packet),
            wire: packet.wire,
            payload: packet.payload,
            ready: packet.ready,
            first,
            last,
            shares: false,
            repeated: Time::ZERO,
            serial,
            propagation,
            onward,
        }
    }

    /// Describes a packet to an observer.
    pub(super) fn looks(&self, packet: &Packet<T::Header>) -> engine::ObservedPacket {
        let transfer = &self.transfers[packet.transfer];
        let (kind, segment) = T::describe(&packet.header);
        let kind = match kind {
            PacketKind::Data if packet.trimmed => PacketKind::Header,
            PacketKind::Data if transfer.role == TransferRole::Request => PacketKind::Request,
            kind => kind,
        };
        let from = if packet.to == transfer.dst { transfer.src } else { transfer.dst };
        let offset = segment.map(|segment| self.offset(packet.transfer, segment));
        // Ranks that do not fit in a byte count as the last priority.
        let priority = u8::try_from(packet.rank).unwrap_or(u8::MAX);
        engine::ObservedPacket { offset, priority, ..engine::ObservedPacket::new(kind, from, packet.to) }
    }

    /// Returns the offset of the first byte of a segment in its transfer.
    pub(super) fn offset(&self, transfer: u32, segment: u32) -> u64 {
        (u64::from(segment) * self.plan.framing.mss().get()).min(self.transfers[transfer].bytes)
    }
}
