//! `pfq`: per-flow queues with back-pressure at every node, the ideal of R2C2 §5.2.
//!
//! Nodes forward for each other, and no node loses a packet: [`unrack_protocol::pfq`] decides which packet each link of a node sends. A
//! packet is forwarded by any link that leads closer to its destination: by an idle link, drawn at random if several are idle, otherwise by
//! the first of these links on which its flow's turn comes. Therefore packets are sprayed over all shortest paths, as in the paper, and the
//! load decides how they are split between the paths: the paper's bound does not require fixed splits (§5.2, on long flows).
//!
//! The paper leaves some points open, which are decided here as follows. Turns are of packets, not of bytes. A node asks its neighbour to
//! hold a flow when more bytes of the flow wait than its links send in a round trip, so that no link runs dry. This request takes the
//! propagation of the link but none of its rate, as suits an ideal. Requests and answers are separate flows. Packets have the format of
//! R2C2's.
//!
//! The bytes that a packet finds waiting at a node are those of its flow only, because it waits for just one packet of each other flow.

mod unloaded;

use super::largest_in_packets;
use super::single_message::Lone;
use super::slab::Slab;
use crate::acted::unless_acted;
use crate::contract::{NoParams, Registered};
use crate::cost::Cost;
use crate::site::{Ethernet, FabricSite, SwitchBuffer};
use std::sync::Arc;
use unrack_basis::{SplitMix64, mix};
use unrack_engine::error::SetupError;
use unrack_engine::events::{
    Core, Hop, LinkId, Mechanism, ObservedPacket as Seen, Observer, PacketKind, Tie, Tied, WaitReason,
};
use unrack_engine::network::{Departure, Network, Pace};
use unrack_engine::run::Run;
use unrack_engine::{Fabric, Largest};
use unrack_protocol::pfq::{NextPacket, Node, PacketFate, Ports, TransitPacket};
use unrack_protocol::r2c2::packet::DATA_HEADER;
use unrack_rack::graph::Graph;
use unrack_rack::{Networks, Profile, Protocol};
use unrack_units::{Bytes, Time, Warning};
use unrack_workload::{Endpoints, Message, MessageId};

/// Per-flow queues on a network whose nodes forward for each other.
pub struct Pfq {
    network: Network,
    graph: Arc<Graph>,
    /// Payload of a full packet, in bytes.
    most: u64,
    /// Bytes on the wire that each packet has in addition to its payload.
    header: u64,
    cut_through: bool,
    links: Vec<Link>,
    /// Pace and propagation of all links, if they are the same for all links.
    alike: Option<(Pace, Time)>,
    nodes: Vec<Node<u32>>,
    flows: Slab<Flow>,
    packets: Slab<Packet>,
    random: SplitMix64,
    seed: u64,
    /// Completion times of messages that are alone, as far as they were simulated.
    lone: Lone,
}

/// One direction of a link.
struct Link {
    pace: Pace,
    propagation: Time,
    to: u32,
    /// Number of the link among the links of its node.
    port: u8,
    /// Number of the opposite direction among the links of the node at the other end.
    back_port: u8,
    free_at: Time,
    /// Whether an [`Event::Free`] is scheduled, at which the link is asked for its next packet.
    is_due: bool,
}

/// Flow: a request, or data.
struct Flow {
    message: MessageId,
    role: PfqRole,
    src: u32,
    dst: u32,
    bytes: u64,
    /// Number of packets not sent yet.
    unsent: u32,
    /// Number of packets not arrived yet.
    missing: u32,
    /// Number of hold and release messages in flight.
    words: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PfqRole {
    /// Carries the data of a message. The message is complete when the flow has arrived.
    Data,
    /// Carries a request. The answer is opened when the request has arrived.
    Request,
}

#[derive(Debug, Clone, Copy)]
struct Packet {
    flow: u32,
    segment: u32,
    wire: u32,
    payload: u32,
    /// Time at which the packet was queued, or passed without a queue.
    ready: Time,
    /// Time from which on the last bit of the packet can leave the present node.
    whole: Time,
    /// Bytes of the packet's flow that it found waiting.
    ahead: u64,
}

/// Events of [`Pfq`].
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet can leave the node at the end of this link, or has arrived at its destination.
    Arrive { packet: u32, link: u32 },
    /// The link has sent its packet.
    Free(u32),
    /// A request to hold a flow has arrived at the node at the end of this link. That node must send no more packets of the flow back over
    /// the link.
    Hold { flow: u32, link: u32 },
    /// A request to release the flow has arrived at the same node, which may send packets of the flow again.
    Release { flow: u32, link: u32 },
}

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::Arrive { link, .. } | Event::Hold { link, .. } | Event::Release { link, .. } => link + 1,
            Event::Free(_) => Tie::HERE,
        }
    }
}

