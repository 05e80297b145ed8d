//! `r2c2`: nodes that forward for each other and compute their own rates (Costa et al., SIGCOMM 2015).
//!
//! A sender tells all nodes of a flow's start and end, each by a 16-byte packet along one of its broadcast trees. It
//! sends at once, at the rate of a link; once an interval it computes the rates of all flows that it has known for an
//! interval, and holds its own to theirs. Packets follow the way that their source drew; a node has one queue a link,
//! first in, first out.
//!
//! What the paper leaves open, and is so here: nodes compute at times of their own, spread over the interval. What a
//! queue has no room for, or a link loses, is dropped; the node that had to drop a broadcast tells its source, which
//! repeats it along the next of its trees. A flow has ended for others when its last byte was sent. Receivers
//! acknowledge; what is not acknowledged when all was sent is sent again after a time-out, at the flow's rate. A packet
//! is what the formats say, with no other headers around.

mod alone;
mod broadcasts;
mod flow;
mod packets;
mod wire;

use self::flow::{Flow, Receiver, Role, Sender};
use self::wire::{Body, Link, Packet, Spread};
use super::Fabric;
use super::slab::Slab;
use super::stream::{Buffer, Ethernet};
use crate::engine::{Core, Observer, Tie, Tied, Wait};
use crate::error::SetupError;
use crate::network::Network;
use std::cell::RefCell;
use std::sync::Arc;
use unrack_protocol::r2c2::bucket::TokenBucket;
use unrack_protocol::r2c2::packet::{Broadcast, DATA_HEADER, Event as Told, Route};
use unrack_protocol::r2c2::rates::{Asked, Rates};
use unrack_protocol::r2c2::routing::Router;
use unrack_protocol::r2c2::trees::Trees;
use unrack_protocol::r2c2::view::View;
use unrack_protocol::r2c2::weights::{Ways, Weights};
use unrack_protocol::r2c2::{Params, Routing};
use unrack_rack::graph::Graph;
use unrack_units::Time;
use unrack_workload::random::mix;
use unrack_workload::{Message, MessageId};

/// R2C2.
pub struct R2c2 {
    params: Params,
    network: Network,
    graph: Arc<Graph>,
    /// Payload of a full packet.
    most: u64,
    /// On the wire around every payload.
    header: u64,
    buffer: u64,
    cut_through: bool,
    links: Vec<Link>,
    nodes: Vec<Node>,
    flows: Slab<Flow>,
    packets: Slab<Packet>,
    spreads: Slab<Spread>,
    trees: Trees,
    router: Router,
    weights: RefCell<Weights>,
    /// Events and timers named so far.
    turns: u32,
    random: u64,
}

struct Node {
    view: View,
    /// Flows that it sends.
    own: Vec<u32>,
    /// Numbers of its flows so far.
    numbers: u16,
    /// Computes rates once an interval.
    ticks: bool,
    /// What it is about to tell again: other losses of the same are no reason to do so twice.
    repeats: Vec<(u16, Told)>,
}

#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A packet can leave the node at the end of this link; or has come to its own.
    Arrive {
        packet: u32,
        link: u32,
    },
    /// A broadcast has come over this link.
    Heard {
        spread: u32,
        link: u32,
    },
    Send {
        flow: u32,
        turn: u32,
    },
    Tick(u32),
    Alarm {
        flow: u32,
        turn: u32,
    },
    /// A source repeats what it was told is lost.
    Repeat {
        spread: u32,
    },
}

impl Tied for Event {
    fn tie(&self) -> u32 {
        match *self {
            Event::Arrive { link, .. } | Event::Heard { link, .. } => link + 1,
            Event::Alarm { .. } => Tie::ALARM,
            _ => Tie::HERE,
        }
    }
}

