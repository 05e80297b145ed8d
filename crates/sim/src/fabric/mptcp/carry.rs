//! Packets of subflows on their way through the network.

use super::{Connection, Event, Mptcp, Role};
use crate::engine::{self, Core, Hop, LinkId, Observer, PacketKind};
use crate::network::Departure;
use crate::topology::End;
use unrack_protocol::mptcp::Mapped;
use unrack_protocol::tcp::{Ack, Segment};
use unrack_units::Time;
use unrack_workload::NodeId;

#[derive(Debug, Clone, Copy)]
pub(super) struct Packet {
    pub connection: u32,
    subflow: u32,
    pub to: NodeId,
    /// Switch port that the packet is on its way to, or in.
    pub port: u32,
    pub hash: u32,
    wire: u32,
    pub payload: u32,
    pub body: Body,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Body {
    /// A segment, and the number of the data in it.
    Data(Segment, u32),
    /// An acknowledgement, and the data ACK.
    Ack(Ack, u32),
}

impl Mptcp {
    pub(super) fn send_data<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        connection: u32,
        mapped: Mapped,
    ) {
        let Connection { src, dst, bytes, .. } = self.connections[connection];
        let Mapped { subflow, segment, data } = mapped;
        let payload = self.plan.framing.payload(bytes, data);
        let wire = self.plan.framing.wire(payload).get() as u32;
        core.sent(payload);
        let body = Body::Data(segment, data);
        self.put(core, (src, dst), (connection, subflow), (wire, payload as u32), body);
    }

    fn send_acks<O: Observer>(&mut self, core: &mut Core<Event, O>, connection: u32, subflow: u32) {
        let Connection { src, dst, .. } = self.connections[connection];
        while let Some(ack) = self.connections[connection].receiver.poll_ack(subflow) {
            let wire = self.plan.framing.ack_wire(ack.sack.len()).get() as u32;
            let body = Body::Ack(ack, self.connections[connection].receiver.next());
            self.put(core, (dst, src), (connection, subflow), (wire, 0), body);
        }
    }