impl Pfq {
    /// Creates the nodes and links of a network.
    ///
    /// # Errors
    /// If nodes do not forward for each other, or if a part of the network fails, because no packet is retransmitted.
    pub fn new(network: &Network, ethernet: &Ethernet, seed: u64) -> Result<Pfq, SetupError> {
        let topology = &network.topology;
        let Some(graph) = topology.graph().cloned() else {
            let rule = "is torus, mesh or graph for pfq, whose nodes forward for each other";
            return Err(SetupError::new("network.topology.kind", rule, "one with switches"));
        };
        if topology.faults().is_some() {
            return Err(SetupError::new("failures", "is not there for pfq, which loses nothing", "there"));
        }
        let header = if ethernet.headers { DATA_HEADER as u64 } else { 0 };
        let most = ethernet.mtu.get().saturating_sub(header).min(u64::from(u16::MAX));
        if most == 0 {
            let rule = "has room for a header of 36 B and data";
            return Err(SetupError::new("network.mtu", rule, ethernet.mtu));
        }
        let link = |link| {
            let is = topology.link(link);
            Link {
                pace: is.pace,
                propagation: is.propagation,
                to: graph.to(link),
                port: graph.port(link) as u8,
                back_port: graph.port(graph.reverse(link)) as u8,
                free_at: Time::ZERO,
                is_due: false,
            }
        };
        let links: Vec<Link> = (0..graph.links()).map(link).collect();
        let first = (links[0].pace, links[0].propagation);
        let alike = links.iter().all(|link| (link.pace, link.propagation) == first).then_some(first);
        let around = |link: u32| {
            let Link { pace, propagation, .. } = links[link as usize];
            pace.bytes_in(propagation * 2 + network.switch_latency) + header + most
        };
        let node = |node| {
            let own = graph.links_of(node);
            Node::new(own.len() as u32, own.map(around).sum())
        };
        Ok(Pfq {
            network: network.clone(),
            most,
            header,
            cut_through: ethernet.cut_through,
            nodes: (0..graph.nodes()).map(node).collect(),
            links,
            alike,
            graph,
            flows: Slab::new(),
            packets: Slab::new(),
            random: SplitMix64::new(mix(seed)).after(1),
            seed,
            lone: Lone::default(),
        })
    }

    /// Returns the fabric in its state before the first message.
    fn afresh(&self) -> Pfq {
        let (mtu, buffer) =
            (Bytes::new(self.header + self.most), SwitchBuffer::Private(Bytes::new(u64::MAX)));
        let ethernet = Ethernet { mtu, headers: self.header > 0, buffer, cut_through: self.cut_through };
        Pfq::new(&self.network, &ethernet, self.seed).expect("made once already")
    }

    fn wire(&self, payload: u64) -> u32 {
        (self.header + payload).max(SMALLEST) as u32
    }

    fn segments(&self, bytes: u64) -> u32 {
        u32::try_from(bytes.div_ceil(self.most).max(1)).expect("a message of less than 2^32 segments")
    }

    fn payload(&self, bytes: u64, segment: u32) -> u64 {
        (bytes - u64::from(segment) * self.most).min(self.most)
    }

    /// Draws one of these ports, with equal probability.
    fn draw(&mut self, ports: Ports) -> u8 {
        let mut left = ports;
        if ports.count_ones() > 1 {
            let skipped = (u128::from(self.random.next_u64()) * u128::from(ports.count_ones())) >> 64;
            (0..skipped).for_each(|_| left &= left - 1);
        }
        left.trailing_zeros() as u8
    }
}

/// Minimum size of a packet on the wire, in bytes, as in simulators without headers.
const SMALLEST: u64 = 8;

