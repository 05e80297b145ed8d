//! Messages over windowed streams of one subflow (`tcp`, `dctcp`) or several (`mptcp`).
//!
//! Each message is a stream of its own, open when it starts: a flow or write from `src` to `dst`. A read or rmw is a
//! stream of its request and, once that has arrived, a stream of the answer, whose first packet acknowledges the
//! request. A stream is complete when its last byte has arrived. It has a connection of its own, as in the published
//! evaluations, or one that earlier streams between the same ends had, if connections are kept.
//!
//! A packet costs an event at each switch and one at its end. A switch queues by output, drops packets that do not
//! fit in the port's buffer, and marks data that finds more than the threshold ahead of it. Acknowledgements are
//! neither marked (RFC 3168 §6.1.4) nor counted in queue statistics.

mod alarms;
mod alone;
mod inside;
pub(super) mod kind;
mod lone;
mod nic;
mod packet;
mod parts;
mod plan;
pub(super) mod single;
mod turns;
mod way;

use self::kind::{Kind, RestingOf, SignalOf, SubflowsOf};
use self::nic::{Nic, QUANTUM};
use self::packet::{Body, Packet};
pub use self::parts::Parcel;
pub use self::plan::Ethernet;
pub use self::plan::StreamPlan;
use super::buffer::Room;
pub use super::buffer::SwitchBuffer;
use super::lone::Lone;
use super::occupancy::Occupancy;
use super::parts::Part;
use super::pool::Pool;
use super::slab::Slab;
use super::timers::{Alarm, Side, Timers};
use unrack_engine::events::{Core, Observer, Tie, Tied};
use unrack_engine::network::{Pace, Port};
use unrack_engine::topology::End;
use unrack_engine::{HostCounts, Largest, PacketSize};
use unrack_hosts::{self as hosts, Hosts, Reading};
use unrack_protocol::tcp::{Ack, ReceivingEnd, Segment, SendingEnd, StreamSignal, SubflowSet};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Endpoints, MessageId, NodeId};

/// A switch port and the link behind it.
struct Hop {
    port: Port,
    pace: Pace,
    propagation: Time,
    end: End,
    /// Bytes ahead above which data is marked.
    threshold: u64,
}

/// Streams over one kind of connection.
pub(super) struct Streams<K: Kind> {
    pub(super) kind: K,
    pub(super) plan: StreamPlan,
    /// Bytes that a node's sending queue takes before subflows take turns.
    nic_limit: u64,
    /// State of each link by which nodes send.
    nics: Vec<Nic>,
    /// Switch ports.
    hops: Vec<Hop>,
    /// Bytes at switches that share their buffers; `None` if ports have buffers of their own.
    pub(super) occupancy: Option<Box<Occupancy>>,
    /// Buffer of each port, if switches do not share theirs.
    pub(super) room: Room,
    packets: Slab<Packet<SignalOf<K>>>,
    pub(super) streams: Slab<Stream<K>>,
    streams_opened: u32,
    /// Idle connections, if connections are kept.
    pool: Option<Pool<Kept<K>>>,
    /// Retransmission timers of the nodes of each switch ([`Kind::SPLITS`]).
    timers: Vec<Timers>,
    /// State of this part, in a run that is split.
    part: Option<Box<Part<Parcel<SignalOf<K>>>>>,
    /// State of hosts, if packets take time in nodes.
    pub(super) hosts: Option<Box<Hosts>>,
    /// Times of messages that are alone, as far as they were simulated.
    pub(super) lone: Lone,
}

/// Events of streams.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet is ready to be queued at its switch port. It came from port `by` of another switch.
    AtSwitch {
        packet: u32,
        by: u32,
    },
    /// The last bit of a packet has arrived at its node.
    AtNode(u32),
    /// A link by which nodes send has sent all that it was given.
    Refill(u32),
    /// The first timer of the queue of this switch's nodes is due.
    Timers(u32),
    Timer(Alarm),
    /// An event inside a host.
    Host(hosts::Event),
}

/// Value of `by` for packets from a node.
const FROM_NODE: u32 = u32::MAX;

/// Threshold of switches that mark nothing.
pub(super) const NEVER_MARKED: Bytes = Bytes::new(u64::MAX);

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::AtSwitch { by, .. } if by != FROM_NODE => by + 1,
            Event::Timers(_) | Event::Timer(_) => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}

