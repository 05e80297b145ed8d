//! Messages over windowed streams, shared by `dctcp` and its relatives.
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
pub(super) mod lone;
pub(super) mod nic;
mod packet;
mod parts;
mod plan;
mod way;

use self::lone::Lone;
use self::nic::{Nic, QUANTUM};
use self::packet::{Body, Packet};
pub use self::parts::Parcel;
pub use self::plan::Ethernet;
pub use self::plan::Plan;
pub use super::buffer::Buffer;
use super::buffer::Room;
use super::occupancy::Occupancy;
use super::parts::Part;
use super::pool::Pool;
use super::slab::Slab;
use super::timers::{Alarm, Timers};
use crate::engine::{Core, Observer, Tie, Tied, Wait};
use crate::host::{self, Counts, Hosts, Reading};
use crate::network::{Network, Pace, Port};
use crate::topology::End;
use unrack_protocol::tcp::{Ack, Control, Receiver, Resting, Segment, Sender, Timeouts};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Message, MessageId, NodeId};

/// A switch port and the link behind it.
struct Hop {
    port: Port,
    pace: Pace,
    propagation: Time,
    end: End,
    /// Bytes ahead above which data is marked.
    threshold: u64,
}

/// Streams under one congestion control.
pub(super) struct Streams<C> {
    plan: Plan,
    /// Initial congestion control of a new stream.
    fresh: C,
    timeouts: Timeouts,
    /// Bytes that a node's sending queue takes before streams take turns.
    nic_limit: u64,
    /// State of each link by which nodes send.
    nics: Vec<Nic>,
    /// Switch ports.
    hops: Vec<Hop>,
    /// Bytes at switches that share their buffers; `None` if ports have buffers of their own.
    occupancy: Option<Box<Occupancy>>,
    /// Buffer of each port, if switches do not share theirs.
    room: Room,
    packets: Slab<Packet>,
    streams: Slab<Stream<C>>,
    streams_opened: u32,
    /// Idle connections, if connections are kept.
    pool: Option<Pool<Kept<C>>>,
    /// Retransmission timers of the nodes of each switch.
    timers: Vec<Timers>,
    /// State of this part, in a run that is split.
    part: Option<Box<Part<Parcel>>>,
    /// State of hosts, if packets take time in nodes.
    hosts: Option<Box<Hosts>>,
    lone: Lone,
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
    Host(host::Event),
}

/// Value of `by` for packets from a node.
const FROM_NODE: u32 = u32::MAX;

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::AtSwitch { by, .. } if by != FROM_NODE => by + 1,
            Event::Timers(_) | Event::Timer(_) => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}

struct Stream<C> {
    id: MessageId,
    src: NodeId,
    dst: NodeId,
    role: Role,
    bytes: u64,
    segments: u32,
    /// Name that both ends know the stream by.
    name: u32,
    /// Hash of the connection, which selects one of several equal-cost paths.
    hash: u32,
    /// Number of data packets sent so far, where packets take equal-cost paths in turn.
    sprayed: u32,
    /// Serial number that tells the stream from others with the same index.
    serial: u32,
    /// Number of packets under way, plus the answer to this request.
    references: i32,
    /// The stream waits for its turn at the sender's link.
    waits: bool,
    /// The sender is done.
    closed: bool,
    /// Earliest timer set.
    alarm: Time,
    /// Request that the sender answers by this stream; it is kept as long as the stream.
    answers: Option<u32>,
    sender: Sender<C>,
    receiver: Receiver,
    reading: Reading,
}