impl R2c2 {
    pub fn new(
        network: &Network,
        ethernet: &Ethernet,
        params: &Params,
        seed: u64,
    ) -> Result<R2c2, SetupError> {
        let topology = &network.topology;
        let Some(graph) = topology.graph().cloned() else {
            let rule = "is torus or mesh for r2c2, whose nodes forward for each other";
            return Err(SetupError::new("network.topology.kind", rule, "one with switches"));
        };
        params.routing.check(&graph).map_err(|why| {
            SetupError::new("fabric.routing", "fits the topology", format!("{} ({why})", params.routing))
        })?;
        let positive = [("fabric.interval", params.interval), ("fabric.timeout", params.timeout)];
        if let Some((key, time)) = positive.into_iter().find(|(_, time)| *time == Time::ZERO) {
            return Err(SetupError::new(key, "is above 0", time));
        }
        if params.trees == 0 {
            return Err(SetupError::new("fabric.trees", "is at least 1", 0));
        }
        if !(1..=64).contains(&params.ack_every) {
            return Err(SetupError::new("fabric.ack_every", "is from 1 to 64", params.ack_every));
        }
        let headroom = params.headroom.get();
        if headroom >= 1.0 {
            return Err(SetupError::new("fabric.headroom", "leaves something to flows", params.headroom));
        }
        let Buffer::Private(buffer) = ethernet.buffer else {
            return Err(SetupError::new("network.switch.buffer", "is of each link for r2c2", "shared"));
        };
        let header = if ethernet.headers { DATA_HEADER as u64 } else { 0 };
        let most = ethernet.mtu.get().saturating_sub(header).min(u64::from(u16::MAX));
        if most == 0 {
            return Err(SetupError::new(
                "network.mtu",
                "has room for a header of 36 B and data",
                ethernet.mtu,
            ));
        }
        let rates = Rates::new((0..graph.links()).map(|link| topology.link(link).pace.rate()), headroom);
        let node = |_| Node {
            view: View::new(rates.clone()),
            own: Vec::new(),
            numbers: 0,
            ticks: false,
            repeats: Vec::new(),
        };
        Ok(R2c2 {
            params: params.clone(),
            network: network.clone(),
            most,
            header,
            buffer: buffer.get(),
            cut_through: ethernet.cut_through,
            links: Link::all(topology, graph.links()),
            nodes: (0..graph.nodes()).map(node).collect(),
            flows: Slab::new(),
            packets: Slab::new(),
            spreads: Slab::new(),
            trees: Trees::new(graph.clone(), params.trees),
            router: Router::new(graph.clone()),
            weights: RefCell::new(Weights::new(graph.clone())),
            graph,
            turns: 0,
            random: mix(seed),
        })
    }

    fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1).max(1);
        self.turns
    }

    fn draw(&mut self, ways: Ways) -> Route {
        let random = &mut self.random;
        self.router.draw(ways, &mut || {
            *random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(*random)
        })
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

    /// Of a flow of which no rate is known yet: that of the source's fastest link.
    fn first_kbps(&self, src: u32) -> u32 {
        let of = |link: u32| self.links[link as usize].pace.rate().as_bps() / 1_000;
        let fastest = self.graph.links_of(src).map(of).max().unwrap_or(0);
        u32::try_from(fastest).unwrap_or(u32::MAX)
    }
}

/// On the wire: that of simulators without headers.
const SMALLEST: u64 = 8;