pub(super) struct Stream<K: Kind> {
    pub(super) id: MessageId,
    src: NodeId,
    dst: NodeId,
    role: Role,
    bytes: u64,
    segments: u32,
    /// Name that both ends know the stream by.
    name: u32,
    /// Hash of the first subflow, which selects one of several equal-cost paths; those of the others follow.
    hash: u32,
    /// Number of data packets sent so far, where packets take equal-cost paths in turn.
    sprayed: u32,
    /// Serial number that tells the stream from others with the same index.
    serial: u32,
    /// Number of packets under way, plus the answer to this request.
    references: i32,
    /// Subflows that wait for their turn at the sender's links.
    pub(super) waiting: SubflowsOf<K>,
    /// The sender is done.
    closed: bool,
    /// Earliest timer set, by subflow.
    alarms: K::Alarms,
    /// Request that the sender answers by this stream; it is kept as long as the stream.
    answers: Option<u32>,
    pub(super) sender: K::Sender,
    receiver: K::Receiver,
    reading: Reading,
}

/// Connection that no stream uses.
struct Kept<K: Kind> {
    hash: u32,
    sprayed: u32,
    sender: RestingOf<K>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Role {
    /// Carries the data of a message, which is complete at the end of it.
    Data,
    /// Carries a request, whose end opens the answer.
    Request,
    /// Carries an answer; its first packet to arrive acknowledges the request, the stream of this index.
    Answer(u32),
}

impl<K: Kind> Stream<K> {
    /// Returns the hash that selects one of several equal-cost paths for the next data packet of a subflow.
    fn hash(&self, subflow: u32) -> u32 {
        self.hash_unsprayed(subflow).wrapping_add(self.sprayed)
    }

    /// Returns the hash that selects the path of a subflow whose packets all take the same.
    fn hash_unsprayed(&self, subflow: u32) -> u32 {
        self.hash.wrapping_add(subflow)
    }
}

impl<K: Kind> Streams<K> {
    /// Creates streams. `threshold` gives the bytes that may be ahead of data, at a port of this rate, before it is
    /// marked.
    pub(super) fn new(plan: &StreamPlan, kind: K, threshold: impl Fn(Rate) -> Bytes) -> Self {
        let topology = &plan.network.topology;
        let hop = |port| {
            let (link, end) = (topology.link(port), topology.end(port));
            let (pace, propagation) = (link.pace, link.propagation);
            Hop { port: Port::new(pace), pace, propagation, end, threshold: threshold(pace.rate()).get() }
        };
        let nic = |link| Nic::new(topology.attachment_link(link).pace);
        Streams {
            nic_limit: u64::from(QUANTUM) * plan.full_packet().get(),
            nics: (0..topology.attachments()).map(nic).collect(),
            hops: (0..topology.ports()).map(hop).collect(),
            occupancy: Occupancy::new(plan.buffer, topology).map(Box::new),
            room: Room::Own(plan.buffer.of_port().get()),
            pool: plan.kept.then(Pool::new),
            kind,
            plan: plan.clone(),
            packets: Slab::new(),
            streams: Slab::new(),
            streams_opened: 0,
            timers: (0..topology.switches()).map(|_| Timers::default()).collect(),
            part: None,
            hosts: plan.hosts().map(Box::new),
            lone: Lone::default(),
        }
    }

