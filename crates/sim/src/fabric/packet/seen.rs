//! How a packet looks to whoever looks on.

use super::{OUTSIDE, Packet, Role, Transport, Wires};
use crate::engine::{self, Hop, LinkId, PacketKind};
use crate::network::Departure;
use crate::topology::End;
use unrack_units::Time;

impl<T: Transport> Wires<T> {
    /// A packet over a link: when it leaves, and can go on.
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
                (port.propagation, matches!(port.end, End::Switch(_)))
            }
        };
        let device = if to_switch { network.switch_latency } else { Time::ZERO };
        let transfer = &self.transfers[packet.transfer];
        // What goes outside is all in before it goes on.
        let serial = if packet.to == OUTSIDE { last - first } else { onward - first - propagation - device };
        let from = if packet.to == transfer.dst { transfer.src } else { transfer.dst };
        let (kind, segment) = T::describe(&packet.header);
        let kind = match kind {
            PacketKind::Data if packet.trimmed => PacketKind::Header,
            PacketKind::Data if transfer.role == Role::Request => PacketKind::Request,
            kind => kind,
        };
        let mss = self.plan.framing.mss().get();
        let offset = segment.map(|segment| (u64::from(segment) * mss).min(transfer.bytes));
        // Ranks beyond a byte are as good as the last.
        let priority = u8::try_from(packet.rank).unwrap_or(u8::MAX);
        Hop {
            link,
            message: Some(transfer.message),
            packet: engine::Packet { offset, priority, ..engine::Packet::new(kind, from, packet.to) },
            wire: packet.wire,
            payload: packet.payload,
            ready: packet.ready,
            first,
            last,
            shares: false,
            serial,
            propagation,
            onward,
        }
    }
}