/// Flows.
impl R2c2 {
    fn open<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        message: MessageId,
        (src, dst): (u32, u32),
        bytes: u64,
        role: Role,
    ) {
        let segments = self.segments(bytes);
        let bucket = TokenBucket::new(self.first_kbps(src), self.wire(self.most));
        let node = &mut self.nodes[src as usize];
        node.numbers = node.numbers.wrapping_add(1);
        let told = Broadcast {
            event: Told::Start,
            src: src as u16,
            dst: dst as u16,
            flow: node.numbers,
            asked: Asked::default(),
            routing: self.params.routing,
            tree: (node.numbers % u16::from(self.params.trees)) as u8,
        };
        let sender = Sender::new(bucket, segments, self.params.timeout);
        let receiver = Receiver::new(segments);
        let flow = Flow { message, role, src, dst, bytes, told, sender, receiver, references: 0 };
        let flow = self.flows.insert(flow);
        self.nodes[src as usize].own.push(flow);
        self.start_ticking(core, src);
        let turn = self.turn();
        self.flows[flow].sender.turn = turn;
        self.send(core, flow, turn);
    }

    /// Has the next packet of a flow sent as soon as its bucket allows.
    fn go_on<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        let turn = self.turn();
        let place = &mut self.flows[flow];
        place.sender.turn = 0;
        let Some((segment, _)) = place.sender.transfer.next() else { return self.rest(core, flow) };
        let (bytes, bucket) = (place.bytes, place.sender.bucket);
        let wire = self.wire(self.payload(bytes, segment));
        let place = &mut self.flows[flow];
        if let Some(at) = bucket.ready_at(wire) {
            place.sender.turn = turn;
            core.schedule(at.max(core.now()), Event::Send { flow, turn });
        }
        core.waits(place.message, || Wait::Pacing);
    }

    fn send<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32, turn: u32) {
        let place = &self.flows[flow];
        if place.sender.turn != turn {
            return;
        }
        let Some((segment, is_again)) = place.sender.transfer.next() else { return self.rest(core, flow) };
        let Flow { src, dst, bytes, message, told, .. } = *place;
        let payload = self.payload(bytes, segment);
        let wire = self.wire(payload);
        let ways = Ways { routing: told.routing, src, dst, flow: u32::from(told.flow) };
        let route = self.draw(ways);
        // A node does not drop what it has not sent: it waits for room in its queue.
        let first = &self.links[(self.graph.links_of(src).start + route.port(0).unwrap_or(0)) as usize];
        let over = (first.port.backlog(core.now()) + u64::from(wire)).saturating_sub(self.buffer);
        if over > 0 {
            let at = core.now() + first.pace.transmit(over);
            return core.schedule(at, Event::Send { flow, turn });
        }
        core.sent(payload);
        if is_again {
            core.retransmitted(message);
        }
        self.flows[flow].sender.bucket.take(core.now(), wire);
        let payload = payload as u32;
        let packet = Packet { flow, body: Body::Data(segment), route, done: 0, wire, payload };
        self.put(core, src, packet);
        if segment == 0 && !is_again {
            self.announce(core, told);
        }
        let sender = &mut self.flows[flow].sender;
        let was_through = sender.transfer.is_through();
        if !sender.transfer.sent(segment) {
            return self.go_on(core, flow);
        }
        sender.turn = 0;
        if !was_through {
            self.announce(core, Broadcast { event: Told::End, ..told });
        }
        self.set_alarm(core, flow);
    }

    /// What was to be sent again has come meanwhile, but for what was sent again just now.
    fn rest<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        if self.flows[flow].sender.transfer.rest() {
            self.set_alarm(core, flow);
        }
    }

    fn set_alarm<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32) {
        let turn = self.turn();
        let sender = &mut self.flows[flow].sender;
        sender.alarm = turn;
        core.schedule(core.now() + sender.timeout, Event::Alarm { flow, turn });
        core.waits(self.flows[flow].message, || Wait::Retransmission);
    }

    fn alarm<O: Observer>(&mut self, core: &mut Core<Event, O>, flow: u32, turn: u32) {
        let sender = &mut self.flows[flow].sender;
        if sender.alarm != turn || sender.transfer.is_done() {
            return;
        }
        sender.alarm = 0;
        sender.timeout = Time::from_ps(sender.timeout.as_ps().saturating_mul(2).min(LONGEST_TIMEOUT));
        sender.transfer.send_again();
        self.go_on(core, flow);
    }

    fn take_data<O: Observer>(&mut self, core: &mut Core<Event, O>, packet: Packet, segment: u32) {
        core.arrived(u64::from(packet.payload));
        let ack_every = self.params.ack_every;
        let place = &mut self.flows[packet.flow];
        let (is_new, is_due) = place.receiver.take(segment, ack_every);
        let is_complete = is_new && place.receiver.is_complete();
        let Flow { message, role, src, dst, .. } = *place;
        match (is_complete, role) {
            (true, Role::Data) => core.complete(message),
            (true, Role::Request) => {
                let bytes = core.message(message).bytes;
                self.open(core, message, (dst, src), bytes, Role::Data);
            }
            (false, _) => {}
        }
        if is_due {
            let (next, mask) = self.flows[packet.flow].receiver.acknowledgement();
            let ways = Ways { routing: Routing::Spraying, src: dst, dst: src, flow: 0 };
            let (route, wire) = (self.draw(ways), self.wire(ACK));
            let body = Body::Ack { next, mask };
            self.put(core, dst, Packet { flow: packet.flow, body, route, done: 0, wire, payload: 0 });
        }
    }

    fn take_ack(&mut self, flow: u32, next: u32, mask: u64) {
        let place = &mut self.flows[flow];
        let was_done = place.sender.transfer.is_done();
        place.sender.transfer.acknowledge(next, mask);
        if place.sender.transfer.is_done() && !was_done {
            (place.sender.turn, place.sender.alarm) = (0, 0);
            let own = &mut self.nodes[place.src as usize].own;
            let at = own.iter().position(|own| *own == flow).expect("an open flow is its source's");
            own.swap_remove(at);
        }
    }

    fn drop_reference(&mut self, flow: u32) {
        let place = &mut self.flows[flow];
        place.references -= 1;
        if place.references == 0 && place.sender.transfer.is_done() {
            self.flows.release(flow);
        }
    }
}