    /// Returns these streams as they were before the first message, in a network without faults.
    fn afresh(&self) -> Streams<K> {
        let plan = self.plan.without_faults();
        let mut streams = Streams::new(&plan, self.kind.clone(), |_| Bytes::ZERO);
        for (hop, ours) in streams.hops.iter_mut().zip(&self.hops) {
            hop.threshold = ours.threshold;
        }
        streams
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

    /// Sets the seed of the draws of repeated timeouts.
    pub(super) fn seeded(mut self, seed: u64) -> Streams<K> {
        self.plan.seed = seed;
        self
    }

    /// Returns whether nothing is under way, in hosts either.
    #[cfg(test)]
    fn is_at_rest(&self) -> bool {
        self.packets.used() == 0
            && self.streams.used() == 0
            && self.hosts.as_ref().is_none_or(|hosts| hosts.is_at_rest())
    }

    pub(super) fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), Role::Request),
            false => (message.bytes, Role::Data),
        };
        self.open(core, id, message.endpoints(), bytes, role);
        self.settle_hosts(core);
    }

    pub(super) fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::AtSwitch { packet, .. } => self.forward(core, packet),
            Event::AtNode(packet) => self.arrive(core, packet),
            Event::Refill(nic) => self.refill(core, nic),
            Event::Timers(switch) => self.expire_due(core, switch),
            Event::Timer(alarm) => self.expire(core, alarm),
            Event::Host(event) => self.handle_host(core.now(), event),
        }
        self.settle_hosts(core);
    }

    fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        id: MessageId,
        ends: Endpoints,
        bytes: u64,
        role: Role,
    ) {
        let stream = self.create(id, ends, bytes, role);
        if let Some(kept) = self.pool.as_mut().and_then(|pool| pool.take(ends)) {
            let place = &mut self.streams[stream];
            (place.hash, place.sprayed) = (kept.hash, kept.sprayed);
            place.sender = self.kind.resume(kept.sender, core.now(), place.segments);
        }
        if let Role::Answer(request) = role {
            self.streams[stream].answers = Some(request);
            self.streams[request].references += 1;
        }
        let all = self.streams[stream].sender.subflows();
        K::send(self, core, stream, all);
    }

    fn create(&mut self, id: MessageId, ends: Endpoints, bytes: u64, role: Role) -> u32 {
        let Endpoints { src, dst } = ends;
        let segments = self.plan.framing.segments(bytes);
        let subflows = self.kind.subflows(&self.plan.network, ends);
        self.streams_opened = self.streams_opened.wrapping_add(1).max(1);
        let name = transfer_name(id, matches!(role, Role::Answer(_)));
        let stream = self.streams.insert(Stream {
            id,
            src,
            dst,
            role,
            bytes,
            segments,
            name,
            hash: K::hash(name),
            sprayed: 0,
            serial: self.streams_opened,
            references: 0,
            waiting: SubflowsOf::<K>::default(),
            closed: false,
            alarms: K::alarms(subflows),
            answers: None,
            sender: self.kind.sender(subflows, segments, self.plan.salt(name, Side::Sender)),
            receiver: K::receiver(subflows),
            reading: Reading::default(),
        });
        if let Some(part) = &mut self.part {
            part.keep(name, stream);
        }
        stream
    }
}

/// Returns the name that both ends of a transfer know it by: twice the number of its message, plus one for an answer.
pub(super) fn transfer_name(message: MessageId, is_answer: bool) -> u32 {
    message.0.wrapping_mul(2) | u32::from(is_answer)
}

/// Returns the hash that selects one of several equal-cost paths for a transfer. Finalizer of MurmurHash3: neighbours
/// in number take separate paths.
pub(super) fn flow_hash(name: u32) -> u32 {
    let mut hash = name;
    hash = (hash ^ (hash >> 16)).wrapping_mul(0x85eb_ca6b);
    hash = (hash ^ (hash >> 13)).wrapping_mul(0xc2b2_ae35);
    hash ^ (hash >> 16)
}