    /// Queues a packet at a link, or in the host where that takes time.
    fn put<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        (from, to): (NodeId, NodeId),
        (connection, subflow): (u32, u32),
        (wire, payload): (u32, u32),
        body: Body,
    ) {
        let place = &mut self.connections[connection];
        place.references += 1;
        let hash = place.hash + subflow;
        let topology = &self.plan.network.topology;
        let nic = topology.attachment_at(from, to, hash, core.now());
        // `port` is set when the packet is launched.
        let packet = Packet { connection, subflow, to, port: 0, hash, wire, payload, body };
        let index = self.packets.insert(packet);
        match &mut self.hosts {
            Some(_) => self.enter_host(core.now(), from, nic, index),
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
        let packet = &mut self.packets[index];
        packet.port = topology.route_at(topology.switch_at(nic), packet.to, packet.hash, core.now());
        let packet = self.packets[index];
        let link = LinkId::Host(nic);
        let departure = self.nics[nic as usize].enqueue(core.now(), u64::from(packet.wire));
        let next = self.hops[packet.port as usize].pace;
        let at = self.plan.ready(departure, packet.wire, next) + topology.propagation(link);
        let now = core.now();
        core.hop(link, departure.last - departure.first, || self.seen(&packet, link, now, departure, at));
        match topology.loses(link, departure) {
            true => self.lose(core, index),
            false => core.schedule(at, Event::AtSwitch(index)),
        }
        departure
    }

    pub(super) fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let mut packet = self.packets[index];
        let hop = &mut self.hops[packet.port as usize];
        let ahead = hop.port.backlog(core.now());
        if matches!(packet.body, Body::Data(..)) {
            core.queued(packet.port, ahead);
        }
        let room = match &mut self.occupancy {
            None => self.room,
            Some(occupancy) => occupancy.room(packet.port, core.now()),
        };
        if !room.takes(ahead, packet.wire) {
            return self.lose(core, index);
        }
        let departure = hop.port.enqueue(core.now(), u64::from(packet.wire));
        if let Some(occupancy) = &mut self.occupancy {
            occupancy.queued(packet.port, core.now(), departure.last);
        }
        let (propagation, end, link) = (hop.propagation, hop.end, LinkId::Port(packet.port));
        let topology = &self.plan.network.topology;
        let (at, event) = match end {
            End::Node(_) => (departure.last + propagation, Event::AtNode(index)),
            End::Switch(switch) => {
                packet.port = topology.route_at(switch, packet.to, packet.hash, core.now());
                let next = self.hops[packet.port as usize].pace;
                (self.plan.ready(departure, packet.wire, next) + propagation, Event::AtSwitch(index))
            }
        };
        self.packets[index] = packet;
        let now = core.now();
        core.hop(link, departure.last - departure.first, || self.seen(&packet, link, now, departure, at));
        match self.plan.network.topology.loses(link, departure) {
            true => self.lose(core, index),
            false => core.schedule(at, event),
        }
    }

    pub(super) fn lose<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let packet = self.packets[index];
        let id = self.connections[packet.connection].id;
        core.dropped(id, u64::from(packet.payload), || self.looks(&packet));
        self.finish_packet(index);
    }

    pub(super) fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        if self.hosts.is_some() {
            return self.reach_host(core.now(), index);
        }
        let packet = self.packets[index];
        match packet.body {
            Body::Data(segment, data) => self.take_data(core, packet, segment, data),
            Body::Ack(..) => self.take_ack(core, &packet),
        }
        self.finish_packet(index);
    }

    pub(super) fn take_ack<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: &Packet) {
        let Body::Ack(ack, data_next) = packet.body else { return };
        let sender = &mut self.connections[packet.connection].sender;
        let which = sender.handle_ack(core.now(), packet.subflow, &ack, data_next);
        self.send(core, packet.connection, which);
    }

    pub(super) fn take_data<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        packet: Packet,
        segment: Segment,
        data: u32,
    ) {
        core.arrived(u64::from(packet.payload));
        let place = &mut self.connections[packet.connection];
        let handed_on = place.receiver.handle_segment(core.now(), packet.subflow, segment, data, false);
        let complete = handed_on > 0 && place.receiver.next() == place.segments;
        let (id, role) = (place.id, place.role);
        if let Role::Answer(request) = role {
            place.role = Role::Data;
            self.connections[request].sender.handle_answer(core.now());
            self.drop_reference(request);
        }
        match (complete, role) {
            (true, Role::Request) if self.hosts.is_none() => return self.answer(core, packet.connection),
            (true, Role::Request) => return,
            (true, _) if self.hosts.is_none() => core.complete(id),
            // With hosts, a message is complete, or answered, when the program has read it.
            _ => {}
        }
        self.send_acks(core, packet.connection, packet.subflow);
    }

    pub(super) fn answer<O: Observer>(&mut self, core: &mut Core<Event, O>, request: u32) {
        let place = &mut self.connections[request];
        place.references += 1;
        let (id, ends) = (place.id, (place.dst, place.src));
        let bytes = core.message(id).bytes;
        self.open(core, id, ends, bytes, Role::Answer(request));
    }

    pub(super) fn finish_packet(&mut self, index: u32) {
        let connection = self.packets[index].connection;
        self.packets.release(index);
        self.drop_reference(connection);
    }

    pub(super) fn drop_reference(&mut self, connection: u32) {
        self.connections[connection].references -= 1;
        self.free_if_over(connection);
    }

    /// Describes a packet over a link, by when it joined the queue, leaves, and can go on.
    fn seen(
        &self,
        packet: &Packet,
        link: LinkId,
        ready: Time,
        Departure { first, last }: Departure,
        onward: Time,
    ) -> Hop {
        let network = &self.plan.network;
        let propagation = network.topology.propagation(link);
        let to_switch = match link {
            LinkId::Host(_) => true,
            LinkId::Port(port) => matches!(self.hops[port as usize].end, End::Switch(_)),
        };
        let device = if to_switch { network.switch_latency } else { Time::ZERO };
        Hop {
            link,
            message: Some(self.connections[packet.connection].id),
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
    fn looks(&self, packet: &Packet) -> engine::Packet {
        let place = &self.connections[packet.connection];
        let mss = self.plan.framing.mss().get();
        let bytes = |segment: u32| (u64::from(segment) * mss).min(place.bytes);
        let from = if packet.to == place.dst { place.src } else { place.dst };
        match packet.body {
            Body::Data(segment, data) => {
                let kind = if place.role == Role::Request { PacketKind::Request } else { PacketKind::Data };
                let (offset, sent) = (Some(bytes(data)), Some(segment.sent));
                engine::Packet { offset, sent, ..engine::Packet::new(kind, from, packet.to) }
            }
            Body::Ack(ack, data_next) => {
                let plain = engine::Packet::new(PacketKind::Ack, from, packet.to);
                engine::Packet { offset: Some(bytes(data_next)), sent: Some(ack.echo), ..plain }
            }
        }
    }
}
