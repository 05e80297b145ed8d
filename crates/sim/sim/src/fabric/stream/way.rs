//! A packet's path: from a node's link through switch ports to its end.

use super::kind::{Kind, SignalOf};
use super::packet::{Body, Packet};
use super::{Event, FROM_NODE, Streams};
use unrack_engine::PacketSize;
use unrack_engine::events::{Core, LinkId, Observer};
use unrack_engine::network::Departure;
use unrack_engine::topology::End;
use unrack_protocol::tcp::StreamSignal;
use unrack_units::Time;
use unrack_workload::Endpoints;

impl<K: Kind> Streams<K> {
    /// Queues a packet in the host, or at one of the node's links.
    pub(super) fn put<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        ends: Endpoints,
        (stream, signal): (u32, SignalOf<K>),
        size: PacketSize,
        body: Body,
    ) {
        let Endpoints { src: from, dst: to } = ends;
        let PacketSize { wire, payload } = size;
        let place = &mut self.streams[stream];
        place.references += 1;
        let hash = match body {
            Body::Data(_) => place.hash(signal.subflow()),
            Body::Ack(_) => place.hash_unsprayed(signal.subflow()),
        };
        place.sprayed += u32::from(self.plan.spraying && matches!(body, Body::Data(_)));
        let nic = self.plan.network.topology.attachment_at(from, to, hash, core.now());
        // `port` is set when the packet is launched.
        let packet = Packet { stream, signal, to, port: 0, hash, wire, payload, marked: false, body };
        let index = self.packets.insert(packet);
        match &mut self.hosts {
            Some(_) => self.enter_host(core.now(), ends, nic, index),
            None => {
                self.launch(core, nic, index);
            }
        }
    }

    /// Queues a packet at a link by which nodes send.
    pub(super) fn launch<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        nic: u32,
        index: u32,
    ) -> Departure {
        let topology = &self.plan.network.topology;
        let link = LinkId::Host(nic);
        let packet = &mut self.packets[index];
        packet.port = topology.route_at(topology.switch_at(nic), packet.to, packet.hash, core.now());
        let packet = self.packets[index];
        let departure = self.nics[nic as usize].enqueue(core.now(), u64::from(packet.wire));
        let at = self.ready(departure, &packet) + topology.propagation(link);
        let now = core.now();
        core.hop(link, departure.last - departure.first, || self.seen(&packet, link, now, departure, at));
        match topology.loses(link, departure) {
            true => self.lose(core, index),
            false => core.schedule(at, Event::AtSwitch { packet: index, by: FROM_NODE }),
        }
        departure
    }

    /// Returns when a packet with this departure can be queued at the next port, without propagation.
    fn ready(&self, departure: Departure, packet: &Packet<SignalOf<K>>) -> Time {
        self.plan.ready(departure, packet.wire, self.hops[packet.port as usize].pace)
    }

    pub(super) fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let packet = &mut self.packets[index];
        let by = packet.port;
        let hop = &mut self.hops[by as usize];
        let ahead = hop.port.backlog(core.now());
        if matches!(packet.body, Body::Data(_)) {
            core.queued(packet.port, ahead);
            // DCTCP §3.1: mark a packet that arrives at a queue longer than K.
            packet.marked |= ahead > hop.threshold;
        }
        let room = match &mut self.occupancy {
            None => self.room,
            Some(occupancy) => occupancy.room(by, core.now()),
        };
        if !room.takes(ahead, packet.wire) {
            return self.lose(core, index);
        }
        let departure = hop.port.enqueue(core.now(), u64::from(packet.wire));
        if let Some(occupancy) = &mut self.occupancy {
            occupancy.queued(by, core.now(), departure.last);
        }
        let (propagation, end, link) = (hop.propagation, hop.end, LinkId::Port(packet.port));
        let (at, event) = match end {
            End::Node(_) => (departure.last + propagation, Event::AtNode(index)),
            End::Switch(switch) => {
                let topology = &self.plan.network.topology;
                packet.port = topology.route_at(switch, packet.to, packet.hash, core.now());
                let at = self.ready(departure, &self.packets[index]) + propagation;
                (at, Event::AtSwitch { packet: index, by: if K::SPLITS { by } else { FROM_NODE } })
            }
        };
        let now = core.now();
        core.hop(link, departure.last - departure.first, || {
            self.seen(&self.packets[index], link, now, departure, at)
        });
        if self.plan.network.topology.loses(link, departure) {
            self.lose(core, index);
        } else if let End::Switch(switch) = end
            && let Some(part) = self.elsewhere(switch)
        {
            self.cross(part, at, by, index);
        } else {
            core.schedule(at, event);
        }
    }

    pub(super) fn lose<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let packet = self.packets[index];
        let id = self.streams[packet.stream].id;
        core.dropped(id, u64::from(packet.payload), || self.looks(&packet));
        self.finish_packet(index);
    }
}