/// Packets on their way.
impl<K: Kind> Streams<K> {
    fn send_data<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        stream: u32,
        segment: Segment,
        signal: SignalOf<K>,
    ) {
        let Stream { src, dst, bytes, .. } = self.streams[stream];
        let payload = self.plan.framing.payload(bytes, signal.in_stream(segment.number));
        let wire = self.plan.framing.wire(payload).get() as u32;
        core.sent(payload);
        let size = PacketSize { wire, payload: payload as u32 };
        self.put(core, Endpoints { src, dst }, (stream, signal), size, Body::Data(segment));
    }

    fn send_acks<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32, subflow: u32) {
        let Stream { src, dst, .. } = self.streams[stream];
        while let Some((ack, signal)) = self.streams[stream].receiver.poll_ack(subflow) {
            let wire = self.plan.framing.ack_wire(ack.sack.len()).get() as u32;
            let size = PacketSize { wire, payload: 0 };
            self.put(core, Endpoints { src: dst, dst: src }, (stream, signal), size, Body::Ack(ack));
        }
    }

    fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        if self.hosts.is_some() {
            return self.reach_host(core.now(), index);
        }
        let packet = self.packets[index];
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
        let stream = &mut self.streams[packet.stream];
        let handed_on = stream.receiver.handle_segment(core.now(), segment, packet.signal, packet.marked);
        let complete = handed_on > 0 && stream.receiver.next() == stream.segments;
        let (id, role) = (stream.id, stream.role);
        if let Role::Answer(request) = role {
            self.streams[packet.stream].role = Role::Data;
            // The first packet of the answer acknowledges the request.
            self.streams[request].sender.handle_answer(core.now());
            self.free_if_over(request);
        }
        match (complete, role) {
            // The answer acknowledges the request.
            (true, Role::Request) if self.hosts.is_none() => return self.answer(core, packet.stream),
            (true, Role::Request) => return,
            (true, _) if self.hosts.is_none() => core.complete(id),
            // With hosts, a message is complete, or answered, when the program has read it.
            _ => {}
        }
        self.send_acks(core, packet.stream, packet.signal.subflow());
    }

    fn answer<O: Observer>(&mut self, core: &mut Core<Event, O>, request: u32) {
        let stream = &self.streams[request];
        let (id, back) = (stream.id, Endpoints { src: stream.dst, dst: stream.src });
        let bytes = core.message(id).bytes;
        self.open(core, id, back, bytes, Role::Answer(request));
    }

    fn take_ack<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: &Packet<SignalOf<K>>, ack: &Ack) {
        let which = self.streams[packet.stream].sender.handle_ack(core.now(), ack, packet.signal);
        K::send(self, core, packet.stream, which);
        // An acknowledgement may bring a deadline forward that had been backed off, also while nothing can be sent.
        self.set_timers(core, packet.stream, which);
    }

    fn finish_packet(&mut self, index: u32) {
        self.drop_reference(self.packets[index].stream);
        self.packets.release(index);
    }

    fn drop_reference(&mut self, stream: u32) {
        self.streams[stream].references -= 1;
        self.free_if_over(stream);
    }

    /// Closes a stream whose sender is done, and frees its place when nothing refers to it.
    pub(super) fn free_if_over(&mut self, stream: u32) {
        let place = &mut self.streams[stream];
        let waits = !place.waiting.is_empty();
        // Of several subflows, some may wait for their links long after others have sent the rest.
        if !place.sender.is_done() || waits && SubflowsOf::<K>::MOST == 1 {
            return;
        }
        let closes = !std::mem::replace(&mut place.closed, true);
        if closes
            && let Some(pool) = &mut self.pool
            && let Some(sender) = place.sender.rest()
        {
            pool.put(
                Endpoints { src: place.src, dst: place.dst },
                Kept { hash: place.hash, sprayed: place.sprayed, sender },
            );
        }
        if let Some(part) = &mut self.part {
            if closes {
                part.closed.push(place.name);
            }
        } else if place.references == 0 && !waits {
            self.release(stream);
        }
    }

    /// Frees the place of a stream for another.
    fn release(&mut self, stream: u32) {
        let place = &mut self.streams[stream];
        place.serial = 0;
        let answers = place.answers.take();
        self.streams.release(stream);
        if let Some(request) = answers {
            self.drop_reference(request);
        }
    }
}

/// Implements `Fabric` and `Split` for a struct whose field `streams` has streams of one subflow.
macro_rules! fabric_of_streams {
    ($fabric:ident) => {
        impl $crate::Fabric for $fabric {
            type Event = $crate::fabric::stream::Event;

            fn submit<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                id: unrack_workload::MessageId,
            ) {
                self.streams.submit(core, id);
            }
            fn handle<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                event: Self::Event,
            ) {
                self.streams.handle(core, event);
            }
            fn compute<O: $crate::Observer>(
                &mut self,
                core: &mut $crate::Core<Self::Event, O>,
                computing: unrack_workload::Computing,
            ) {
                self.streams.compute(core, computing);
            }
            fn unloaded(&self, message: &unrack_workload::Message) -> unrack_units::Time {
                self.streams.unloaded(message)
            }
            fn draws_routes(&self) -> bool {
                self.streams.plan.network.topology.is_uneven()
            }
            fn largest(&self) -> Option<unrack_engine::Largest> {
                Some(self.streams.largest())
            }
            fn hosts(&self) -> Option<unrack_engine::HostCounts> {
                self.streams.host_counts()
            }
            fn lookahead(&self) -> unrack_units::Time {
                self.streams.lookahead()
            }
        }

        $crate::fabric::split_by_switch!(
            $fabric,
            streams,
            $crate::fabric::stream::Event,
            $crate::fabric::stream::Parcel
        );
    };
}
pub(super) use fabric_of_streams;
