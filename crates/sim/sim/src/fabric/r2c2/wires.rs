//! Links of the rack, with the packets on them. Packets are queued, forwarded, lost, and described to observers here.

use super::event::Event;
use super::flow::{FlowRole, FlowTable};
use super::wire::{Body, Link, Packet, ready};
use crate::fabric::slab::Slab;
use unrack_engine::events::{Core, Hop, LinkId, Mechanism, ObservedPacket as Seen, Observer, PacketKind};
use unrack_engine::network::{Departure, Network};
use unrack_engine::topology::Topology;
use unrack_protocol::r2c2::node::RackSetup;
use unrack_units::Time;

/// State of all links.
pub(super) struct Wires {
    links: Vec<Link>,
    /// Maximum number of bytes in the queue of each link.
    buffer: u64,
    cut_through: bool,
    packets: Slab<Packet>,
}

impl Wires {
    /// Creates the links of a topology, without packets.
    pub(super) fn new(topology: &Topology, links: u32, buffer: u64, cut_through: bool) -> Wires {
        Wires { links: Link::all(topology, links), buffer, cut_through, packets: Slab::new() }
    }

    #[inline]
    pub(super) fn link(&self, link: u32) -> &Link {
        &self.links[link as usize]
    }

    /// Returns whether nodes forward a packet while it arrives.
    #[inline]
    pub(super) fn cuts_through(&self) -> bool {
        self.cut_through
    }

    /// Returns when the queue of a link has room for `wire` more bytes.
    #[inline]
    pub(super) fn room_at(&self, link: u32, now: Time, wire: u32) -> Time {
        let first = self.link(link);
        match (first.port.backlog(now) + u64::from(wire)).saturating_sub(self.buffer) {
            0 => now,
            over => now + first.pace.transmit(over),
        }
    }

    #[inline]
    pub(super) fn insert(&mut self, packet: Packet) -> u32 {
        self.packets.insert(packet)
    }

    #[inline]
    pub(super) fn packet(&self, index: u32) -> Packet {
        self.packets[index]
    }

    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        self.packets.release(index);
    }

    /// Queues a packet at the next link of its route. Returns `false` if the packet is lost.
    pub(super) fn forward<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        around: (&RackSetup, &Network, &FlowTable),
        node: u32,
        index: u32,
    ) -> bool {
        let (setup, network, _) = around;
        let packet = &mut self.packets[index];
        let port = packet.route.port(packet.done).expect("a packet that is not at its end has hops left");
        packet.done += 1;
        let packet = *packet;
        let link = setup.graph.links_of(node).start + port;
        let (now, wire) = (core.now(), u64::from(packet.wire));
        let next = packet.route.port(packet.done).map(|port| {
            let next = setup.graph.links_of(self.links[link as usize].to).start + port;
            self.links[next as usize].pace
        });
        let place = &mut self.links[link as usize];
        let ahead = place.port.backlog(now);
        if matches!(packet.body, Body::Data(_)) {
            core.queued(link, ahead);
        }
        if ahead + wire > self.buffer {
            core.acted(Mechanism::FullBuffer);
            return false;
        }
        let departure = place.port.enqueue(now, wire);
        let propagation = place.propagation;
        let latency = if next.is_some() { network.switch_latency } else { Time::ZERO };
        let start = ready(departure, next, packet.wire, self.cut_through);
        let at = start + propagation + latency;
        core.hop(LinkId::Port(link), departure.last - departure.first, || {
            seen(&packet, around, (link, propagation), now, departure, at)
        });
        let is_put = !core.met_fault(network.topology.loses(LinkId::Port(link), departure));
        if is_put {
            core.schedule(at, Event::Arrive { packet: index, link });
        }
        is_put
    }

    /// Sends a broadcast of `wire` bytes from `src` over a link. Returns when it arrives at the other end, or `None` if it is lost.
    pub(super) fn broadcast<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        topology: &Topology,
        link: u32,
        (src, about): (u32, u32),
        wire: u64,
    ) -> Option<Time> {
        let now = core.now();
        let place = &mut self.links[link as usize];
        if place.port.backlog(now) + wire > self.buffer {
            core.acted(Mechanism::FullBuffer);
            return None;
        }
        let departure = place.port.enqueue(now, wire);
        let at = departure.last + place.propagation;
        let propagation = place.propagation;
        core.hop(LinkId::Port(link), departure.last - departure.first, || Hop {
            link: LinkId::Port(link),
            message: None,
            packet: Seen::new(PacketKind::Notification, src, about),
            wire: wire as u32,
            payload: 0,
            ready: now,
            first: departure.first,
            last: departure.last,
            shares: false,
            repeated: Time::ZERO,
            serial: departure.last - departure.first,
            propagation,
            onward: at,
        });
        (!core.met_fault(topology.loses(LinkId::Port(link), departure))).then_some(at)
    }
}

fn seen(
    packet: &Packet,
    (setup, network, flows): (&RackSetup, &Network, &FlowTable),
    (link, propagation): (u32, Time),
    ready: Time,
    departure: Departure,
    onward: Time,
) -> Hop {
    let is_flows = matches!(packet.body, Body::Data(_) | Body::Ack { .. });
    Hop {
        link: LinkId::Port(link),
        message: is_flows.then(|| flows[packet.flow].message),
        packet: looks(packet, setup, flows, setup.graph.from(link)),
        wire: packet.wire,
        payload: packet.payload,
        ready,
        first: departure.first,
        last: departure.last,
        shares: false,
        repeated: Time::ZERO,
        serial: onward
            - departure.first
            - propagation
            - if packet.done < packet.route.hops() { network.switch_latency } else { Time::ZERO },
        propagation,
        onward,
    }
}

/// Describes, to an observer, a packet that `node` forwards.
pub(super) fn looks(packet: &Packet, setup: &RackSetup, flows: &FlowTable, node: u32) -> Seen {
    let controller = setup.params.controller;
    match packet.body {
        Body::Data(segment) => {
            let flow = &flows[packet.flow];
            let (role, src, dst) = (flow.role, flow.src(), flow.dst());
            let kind = if role == FlowRole::Request { PacketKind::Request } else { PacketKind::Data };
            Seen { offset: Some(setup.offset(segment)), ..Seen::new(kind, src, dst) }
        }
        Body::Ack { next, .. } => {
            let (src, dst) = (flows[packet.flow].src(), flows[packet.flow].dst());
            Seen { offset: Some(setup.offset(next)), ..Seen::new(PacketKind::Ack, dst, src) }
        }
        Body::Lost(news) => Seen::new(PacketKind::Nack, node, news.src()),
        Body::Told(news) => Seen::new(PacketKind::Notification, news.src(), controller),
        Body::Rates { node, .. } => Seen::new(PacketKind::Grant, controller, node),
        Body::LostRates(_) => Seen::new(PacketKind::Nack, node, controller),
    }
}
