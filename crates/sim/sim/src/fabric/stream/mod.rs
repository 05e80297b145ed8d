//! Messages over windowed streams of one subflow (`tcp`, `dctcp`) or several (`mptcp`).
//!
//! Each message has a separate stream, which is open when the message starts. A flow or write is a stream from `src` to `dst`. A read or
//! read-modify-write is a stream for its request and, after the request has arrived, a stream for the answer, whose first packet
//! acknowledges the request. A stream is complete when its last byte has arrived. It has a separate connection, as in the published
//! evaluations. However, if connections are kept, it may reuse the connection of an earlier stream between the same ends.
//!
//! A packet costs one event at each switch and one at its end. A switch queues packets by output, drops packets that do not fit in the
//! port's buffer, and marks a data packet that finds more bytes before it than the threshold. Acknowledgements are neither marked (RFC 3168
//! §6.1.4) nor counted in queue statistics.

mod alarms;
pub(super) mod drive;
mod event;
mod inside;
pub(super) mod kind;
mod names;
mod nic;
mod open;
mod packet;
mod parts;
mod plan;
mod seen;
pub(super) mod single;
mod single_message;
mod turns;
mod unloaded;
mod wires;

use self::alarms::Alarms;
use self::drive::Drive;
pub use self::event::Event;
use self::kind::{Kind, SignalOf, SubflowsOf};
pub(super) use self::names::{flow_hash, transfer_name};
use self::open::{OpenStreams, Stream, StreamRole};
pub use self::packet::Parcel;
use self::packet::{Body, Packet};
pub use self::plan::StreamPlan;
use self::seen::looks;
use self::single_message::LoneStreams;
use self::wires::{SwitchFate, Wires};
use super::parts::NetworkPart;
use super::single_message::{Lone, simulated};
use super::timers::Alarm;
use std::collections::BTreeSet;
use std::sync::Arc;
use unrack_engine::events::{Core, Mechanism, Observer, Unobserved};
use unrack_engine::network::Departure;
use unrack_engine::{HostCounts, Largest, PacketSize};
use unrack_hosts::Hosts;
use unrack_protocol::tcp::{Ack, ReceivingEnd, Segment, SendingEnd, StreamSignal, SubflowSet};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Endpoints, Message, MessageId, NodeId};

/// Streams over one kind of connection.
///
/// Four parts have state: the open streams, the wires with the packets on them, the timers, and the insides of hosts. Each part sees the
/// state of another part only as arguments of its methods. `Streams` decides which effects one part has on another.
pub(super) struct Streams<K: Kind> {
    pub(super) plan: StreamPlan,
    pub(super) open: OpenStreams<K>,
    pub(super) wires: Wires<K>,
    alarms: Alarms,
    /// State of hosts, if packets take time inside them.
    pub(super) hosts: Option<Box<Hosts>>,
    /// Completion times of messages that are alone, as far as they were simulated.
    pub(super) lone: Lone,
    /// Nodes that send no data at present.
    paused: BTreeSet<NodeId>,
}

/// Threshold of switches that never mark packets.
pub(super) const NEVER_MARKED: Bytes = Bytes::new(u64::MAX);

impl<K: Drive> Streams<K> {
    /// Creates streams. `threshold` returns the number of waiting bytes above which a port of this rate marks data packets.
    pub(super) fn new(plan: &StreamPlan, kind: K, threshold: impl Fn(Rate) -> Bytes) -> Self {
        Streams {
            plan: plan.clone(),
            open: OpenStreams::new(kind, plan.kept),
            wires: Wires::new(plan, threshold),
            alarms: Alarms::new(plan.network.topology.switches()),
            hosts: plan.hosts().map(Box::new),
            lone: Lone::default(),
            paused: BTreeSet::new(),
        }
    }

    /// Returns these streams in their state before the first message, in a network without faults.
    fn afresh(&self) -> Streams<K> {
        let streams = Streams::new(&self.plan.without_faults(), self.open.kind.clone(), |_| Bytes::ZERO);
        Streams { wires: streams.wires.with_thresholds_of(&self.wires), ..streams }
    }

    /// Returns the completion time of a message that is alone. The message is simulated, unless a similar one has been simulated before.
    pub(super) fn carried_alone(&self, message: &Message) -> Time {
        self.lone.completion(&self.plan.network, message, || LoneStreams(self.afresh()))
    }

    /// Simulates a message alone, without faults, and returns its completion time and the observer.
    pub(super) fn carry_alone<O: Observer>(&self, message: &Message, observer: O) -> (Time, O) {
        simulated(LoneStreams(self.afresh()), &self.plan.network, message, observer)
    }

    pub(super) fn host_counts(&self) -> Option<HostCounts> {
        self.hosts.as_ref().map(|hosts| hosts.counts())
    }

    pub(super) fn largest(&self) -> Largest {
        self.plan.largest()
    }

