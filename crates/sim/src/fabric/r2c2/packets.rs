//! Packets on their way: queued, forwarded, lost, seen.

use super::flow::Role;
use super::wire::{Body, Packet, ready};
use super::{Event, NONE, R2c2};
use crate::engine::{Core, Hop, LinkId, Observer, Packet as Seen, PacketKind};
use crate::network::Departure;
use unrack_units::Time;

impl R2c2 {
    /// Puts a packet into the first queue on its way.
    pub(super) fn put<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, packet: Packet) {
        if packet.flow != NONE {
            self.flows[packet.flow].references += 1;
        }
        let packet = self.packets.insert(packet);
        self.forward(core, node, packet);
    }

    /// A node queues a packet for the next link on its way.
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
        core.hop(|| self.seen(&packet, (link, propagation), now, departure, at));
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
        let (kind, offset, message) = match packet.body {
            Body::Data(segment) => {
                let flow = &self.flows[packet.flow];
                let kind = if flow.role == Role::Request { PacketKind::Request } else { PacketKind::Data };
                (kind, Some(u64::from(segment) * self.most), Some(flow.message))
            }
            Body::Ack { next, .. } => {
                (PacketKind::Ack, Some(u64::from(next) * self.most), Some(self.flows[packet.flow].message))
            }
            Body::Lost(_) | Body::LostRates(_) => (PacketKind::Nack, None, None),
            Body::Told(_) => (PacketKind::Notification, None, None),
            Body::Rates(_) => (PacketKind::Grant, None, None),
        };
        let (src, dst) = match packet.body {
            Body::Data(_) => (self.flows[packet.flow].src, self.flows[packet.flow].dst),
            Body::Ack { .. } => (self.flows[packet.flow].dst, self.flows[packet.flow].src),
            Body::Lost(news) => (self.graph.from(link), news.src()),
            Body::Told(news) => (news.src(), self.params.controller),
            Body::Rates(list) => (self.params.controller, self.destination(list)),
            Body::LostRates(_) => (self.graph.from(link), self.params.controller),
        };
        Hop {
            link: LinkId::Port(link),
            message,
            packet: Seen { offset, ..Seen::new(kind, src, dst) },
            wire: packet.wire,
            payload: packet.payload,
            ready,
            first: departure.first,
            last: departure.last,
            shares: false,
            serial: onward
                - departure.first
                - propagation
                - if packet.done < packet.route.hops() { self.network.switch_latency } else { Time::ZERO },
            propagation,
            onward,
        }
    }

    fn lose<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32, index: u32) {
        let packet = self.packets[index];
        self.packets.release(index);
        if packet.flow != NONE {
            core.dropped(self.flows[packet.flow].message, u64::from(packet.payload));
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