/// Connection that no stream uses.
struct Kept<C> {
    hash: u32,
    sprayed: u32,
    sender: Resting<C>,
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

impl<C> Stream<C> {
    /// Returns the hash that selects one of several equal-cost paths for the next data packet.
    fn hash(&self) -> u32 {
        self.hash.wrapping_add(self.sprayed)
    }
}

impl<C: Control + Clone> Streams<C> {
    /// Creates streams. `threshold` gives the bytes that may be ahead of data, at a port of this rate, before it is
    /// marked.
    pub(super) fn new(plan: &Plan, fresh: C, timeouts: Timeouts, threshold: impl Fn(Rate) -> Bytes) -> Self {
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
            plan: plan.clone(),
            fresh,
            timeouts,
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
    fn afresh(&self) -> Streams<C> {
        let network = &self.plan.network;
        let topology = network.topology.clone().without_faults();
        let plan = Plan { network: Network { topology, ..network.clone() }, ..self.plan.clone() };
        let mut streams = Streams::new(&plan, self.fresh.clone(), self.timeouts, |_| Bytes::ZERO);
        for (hop, ours) in streams.hops.iter_mut().zip(&self.hops) {
            hop.threshold = ours.threshold;
        }
        streams
    }

    pub(super) fn unloaded(&self, message: &Message) -> Time {
        // The time depends on earlier messages, so this is a bound for all of them.
        if self.plan.kept {
            return self.plan.network.ideal(message);
        }
        if self.plan.spraying || self.hosts.is_some() {
            return self.carried_alone(message);
        }
        let alone = self.plan.alone(message.src, message.dst);
        let request =
            if message.kind.is_answered() { alone.stream(u64::from(message.request)) } else { Time::ZERO };
        // A bound, where nodes forward for each other by links that differ.
        (request + alone.stream(message.bytes)).max(self.plan.network.ideal(message))
    }

    pub(super) fn host_counts(&self) -> Option<Counts> {
        self.hosts.as_ref().map(|hosts| hosts.counts())
    }

    pub(super) fn lookahead(&self) -> Time {
        self.plan.lookahead()
    }

    pub(super) fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), Role::Request),
            false => (message.bytes, Role::Data),
        };
        self.open(core, id, (message.src, message.dst), bytes, role);
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
        ends: (NodeId, NodeId),
        bytes: u64,
        role: Role,
    ) {
        let stream = self.create(id, ends, bytes, role);
        if let Some(kept) = self.pool.as_mut().and_then(|pool| pool.take(ends)) {
            let place = &mut self.streams[stream];
            (place.hash, place.sprayed) = (kept.hash, kept.sprayed);
            place.sender = kept.sender.resume(core.now(), place.segments);
        }
        if let Role::Answer(request) = role {
            self.streams[stream].answers = Some(request);
            self.streams[request].references += 1;
        }
        self.send(core, stream);
    }

    fn create(&mut self, id: MessageId, (src, dst): (NodeId, NodeId), bytes: u64, role: Role) -> u32 {
        let segments = self.plan.framing.segments(bytes);
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
            hash: flow_hash(name),
            sprayed: 0,
            serial: self.streams_opened,
            references: 0,
            waits: false,
            closed: false,
            alarm: Time::MAX,
            answers: None,
            sender: Sender::new(self.fresh.clone(), self.timeouts, segments),
            receiver: Receiver::new(1, Time::ZERO),
            reading: Reading::default(),
        });
        if let Some(part) = &mut self.part {
            part.keep(name, stream);
        }
        stream
    }

    /// Sends what the stream may send now; it waits for its turn if there is more.
    fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32) {
        let place = &mut self.streams[stream];
        if place.waits || !place.sender.is_ready() {
            return;
        }
        if self.hosts.is_some() {
            return self.send_from_host(core, stream);
        }
        loop {
            let nic = self.nic_of(core.now(), stream);
            let open = self.nics[nic as usize].is_open(core.now(), self.nic_limit);
            let more = !open || self.take_turn(core, stream);
            if more && (!open || !self.plan.spraying) {
                return self.wait(core, stream);
            } else if !more {
                return;
            }
        }
    }

    /// Returns the link by which a stream sends its next packet.
    fn nic_of(&self, now: Time, stream: u32) -> u32 {
        let place = &self.streams[stream];
        self.plan.network.topology.attachment_at(place.src, place.dst, place.hash(), now)
    }

    /// Queues a stream for its turn at the link of its next packet.
    fn wait<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32) {
        let nic = self.nic_of(core.now(), stream);
        self.streams[stream].waits = true;
        core.waits(self.streams[stream].id, || Wait::Turn);
        self.nics[nic as usize].wait(stream);
        self.schedule_refill(core, nic);
    }

    /// Sends up to a quantum: one packet, where each takes another path. Returns whether the stream has more to send.
    fn take_turn<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32) -> bool {
        let quantum = if self.plan.spraying { 1 } else { QUANTUM };
        let mut sent = 0;
        while sent < quantum {
            let place = &mut self.streams[stream];
            let before = place.sender.retransmissions();
            let Some(segment) = place.sender.poll_transmit(core.now()) else { break };
            if place.sender.retransmissions() > before {
                core.retransmitted(place.id);
            }
            self.send_data(core, stream, segment);
            sent += 1;
        }
        self.set_timer(core, stream);
        let in_host = self.hosts.is_some();
        core.waits(self.streams[stream].id, || if in_host { Wait::Nothing } else { Wait::Window });
        sent == quantum && self.streams[stream].sender.is_ready()
    }

    fn refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        self.nics[nic as usize].refilling = false;
        while let Some(stream) = self.nics[nic as usize].next_ready() {
            if self.take_turn(core, stream) {
                self.wait(core, stream);
            } else {
                self.streams[stream].waits = false;
                self.free_if_over(stream);
            }
            // A turn may be empty: the segment that the stream waited to send again has arrived meanwhile.
            if self.nics[nic as usize].free_at() > core.now() {
                break;
            }
        }
        if self.nics[nic as usize].has_ready() {
            self.schedule_refill(core, nic);
        }
    }

    fn schedule_refill<O: Observer>(&mut self, core: &mut Core<Event, O>, nic: u32) {
        let place = &mut self.nics[nic as usize];
        if !place.refilling {
            place.refilling = true;
            core.schedule(place.free_at().max(core.now()), Event::Refill(nic));
        }
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
impl<C: Control + Clone> Streams<C> {
    fn send_data<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32, segment: Segment) {
        let Stream { src, dst, bytes, .. } = self.streams[stream];
        let payload = self.plan.framing.payload(bytes, segment.number);
        let wire = self.plan.framing.wire(payload).get() as u32;
        core.sent(payload);
        self.put(core, (src, dst), stream, wire, payload as u32, Body::Data(segment));
    }

    fn send_ack<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32, ack: Ack) {
        let Stream { src, dst, .. } = self.streams[stream];
        let wire = self.plan.framing.ack_wire(ack.sack.len()).get() as u32;
        self.put(core, (dst, src), stream, wire, 0, Body::Ack(ack));
    }

    fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) {
        if self.hosts.is_some() {
            return self.reach_host(core.now(), index);
        }
        let packet = self.packets[index];
        match packet.body {
            Body::Data(segment) => self.take_data(core, packet, segment),
            Body::Ack(ack) => self.take_ack(core, packet.stream, &ack),
        }
        self.finish_packet(index);
    }

    fn take_data<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: Packet, segment: Segment) {
        core.arrived(u64::from(packet.payload));
        let stream = &mut self.streams[packet.stream];
        let handed_on = stream.receiver.handle_segment(core.now(), segment, packet.marked);
        let complete = handed_on > 0 && stream.receiver.next() == stream.segments;
        let (id, role) = (stream.id, stream.role);
        if let Role::Answer(request) = role {
            self.streams[packet.stream].role = Role::Data;
            self.acknowledge_request(core, request);
        }
        match (complete, role) {
            // The answer acknowledges the request.
            (true, Role::Request) if self.hosts.is_none() => return self.answer(core, packet.stream),
            (true, Role::Request) => return,
            (true, _) if self.hosts.is_none() => core.complete(id),
            // With hosts, a message is complete, or answered, when the program has read it.
            _ => {}
        }
        while let Some(ack) = self.streams[packet.stream].receiver.poll_ack() {
            self.send_ack(core, packet.stream, ack);
        }
    }

    fn answer<O: Observer>(&mut self, core: &mut Core<Event, O>, request: u32) {
        let stream = &self.streams[request];
        let (id, ends) = (stream.id, (stream.dst, stream.src));
        let bytes = core.message(id).bytes;
        self.open(core, id, ends, bytes, Role::Answer(request));
    }

    /// Acknowledges a request, since the first packet of its answer has arrived.
    fn acknowledge_request<O: Observer>(&mut self, core: &mut Core<Event, O>, request: u32) {
        let ack = self.streams[request].sender.acknowledged_by_answer();
        self.take_ack(core, request, &ack);
        self.free_if_over(request);
    }

    fn take_ack<O: Observer>(&mut self, core: &mut Core<Event, O>, stream: u32, ack: &Ack) {
        self.streams[stream].sender.handle_ack(core.now(), ack);
        self.send(core, stream);
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
    fn free_if_over(&mut self, stream: u32) {
        let place = &mut self.streams[stream];
        if !place.sender.is_done() || place.waits {
            return;
        }
        let closes = !std::mem::replace(&mut place.closed, true);
        if let Some(pool) = self.pool.as_mut().filter(|_| closes && !place.sender.has_given_up()) {
            let kept = Kept { hash: place.hash, sprayed: place.sprayed, sender: place.sender.rest() };
            pool.put((place.src, place.dst), kept);
        }
        if let Some(part) = &mut self.part {
            if closes {
                part.closed.push(place.name);
            }
        } else if place.references == 0 {
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
