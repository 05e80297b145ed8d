//! Packets on their way: queued, forwarded, lost, described to observers.

use super::flow::Role;
use super::wire::{Body, Packet, ready};
use super::{Event, NONE, R2c2, Rack};
use unrack_engine::events::{Core, Hop, LinkId, ObservedPacket as Seen, Observer, PacketKind};
use unrack_engine::network::Departure;
use unrack_units::Time;

impl Rack {
    /// Queues a packet at the first link of its route. Returns whether it left, and was not lost on that link.
    pub(super) fn put<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, packet: Packet) -> bool {
        if packet.flow != NONE {
            self.flows[packet.flow].references += 1;
        }
        let packet = self.packets.insert(packet);
        let is_put = self.forward(core, node, packet);
        if !is_put {
            self.drop(core, node, packet);
        }
        is_put
    }

    /// Queues a packet at the next link of its route. Returns `false` if it is lost.
    fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) -> bool {
        let packet = &mut self.packets[index];
        let port = packet.route.port(packet.done).expect("a packet that is not at its end has hops left");
        packet.done += 1;
        let packet = *packet;
        let link = self.setup.graph.links_of(node).start + port;
        let (now, wire) = (core.now(), u64::from(packet.wire));
        let next = packet.route.port(packet.done).map(|port| {
            let next = self.setup.graph.links_of(self.links[link as usize].to).start + port;
            self.links[next as usize].pace
        });
        let place = &mut self.links[link as usize];
        let ahead = place.port.backlog(now);
        if matches!(packet.body, Body::Data(_)) {
            core.queued(link, ahead);
        }
        if ahead + wire > self.buffer {
            return false;
        }
        let departure = place.port.enqueue(now, wire);
        let propagation = place.propagation;
        let latency = if next.is_some() { self.network.switch_latency } else { Time::ZERO };
        let start = ready(departure, next, packet.wire, self.cut_through);
        let at = start + propagation + latency;
        core.hop(LinkId::Port(link), departure.last - departure.first, || {
            self.seen(&packet, (link, propagation), now, departure, at)
        });
        let is_put = !self.network.topology.loses(LinkId::Port(link), departure);
        if is_put {
            core.schedule(at, Event::Arrive { packet: index, link });
        }
        is_put
    }

    fn seen(
        &self,
        packet: &Packet,
        (link, propagation): (u32, Time),
        ready: Time,
        departure: Departure,
        onward: Time,
    ) -> Hop {
        let is_flows = matches!(packet.body, Body::Data(_) | Body::Ack { .. });
        Hop {
            link: LinkId::Port(link),
            message: is_flows.then(|| self.flows[packet.flow].message),
            packet: self.looks(packet, self.setup.graph.from(link)),
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
                - if packet.done < packet.route.hops() { self.network.switch_latency } else { Time::ZERO },
            propagation,
            onward,
        }
    }

    /// Describes, to an observer, a packet that `node` forwards.
    fn looks(&self, packet: &Packet, node: u32) -> Seen {
        let controller = self.setup.params.controller;
        match packet.body {
            Body::Data(segment) => {
                let flow = &self.flows[packet.flow];
                let (role, src, dst) = (flow.role, flow.src(), flow.dst());
                let kind = if role == Role::Request { PacketKind::Request } else { PacketKind::Data };
                Seen { offset: Some(self.setup.offset(segment)), ..Seen::new(kind, src, dst) }
            }
            Body::Ack { next, .. } => {
                let (src, dst) = (self.flows[packet.flow].src(), self.flows[packet.flow].dst());
                Seen { offset: Some(self.setup.offset(next)), ..Seen::new(PacketKind::Ack, dst, src) }
            }
            Body::Lost(news) => Seen::new(PacketKind::Nack, node, news.src()),
            Body::Told(news) => Seen::new(PacketKind::Notification, news.src(), controller),
            Body::Rates { node, .. } => Seen::new(PacketKind::Grant, controller, node),
            Body::LostRates(_) => Seen::new(PacketKind::Nack, node, controller),
        }
    }

    /// Drops a packet that a node could not forward, or that a link lost.
    fn drop<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) {
        let packet = self.packets[index];
        self.packets.release(index);
        if packet.flow != NONE {
            let (message, payload) = (self.flows[packet.flow].message, u64::from(packet.payload));
            core.dropped(message, payload, || self.looks(&packet, node));
            self.drop_reference(packet.flow);
        }
    }
}

impl R2c2 {
    pub(super) fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32, link: u32) {
        let packet = self.rack.packets[index];
        if packet.done < packet.route.hops() {
            let node = self.rack.links[link as usize].to;
            if !self.rack.forward(core, node, index) {
                self.rack.drop(core, node, index);
                self.report_loss(core, node, packet.body);
            }
            return;
        }
        self.rack.packets.release(index);
        match packet.body {
            Body::Data(segment) => self.take_data(core, packet, segment),
            Body::Ack { next, mask } => self.take_ack(core, packet.flow, (next, mask)),
            Body::Lost(news) => {
                let (node, mut around) = self.at(core, news.src());
                node.repeat_later(&mut around, news);
            }
            Body::Told(news) => {
                let (node, mut around) = self.at(core, self.rack.setup.params.controller);
                node.hear_as_controller(&mut around, news);
            }
            Body::Rates { list, .. } => self.take_rates(core, list),
            Body::LostRates(list) => self.give_again(list),
        }
        if packet.flow != NONE {
            self.rack.drop_reference(packet.flow);
        }
    }

    /// Has a node that dropped a packet tell who has to know.
    pub(super) fn report_loss<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, body: Body) {
        match body {
            Body::Told(news) => {
                let (node, mut around) = self.at(core, node);
                node.report(&mut around, news);
            }
            Body::Rates { list, .. } => self.report_rates(core, node, list),
            Body::LostRates(list) => self.forget_rates(list),
            Body::Data(_) | Body::Ack { .. } | Body::Lost(_) => {}
        }
    }
}
