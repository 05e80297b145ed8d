//! Packets on their way: queued, forwarded, lost, described to observers.

use super::flow::{Flow, Role};
use super::wire::{Body, Packet, ready};
use super::{Event, NONE, R2c2};
use crate::engine::{Core, Hop, LinkId, Observer, Packet as Seen, PacketKind};
use crate::network::Departure;
use unrack_units::Time;

impl R2c2 {
    /// Queues a packet at the first link of its route.
    pub(super) fn put<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, packet: Packet) {
        if packet.flow != NONE {
            self.flows[packet.flow].references += 1;
        }
        let packet = self.packets.insert(packet);
        self.forward(core, node, packet);
    }

    /// Queues a packet at the next link of its route.
    fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) {
        let packet = &mut self.packets[index];
        let port = packet.route.port(packet.done).expect("a packet that is not at its end has hops left");
        packet.done += 1;
        let packet = *packet;
        let link = self.graph.links_of(node).start + port;
        let (now, wire) = (core.now(), u64::from(packet.wire));
        let next = packet.route.port(packet.done).map(|port| {
            let next = self.graph.links_of(self.links[link as usize].to).start + port;
            self.links[next as usize].pace
        });
        let place = &mut self.links[link as usize];
        let ahead = place.port.backlog(now);
        if matches!(packet.body, Body::Data(_)) {
            core.queued(link, ahead);
        }
        if ahead + wire > self.buffer {
            return self.lose(core, node, index);
        }
        let departure = place.port.enqueue(now, wire);
        let propagation = place.propagation;
        let latency = if next.is_some() { self.network.switch_latency } else { Time::ZERO };
        let start = ready(departure, next, packet.wire, self.cut_through);
        let at = start + propagation + latency;
        core.hop(LinkId::Port(link), departure.last - departure.first, || {
            self.seen(&packet, (link, propagation), now, departure, at)
        });
        match self.network.topology.loses(LinkId::Port(link), departure) {
            true => self.lose(core, node, index),
            false => core.schedule(at, Event::Arrive { packet: index, link }),
        }
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
            packet: self.looks(packet, self.graph.from(link)),
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
        let controller = self.params.controller;
        match packet.body {
            Body::Data(segment) => {
                let Flow { role, src, dst, .. } = self.flows[packet.flow];
                let kind = if role == Role::Request { PacketKind::Request } else { PacketKind::Data };
                Seen { offset: Some(u64::from(segment) * self.most), ..Seen::new(kind, src, dst) }
            }
            Body::Ack { next, .. } => {
                let Flow { src, dst, .. } = self.flows[packet.flow];
                Seen { offset: Some(u64::from(next) * self.most), ..Seen::new(PacketKind::Ack, dst, src) }
            }
            Body::Lost(news) => Seen::new(PacketKind::Nack, node, news.src()),
            Body::Told(news) => Seen::new(PacketKind::Notification, news.src(), controller),
            Body::Rates(list) => Seen::new(PacketKind::Grant, controller, self.destination(list)),
            Body::LostRates(_) => Seen::new(PacketKind::Nack, node, controller),
        }
    }

    fn lose<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) {
        let packet = self.packets[index];
        self.packets.release(index);
        if packet.flow != NONE {
            let (message, payload) = (self.flows[packet.flow].message, u64::from(packet.payload));
            core.dropped(message, payload, || self.looks(&packet, node));
            return self.drop_reference(packet.flow);
        }
        match packet.body {
            Body::Told(news) => self.report(core, node, news),
            Body::Rates(list) => self.report_rates(core, node, list),
            Body::LostRates(list) => self.forget_rates(list),
            Body::Data(_) | Body::Ack { .. } | Body::Lost(_) => {}
        }
    }

    pub(super) fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32, link: u32) {
        let packet = self.packets[index];
        if packet.done < packet.route.hops() {
            return self.forward(core, self.links[link as usize].to, index);
        }
        self.packets.release(index);
        match packet.body {
            Body::Data(segment) => self.take_data(core, packet, segment),
            Body::Ack { next, mask } => self.take_ack(core.now(), packet.flow, next, mask),
            Body::Lost(news) => self.repeat_later(core, news),
            Body::Told(news) => self.hear_as_controller(core, news),
            Body::Rates(list) => self.take_rates(core, list),
            Body::LostRates(list) => self.give_again(list),
        }
        if packet.flow != NONE {
            self.drop_reference(packet.flow);
        }
    }
}