    pub(super) fn lookahead(&self) -> Time {
        self.plan.lookahead()
    }

    /// Sets the seed for the random draws of repeated timeouts.
    pub(super) fn seeded(mut self, seed: u64) -> Streams<K> {
        self.plan.seed = seed;
        self
    }

    /// Returns whether no packet or stream is left, neither in the network nor in hosts.
    #[cfg(test)]
    fn is_at_rest(&self) -> bool {
        self.wires.is_empty()
            && self.open.is_empty()
            && self.hosts.as_ref().is_none_or(|hosts| hosts.is_at_rest())
    }

    pub(super) fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), StreamRole::Request),
            false => (message.bytes, StreamRole::Data),
        };
        self.open(core, id, message.endpoints(), bytes, role);
        self.settle_hosts(core);
    }

    pub(super) fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::AtSwitch { packet, .. } => self.forward(core, packet),
            Event::AtNode(packet) => self.arrive(core, packet),
            Event::Refill(nic) => self.refill(core, nic),
            Event::Timers(switch) => {
                while let Some(alarm) = self.alarms.pop_due(switch, core.now()) {
                    self.expire(core, alarm);
                }
                self.alarms.schedule_next(core, &self.open, switch);
            }
            Event::Timer(alarm) => self.expire(core, alarm),
            Event::Host(event) => self.handle_host(core.now(), event),
        }
        self.settle_hosts(core);
    }

    /// Pauses a node, which then sends acknowledgements only, or lets it send again. Packets that its host or its links have
    /// queued still leave.
    pub(super) fn pause<O: Observer>(&mut self, core: &mut Core<Event, O>, node: NodeId, is_paused: bool) {
        if is_paused {
            self.paused.insert(node);
        } else if self.paused.remove(&node) {
            for stream in self.open.of_sender(node) {
                let all = self.open[stream].sender.subflows();
                K::send(self, core, stream, all);
            }
            self.settle_hosts(core);
        }
    }

    /// Returns whether the sender of a stream is paused.
    pub(super) fn is_paused(&self, stream: u32) -> bool {
        !self.paused.is_empty() && self.paused.contains(&self.open[stream].src)
    }

    fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        id: MessageId,
        ends: Endpoints,
        bytes: u64,
        role: StreamRole,
    ) {
        let stream = self.open.create(&self.plan, id, ends, bytes, role);
        self.open.resume(stream, core.now());
        if let StreamRole::Answer(request) = role {
            self.open.answers(stream, request);
        }
        let all = self.open[stream].sender.subflows();
        K::send(self, core, stream, all);
    }

    /// Sets the timers of these subflows.
    pub(super) fn set_timers<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        which: SubflowsOf<K>,
    ) {
        self.alarms.set(core, &self.plan.network.topology, &mut self.open, stream, which);
    }

    fn expire<O: Observer>(&mut self, core: &mut Core<Event, O>, alarm: Alarm) {
        let Some((stream, subflow)) = alarms::expire(&mut self.open, alarm, core.now()) else { return };
        core.acted(Mechanism::Timeout);
        if self.open[stream].sender.has_given_up() {
            return self.give_up(core, stream);
        }
        let all = self.open[stream].sender.subflows();
        K::send(self, core, stream, all);
        self.set_timers(core, stream, SubflowsOf::<K>::only(subflow));
    }

    /// Queues a packet in the sending host or, if hosts take no time, at one of the node's links.
    fn put<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        ends: Endpoints,
        (stream, signal): (u32, SignalOf<K>),
        size: PacketSize,
        body: Body,
    ) {
        let Endpoints { src: from, dst: to } = ends;
        let PacketSize { wire, payload } = size;
        let place = &mut self.open[stream];
        place.references += 1;
        let hash = match body {
            Body::Data(_) => place.hash(signal.subflow()),
            Body::Ack(_) => place.hash_unsprayed(signal.subflow()),
        };
        place.sprayed += u32::from(self.plan.spraying && matches!(body, Body::Data(_)));
        let nic = self.plan.network.topology.attachment_at(from, to, hash, core.now());
        // The field `port` is set when the packet is launched.
        let packet = Packet { stream, signal, to, port: 0, hash, wire, payload, marked: false, body };
        let index = self.wires.insert(packet);
        match &mut self.hosts {
            Some(_) => self.enter_host(core.now(), ends, nic, index),
            None => {
                self.launch(core, nic, index);
            }
        }
    }

    /// Queues a packet at a link by which nodes send. Returns the departure of the packet.
    fn launch<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32, index: u32) -> Departure {
        let (departure, is_lost) = self.wires.launch(core, &self.plan, &self.open, nic, index);
        if is_lost {
            self.lose(core, index);
        }
        departure
    }

    fn forward<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        match self.wires.forward(core, &self.plan, &self.open, index) {
            SwitchFate::On => {}
            SwitchFate::Lost => self.lose(core, index),
            SwitchFate::Elsewhere { part, at, by } => {
                self.open.cross(part, at, by, *self.wires.packet(index));
                self.finish_packet(index);
            }
        }
    }

    fn lose<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        let packet = *self.wires.packet(index);
        let (id, mss) = (self.open[packet.stream].id, self.plan.framing.mss().get());
        core.dropped(id, u64::from(packet.payload), || looks(&packet, &self.open, mss));
        self.finish_packet(index);
    }

    fn send_data<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        segment: Segment,
        signal: SignalOf<K>,
    ) {
        let Stream { src, dst, bytes, .. } = self.open[stream];
        let payload = self.plan.framing.payload(bytes, signal.in_stream(segment.number));
        let wire = self.plan.framing.wire(payload).get() as u32;
        core.sent(payload);
        let size = PacketSize { wire, payload: payload as u32 };
        self.put(core, Endpoints { src, dst }, (stream, signal), size, Body::Data(segment));
    }

    fn send_acks<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32, subflow: u32) {
        let Stream { src, dst, .. } = self.open[stream];
        while let Some((ack, signal)) = self.open[stream].receiver.poll_ack(subflow) {
            let wire = self.plan.framing.ack_wire(ack.sack.len()).get() as u32;
            let size = PacketSize { wire, payload: 0 };
            self.put(core, Endpoints { src: dst, dst: src }, (stream, signal), size, Body::Ack(ack));
        }
    }

    fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        if self.hosts.is_some() {
            return self.reach_host(core.now(), index);
        }
        let packet = *self.wires.packet(index);
        match packet.body {
            Body::Data(segment) => self.take_data(core, packet, segment),
            Body::Ack(ack) => self.take_ack(core, &packet, &ack),
        }
        self.finish_packet(index);
    }

    fn take_data<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        packet: Packet<SignalOf<K>>,
        segment: Segment,
    ) {
        core.arrived(u64::from(packet.payload));
        let stream = &mut self.open[packet.stream];
        let handed_on = stream.receiver.handle_segment(core.now(), segment, packet.signal, packet.marked);
        let complete = handed_on > 0 && stream.receiver.next() == stream.segments;
        let (id, role) = (stream.id, stream.role);
        if let StreamRole::Answer(request) = role {
            self.open[packet.stream].role = StreamRole::Data;
            // The first packet of the answer acknowledges the request.
            self.open[request].sender.handle_answer(core.now());
            self.open.free_if_over(request);
        }
        match (complete, role) {
            // The request gets no acknowledgement, because its answer acknowledges it.
            (true, StreamRole::Request) if self.hosts.is_none() => return self.answer(core, packet.stream),
            (true, StreamRole::Request) => return,
            (true, _) if self.hosts.is_none() => core.complete(id),
            // With hosts, a message is complete, or a request is answered, when the program has read it.
            _ => {}
        }
        self.send_acks(core, packet.stream, packet.signal.subflow());
    }

    fn answer<O: Observer>(&mut self, core: &mut Core<Event, O>, request: u32) {
        let stream = &self.open[request];
        let (id, back) = (stream.id, Endpoints { src: stream.dst, dst: stream.src });
        let bytes = core.message(id).bytes;
        self.open(core, id, back, bytes, StreamRole::Answer(request));
    }

    fn take_ack<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: &Packet<SignalOf<K>>, ack: &Ack) {
        let which = self.open[packet.stream].sender.handle_ack(core.now(), ack, packet.signal);
        K::send(self, core, packet.stream, which);
        // An acknowledgement may shorten a deadline that had been backed off, even if the stream cannot send now.
        self.set_timers(core, packet.stream, which);
    }

    fn finish_packet(&mut self, index: u32) {
        self.open.drop_reference(self.wires.packet(index).stream);
        self.wires.release(index);
    }

    pub(super) fn become_part(&mut self, me: u32, part_of: Arc<[u32]>) {
        self.open.part = Some(Box::new(NetworkPart::new(me, part_of)));
    }

    pub(super) fn part(&mut self) -> &mut NetworkPart<Parcel<SignalOf<K>>> {
        self.open.part()
    }

    /// Takes a packet from another part.
    pub(super) fn take(&mut self, core: &mut Core<Event, Unobserved>, parcel: Parcel<SignalOf<K>>) {
        let Parcel { at, by, name, hash, packet } = parcel;
        let stream = self.open.place_of(core, &self.plan, name, hash);
        self.open[stream].references += 1;
        let packet = self.wires.insert(Packet { stream, ..packet });
        core.schedule(at, Event::AtSwitch { packet, by });
    }

    pub(super) fn under_way(&self, name: u32) -> i32 {
        self.open.under_way(name)
    }

    pub(super) fn forget(&mut self, name: u32) {
        self.open.forget(name);
    }
}