/// Flows.
impl Pfq {
    fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        message: MessageId,
        Endpoints { src, dst }: Endpoints,
        bytes: u64,
        role: PfqRole,
    ) {
        let segments = self.segments(bytes);
        let flow = Flow { message, role, src, dst, bytes, unsent: segments, missing: segments, words: 0 };
        let flow = self.flows.insert(flow);
        let mut ports = self.graph.closer(src, dst);
        self.nodes[src as usize].handle_supply(flow, ports, u64::from(segments));
        while ports != 0 {
            let port = self.draw(ports);
            ports &= !(1 << port);
            self.rouse(core, self.graph.links_of(src).start + u32::from(port));
        }
    }

    /// Takes a packet that has arrived at its destination.
    fn take<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: Packet) {
        core.arrived(u64::from(packet.payload));
        let flow = &mut self.flows[packet.flow];
        flow.missing -= 1;
        if flow.missing > 0 {
            return;
        }
        let Flow { message, role, src, dst, .. } = *flow;
        self.close_if_done(packet.flow);
        match role {
            PfqRole::Data => core.complete(message),
            PfqRole::Request => {
                let bytes = core.message(message).bytes;
                self.open(core, message, Endpoints { src: dst, dst: src }, bytes, PfqRole::Data);
            }
        }
    }

    /// Removes a flow that has arrived completely, if none of its hold or release messages is in flight.
    fn close_if_done(&mut self, flow: u32) {
        let Flow { missing, words, .. } = self.flows[flow];
        if missing == 0 && words == 0 {
            self.flows.release(flow);
        }
    }
}

/// Links.
impl Pfq {
    /// Serves a link for which packets may wait: now if it is free, otherwise when it becomes free.
    fn rouse<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let place = &mut self.links[link as usize];
        match place.free_at <= core.now() {
            _ if place.is_due => {}
            true => self.serve(core, link),
            false => {
                place.is_due = true;
                core.schedule(place.free_at, Event::Free(link));
            }
        }
    }

    /// Sends the next packet on a free link.
    fn serve<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let (node, port) = (self.graph.from(link), self.links[link as usize].port);
        let packet = match self.nodes[node as usize].poll(port) {
            None => return,
            Some(NextPacket::Own { flow }) => self.next_of(core, flow),
            Some(NextPacket::Passing { flow, packet, release }) => {
                let first = self.graph.links_of(node).start;
                let mut ports = release;
                while ports != 0 {
                    self.tell(core, first + ports.trailing_zeros(), flow, false);
                    ports &= ports - 1;
                }
                packet
            }
        };
        self.send(core, link, packet);
        if self.nodes[node as usize].is_asked(port) {
            self.rouse(core, link);
        }
    }

    fn next_of<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32) -> u32 {
        let flow = &mut self.flows[index];
        let bytes = flow.bytes;
        flow.unsent -= 1;
        let segment = self.segments(bytes) - 1 - self.flows[index].unsent;
        let payload = self.payload(bytes, segment);
        core.sent(payload);
        let (wire, now) = (self.wire(payload), core.now());
        let packet =
            Packet { flow: index, segment, wire, payload: payload as u32, ready: now, whole: now, ahead: 0 };
        self.packets.insert(packet)
    }

    fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, index: u32) {
        let now = core.now();
        let packet = self.packets[index];
        let place = &mut self.links[link as usize];
        let (propagation, to) = (place.propagation, place.to);
        let transmit = place.pace.transmit(u64::from(packet.wire));
        // A faster link must not run out of bits in the middle of a packet.
        let first = now.max(packet.whole.saturating_sub(transmit));
        let departure = Departure { first, last: first + transmit };
        place.free_at = departure.last;
        let is_last = to == self.flows[packet.flow].dst;
        let latency = if is_last { Time::ZERO } else { self.network.switch_latency };
        let whole = departure.last + propagation + latency;
        let start = if self.cut_through && !is_last { departure.first } else { departure.last };
        let at = start + propagation + latency;
        self.packets[index].whole = whole;
        core.queued(link, packet.ahead);
        core.hop(LinkId::Port(link), transmit, || {
            self.seen(&packet, (link, propagation), departure, (start, at))
        });
        core.schedule(at, Event::Arrive { packet: index, link });
    }

    fn seen(
        &self,
        packet: &Packet,
        (link, propagation): (u32, Time),
        departure: Departure,
        (start, onward): (Time, Time),
    ) -> Hop {
        let flow = &self.flows[packet.flow];
        let kind = if flow.role == PfqRole::Request { PacketKind::Request } else { PacketKind::Data };
        let offset = Some(u64::from(packet.segment) * self.most);
        Hop {
            link: LinkId::Port(link),
            message: Some(flow.message),
            packet: Seen { offset, ..Seen::new(kind, flow.src, flow.dst) },
            wire: packet.wire,
            payload: packet.payload,
            ready: packet.ready,
            first: departure.first,
            last: departure.last,
            shares: false,
            repeated: Time::ZERO,
            serial: start - departure.first,
            propagation,
            onward,
        }
    }

    fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, index: u32, link: u32) {
        let (node, from) = (self.links[link as usize].to, self.links[link as usize].back_port);
        let packet = self.packets[index];
        let dst = self.flows[packet.flow].dst;
        if node == dst {
            self.packets.release(index);
            return self.take(core, packet);
        }
        self.packets[index].ready = core.now();
        let own = self.graph.links_of(node);
        let idle = self.idle(own.clone(), core.now());
        let passing = TransitPacket { packet: index, bytes: packet.wire, from };
        let graph = &self.graph;
        let ways = || graph.closer(node, dst);
        match self.nodes[node as usize].handle_packet(packet.flow, passing, ways, idle) {
            PacketFate::Passes(ports) => {
                self.packets[index].ahead = 0;
                let port = self.draw(ports);
                self.send(core, own.start + u32::from(port), index);
            }
            PacketFate::Waits { ahead, hold } => {
                self.packets[index].ahead = ahead;
                if hold {
                    self.tell(core, own.start + u32::from(from), packet.flow, true);
                }
                for link in own {
                    if self.nodes[node as usize].is_asked(self.links[link as usize].port) {
                        self.rouse(core, link);
                    }
                }
            }
        }
    }

    /// Returns the links that are neither sending nor scheduled to send.
    fn idle(&self, links: std::ops::Range<u32>, now: Time) -> Ports {
        let places = &self.links[links.start as usize..links.end as usize];
        let idle = places.iter().enumerate().filter(|(_, link)| !link.is_due && link.free_at <= now);
        idle.fold(0, |ports, (port, _)| ports | 1 << port)
    }

    /// Asks the node at the end of this link to hold a flow, or to release it.
    fn tell<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, flow: u32, hold: bool) {
        self.flows[flow].words += 1;
        let at = core.now() + self.links[link as usize].propagation;
        core.schedule(at, if hold { Event::Hold { flow, link } } else { Event::Release { flow, link } });
    }

    fn told<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, flow: u32, hold: bool) {
        let Flow { src, message, ref mut words, .. } = self.flows[flow];
        *words -= 1;
        let Link { to, back_port, .. } = self.links[link as usize];
        let node = &mut self.nodes[to as usize];
        match hold {
            true => {
                core.acted(Mechanism::Credit);
                node.handle_hold(flow, back_port);
            }
            false if node.handle_release(flow, back_port) => self.rouse(core, self.graph.reverse(link)),
            false => {}
        }
        if to == src {
            let node = &self.nodes[src as usize];
            core.waits(message, || if node.is_held(flow) { WaitReason::Credit } else { WaitReason::Turn });
        }
        self.close_if_done(flow);
    }
}