/// Beyond the header: a mask of 64 packets.
const ACK: u64 = 8;
/// A second.
const LONGEST_TIMEOUT: u64 = 1_000_000_000_000;

/// Rates.
impl R2c2 {
    /// A node that sends computes once an interval, at a time of its own.
    fn start_ticking<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32) {
        if !std::mem::replace(&mut self.nodes[node as usize].ticks, true) {
            let interval = self.params.interval.as_ps();
            let phase = (u128::from(interval) * u128::from(node) / self.nodes.len() as u128) as u64;
            let since = (core.now().as_ps() + interval - phase) % interval;
            core.schedule(core.now() + Time::from_ps(interval - since), Event::Tick(node));
        }
    }

    fn tick<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u32) {
        let (now, interval) = (core.now(), self.params.interval);
        let place = &mut self.nodes[node as usize];
        if place.own.is_empty() {
            place.ticks = false;
            return;
        }
        place.view.settle(now, interval, self.weights.get_mut());
        core.schedule(now + interval, Event::Tick(node));
        for n in 0..self.nodes[node as usize].own.len() {
            let flow = self.nodes[node as usize].own[n];
            let place = &mut self.flows[flow];
            let key = (place.told.src, place.told.flow);
            let Some(kbps) = self.nodes[node as usize].view.kbps(key) else { continue };
            if kbps != place.sender.bucket.kbps() {
                place.sender.bucket.set_rate(now, kbps);
                self.go_on(core, flow);
            }
        }
    }
}

/// Belongs to no flow.
const NONE: u32 = u32::MAX;

impl Fabric for R2c2 {
    type Event = Event;

    fn name(&self) -> &'static str {
        "r2c2"
    }

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        let (bytes, role) = match message.kind.is_answered() {
            true => (u64::from(message.request), Role::Request),
            false => (message.bytes, Role::Data),
        };
        self.open(core, id, (message.src, message.dst), bytes, role);
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Arrive { packet, link } => self.arrive(core, packet, link),
            Event::Heard { spread, link } => self.heard(core, spread, link),
            Event::Send { flow, turn } => self.send(core, flow, turn),
            Event::Tick(node) => self.tick(core, node),
            Event::Alarm { flow, turn } => self.alarm(core, flow, turn),
            Event::Repeat { spread } => self.repeat(core, spread),
        }
    }

    /// A bound, which one packet meets: the first interval at the rate of a link, then at that of a flow alone; no packet
    /// or broadcast in another's way; and the shortest way.
    fn unloaded(&self, message: &Message) -> Time {
        let alone = |src, dst, bytes| self.alone(src, dst, bytes);
        let request = match message.kind.is_answered() {
            true => alone(message.src, message.dst, u64::from(message.request)),
            false => Time::ZERO,
        };
        let (src, dst) = match message.kind.is_answered() {
            true => (message.dst, message.src),
            false => (message.src, message.dst),
        };
        request + alone(src, dst, message.bytes)
    }
}