impl Registered for Pfq {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "pfq",
        about: "a queue for each flow at each node, held back hop by hop: the ideal of R2C2",
        networks: Networks::Direct,
        no_shared_buffer: Some("a node of `pfq` has a queue for each flow"),
        no_faults: Some("`pfq` loses nothing, and so sends nothing again"),
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { node: 440.0, port: 110.0, open: 60.0, overhead: 6.0, ..Cost::NONE };
    type Params = NoParams;

    fn build(site: &FabricSite, _params: &NoParams) -> Result<Pfq, SetupError> {
        Pfq::new(site.network, site.ethernet, site.seed)
    }

    fn never_acted(_params: &NoParams, run: &Run) -> Vec<Warning> {
        let text = "pfq held no flow back: no queue of a flow was ever full at a node";
        unless_acted(run, Mechanism::Credit, "credits", text)
    }
}

impl Fabric for Pfq {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), PfqRole::Request),
            false => (message.bytes, PfqRole::Data),
        };
        self.open(core, id, message.endpoints(), bytes, role);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Arrive { packet, link } => self.arrive(core, packet, link),
            Event::Free(link) => {
                self.links[link as usize].is_due = false;
                self.serve(core, link);
            }
            Event::Hold { flow, link } => self.told(core, link, flow, true),
            Event::Release { flow, link } => self.told(core, link, flow, false),
        }
    }

    fn largest(&self) -> Option<Largest> {
        Some(largest_in_packets(Bytes::new(self.most)))
    }

    /// Returns the completion time of a message that is alone. It is computed for one packet, or for a single path of links that are alike,
    /// and simulated otherwise. Very long messages get a lower bound: see [`Pfq::alone`].
    fn unloaded(&self, message: &Message) -> Time {
        let (src, dst) = (message.src, message.dst);
        let bound = match message.kind.is_answered() {
            true => self.alone(src, dst, u64::from(message.request)) + self.alone(dst, src, message.bytes),
            false => self.alone(src, dst, message.bytes),
        };
        match self.is_simulated(message) {
            true => self.lone.completion(&self.network, message, || self.afresh()),
            false => bound.max(self.network.ideal(message)),
        }
    }

    fn draws_routes(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests;
