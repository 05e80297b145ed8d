//! `cxl`: cache lines over credited links and input-buffered switches (CXL.mem; EDM §4.3).
//!
//! Any topology, each link carrying flits both ways. A message is cut into lines of 64 B, each a request and an
//! answer of the link layer: see [`unrack_protocol::cxl`]. A read or rmw is complete when all its data is at `src`, a
//! write or flow when all its data is at `dst`. A line takes its whole 64 B even if the message needs fewer of them.
//! All lines between two nodes take the same path.
//!
//! Networks of several switches cannot lock up either: a line goes up and then down, so no two queues of a class wait
//! for each other, and answers always drain at the node that asked.
//!
//! A link has an event at the start of each flit while it has something to send, and one at the end of each flit that
//! completes a message. Credits come back without events: they are dated, and only a sender that waits for one is
//! woken. A page read over one switch takes some 350 events of about 110 ns: a sixth in the event queue, the rest in
//! even parts in the steps below. Dating arrivals as well, which saves two events of five, was tried; keeping them in
//! order costs as much as it saves.
//!
//! Faults: a flit that is corrupted, or meets a link that is down, is sent again with all that follows it
//! ([`retry`]). A line whose link never comes back is answered with an error at once, and its message is given up.
//!
//! Departure: credits go back one flit time and one propagation after the buffer came free, and take no time on the
//! link: they travel in headers, or in flits that would be idle.
//! Departure: the scenario's switch latency is not used; [`Params::hop`] is used instead.

mod alone;
mod link;
mod retry;
#[cfg(test)]
mod tests;
mod wiring;

use self::alone::Alone;
use self::link::{Link, Receiver, Sender};
use self::wiring::Wiring;
use super::stream::flow_hash;
use crate::memory::Cost;
use crate::registry::{Registered, Site};
use std::collections::VecDeque;
use std::ops::Range;
use unrack_engine::Fabric;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Hop, ObservedPacket, Observer, PacketKind, Tied, Wait};
use unrack_engine::network::Network;
use unrack_engine::topology::Topology;
use unrack_protocol::cxl::{Burst, Class, ClassSet, Feed, LINE_BYTES, Line, Node, Params, Switch};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Kind, Message, MessageId};

/// CXL on a network.
pub struct Cxl {
    alone: Alone,
    topology: Topology,
    wiring: Wiring,
    nodes: Vec<Node>,
    switches: Vec<Switch>,
    /// Links from nodes to their switch, by node, and then those from switch ports, by port.
    links: Vec<Link>,
    /// Progress of each message, by id.
    progress: Vec<Progress>,
    /// Buffers freed by the flit that is being filled: the link whose receiver has the buffer, and the class.
    freed: Vec<(u32, Class)>,
}

impl Tied for Event {}

/// Events of [`Cxl`]; each has the number of a link.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A flit may start on a link.
    Fill(u32),
    /// Messages have come to the end of a link.
    Arrive(u32),
}

/// Progress of one message, in lines of data.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    sent: u32,
    arrived: u32,
    dropped: u32,
    /// The request has arrived, or was lost.
    asked: bool,
}

impl Cxl {
    /// Creates the nodes, switches and links of a network.
    ///
    /// # Errors
    /// If the network has too many nodes, or `credits` or `outstanding` is 0.
    pub fn new(network: &Network, params: &Params) -> Result<Cxl, SetupError> {
        check(network, params)?;
        let topology = &network.topology;
        let wiring = Wiring::new(topology);
        Ok(Cxl {
            alone: Alone::new(network, params),
            nodes: (0..topology.nodes() as u16).map(|id| Node::new(id, params.outstanding)).collect(),
            switches: wiring.sizes().map(|ports| Switch::new(ports, params.credits)).collect(),
            links: wiring.links(topology, params),
            wiring,
            topology: topology.clone(),
            progress: Vec::new(),
            freed: Vec::new(),
        })
    }
}

fn check(network: &Network, params: &Params) -> Result<(), SetupError> {
    if network.nodes() > MAX_NODES {
        return Err(SetupError::new("network.topology", "has at most 4096 nodes for cxl", network.nodes()));
    }
    if params.credits == 0 {
        return Err(SetupError::new("fabric.credits", "is at least 1", 0));
    }
    if params.outstanding == 0 {
        return Err(SetupError::new("fabric.outstanding", "is at least 1", 0));
    }
    Ok(())
}

/// CXL 3.x §4.2: a flit is cut into slots of 16 B.
const SLOT_BYTES: u32 = 16;
/// CXL 3.x §7.7: port-based routing addresses 4096 edge ports.
const MAX_NODES: u32 = 4096;

/// Flits and credits.
impl Cxl {
    /// Sends on `link`, where a line has arrived that it may be able to send: now, or when the current flit ends.
    fn offer<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let free_at = self.links[link as usize].free_at;
        match free_at <= core.now() {
            true => self.fill(core, link),
            false => self.wake(core, link, free_at),
        }
    }

    /// Schedules a flit on `link` at `at`, unless one is due before.
    fn wake<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, at: Time) {
        let wake_at = &mut self.links[link as usize].wake_at;
        if at < *wake_at {
            *wake_at = at;
            core.schedule(at, Event::Fill(link));
        }
    }

    /// Returns the classes of lines that wait to be sent on `link`, with credits or without.
    fn waiting(&self, link: u32) -> ClassSet {
        match self.links[link as usize].sender {
            Sender::Node(node) => self.nodes[usize::from(node)].waiting(),
            Sender::Output { switch, port } => self.switches[switch as usize].waiting(port),
        }
    }

    /// Starts a flit on `link` if there is anything to put in.
    fn fill<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let now = core.now();
        let Cxl { links, nodes, switches, freed, wiring, .. } = self;
        let Link { transmitter, wire, began, sender, flit, latency, id, .. } = &mut links[link as usize];
        let id = *id;
        // Unless the flit has to be sent again.
        let arrival = now + *flit + *latency;
        let (resumed, flit) = (transmitter.is_midway().then_some(*began), *flit);
        let (sender, before) = (*sender, wire.len());
        let carries = match sender {
            Sender::Node(node) => {
                let receives = wiring.to_node(node);
                let node = &mut nodes[usize::from(node)];
                transmitter.fill(now, &mut FromNode { node, receives, wire, arrival, freed })
            }
            Sender::Output { switch, port } => {
                let feeders = wiring.feeders(switch);
                let switch = &mut switches[switch as usize];
                transmitter.fill(now, &mut FromSwitch { switch, output: port, feeders, wire, arrival, freed })
            }
        };
        let completed = before..self.links[link as usize].wire.len();
        let mut repeated = Time::ZERO;
        if carries {
            let end = self.through(link, now);
            repeated = end.map_or(Time::ZERO, |end| end - now - flit);
            core.occupied(id, flit + repeated);
            self.links[link as usize].free_at = end.unwrap_or(now + flit);
            if let (Sender::Node(_), true) = (sender, !completed.is_empty()) {
                completed.clone().for_each(|place| self.count_sent(core, link, place));
            }
            match end {
                Some(end) => self.fly(core, link, completed.clone(), (resumed, end, repeated)),
                None => self.lose(core, link, completed.clone()),
            }
        }
        let place = &mut self.links[link as usize];
        if resumed.is_none() || !completed.is_empty() {
            (place.began, place.repeated) = (now, repeated);
        } else {
            place.repeated += repeated;
        }
        self.return_credits(core);
        self.continue_after(core, link, carries);
    }

    /// Schedules the arrival of the lines that a flit completes. The times are: the start of the first of them, if it
    /// began in an earlier flit; the end of the flit; and how long the link repeated it.
    fn fly<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        link: u32,
        completed: Range<usize>,
        (resumed, end, repeated): (Option<Time>, Time, Time),
    ) {
        if completed.is_empty() {
            return;
        }
        let Link { wire, latency, flit, id, repeated: before_now, .. } = &mut self.links[link as usize];
        let (id, all_repeated) = (*id, repeated + *before_now);
        let (now, arrival, before) = (core.now(), end + *latency, completed.start);
        if end != now + *flit {
            wire.range_mut(completed.clone()).for_each(|(at, _)| *at = arrival);
        }
        for place in completed {
            let (first, repeated) = match resumed {
                Some(began) if place == before => (began, all_repeated),
                _ => (now, repeated),
            };
            // The time on the link was counted with the flit.
            core.hop(id, Time::ZERO, || self.hop(link, place, [first, end, arrival], repeated));
        }
        core.schedule(arrival, Event::Arrive(link));
    }

    /// Describes a line that a flit completes, by the times at which it begins, ends and can go on, and the time in
    /// which the link repeated it.
    fn hop(&self, link: u32, place: usize, [first, last, onward]: [Time; 3], repeated: Time) -> Hop {
        let Link { wire, id, propagation, .. } = &self.links[link as usize];
        let line = wire[place].1;
        let payload = if line.class.has_data() { LINE_BYTES as u32 } else { 0 };
        Hop {
            link: *id,
            message: Some(MessageId(line.message)),
            packet: looks(&line),
            wire: line.class.slots() * SLOT_BYTES,
            payload,
            ready: first,
            first,
            last,
            shares: true,
            repeated,
            serial: last - first,
            propagation: *propagation,
            onward,
        }
    }

    /// Schedules the next try: when the link is free if the flit carried something, else when the next credit is
    /// there.
    fn continue_after<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, carries: bool) {
        let Link { transmitter, free_at, .. } = &self.links[link as usize];
        let wake_at = match (transmitter.is_midway(), self.waiting(link).is_empty()) {
            (false, true) => None,
            _ if carries => Some(*free_at),
            _ => transmitter.next_credit(),
        };
        if let Some(at) = wake_at {
            self.wake(core, link, at);
        }
    }

    fn return_credits<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        while let Some((number, class)) = self.freed.pop() {
            let link = &mut self.links[number as usize];
            let at = core.now() + link.flit + link.propagation;
            link.transmitter.handle_credit(at, class);
            let (wake_at, at) = (link.wake_at, at.max(link.free_at));
            if wake_at == Time::MAX && !self.waiting(number).is_empty() {
                self.wake(core, number, at);
            }
        }
    }
}

struct FromNode<'a> {
    node: &'a mut Node,
    /// Number of the link by which requests came.
    receives: u32,
    wire: &'a mut VecDeque<(Time, Line)>,
    arrival: Time,
    freed: &'a mut Vec<(u32, Class)>,
}

impl Feed for FromNode<'_> {
    fn take(&mut self, allowed: ClassSet) -> Option<Line> {
        let taken = self.node.take(allowed)?;
        self.freed.extend(taken.frees.map(|class| (self.receives, class)));
        Some(taken.line)
    }
    fn complete(&mut self, line: Line) {
        self.wire.push_back((self.arrival, line));
    }
}

struct FromSwitch<'a> {
    switch: &'a mut Switch,
    output: u16,
    /// Number of the link that leads to each input of the switch.
    feeders: &'a [u32],
    wire: &'a mut VecDeque<(Time, Line)>,
    arrival: Time,
    freed: &'a mut Vec<(u32, Class)>,
}

impl Feed for FromSwitch<'_> {
    fn take(&mut self, allowed: ClassSet) -> Option<Line> {
        self.switch.take(self.output, allowed)
    }
    fn complete(&mut self, line: Line) {
        let (input, class) = self.switch.finish(self.output);
        self.freed.push((self.feeders[usize::from(input)], class));
        self.wire.push_back((self.arrival, line));
    }
}

/// Messages of the link layer.
impl Cxl {
    fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let receiver = self.links[link as usize].receiver;
        while let Some(line) = self.links[link as usize].pop_arrived(core.now()) {
            match receiver {
                Receiver::Input { switch, port } => self.enter_switch(core, switch, port, line),
                Receiver::Node(node) => self.enter_node(core, link, node, line),
            }
        }
        match receiver {
            Receiver::Input { switch, .. } => self.offer_outputs(core, switch),
            Receiver::Node(node) => {
                self.return_credits(core);
                self.offer(core, u32::from(node));
            }
        }
    }

    /// Offers to every output the lines that have come to the head of a queue, until no more do.
    fn offer_outputs<O: Observer>(&mut self, core: &mut Core<Event, O>, switch: u32) {
        while let Some(output) = self.switches[switch as usize].poll_output() {
            self.offer(core, self.wiring.link_of(switch, output));
        }
    }

    fn enter_switch<O: Observer>(&mut self, core: &mut Core<Event, O>, switch: u32, input: u16, line: Line) {
        let hash = flow_hash(u32::from(line.src) << 16 | u32::from(line.dst));
        let port = self.topology.route_at(switch, u32::from(line.dst), hash, core.now());
        let at = &mut self.switches[switch as usize];
        if line.class.has_data() {
            let ahead = u64::from(at.queued(input, line.class));
            core.queued(port, ahead * LINE_BYTES);
        }
        at.handle_line(input, self.wiring.output(switch, port), line);
    }

    fn enter_node<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, node: u16, line: Line) {
        if self.nodes[usize::from(node)].handle_line(line) {
            self.freed.push((link, line.class));
        }
        if is_data(&line) {
            let id = MessageId(line.message);
            let message = *core.message(id);
            let progress = &mut self.progress[id.index()];
            core.arrived(line_payload(&message, progress.arrived + progress.dropped));
            progress.arrived += 1;
            if progress.arrived == lines(&message) {
                core.complete(id);
            }
        }
    }

    /// Counts a line that leaves its node.
    fn count_sent<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, place: usize) {
        let line = self.links[link as usize].wire[place].1;
        if !is_data(&line) {
            return;
        }
        let message = *core.message(MessageId(line.message));
        let progress = &mut self.progress[line.message as usize];
        if !std::mem::replace(&mut progress.asked, true) {
            // The request has arrived, if there was one.
            core.arrived(u64::from(message.request));
        }
        core.sent(line_payload(&message, progress.sent));
        progress.sent += 1;
    }
}

/// Describes a line to an observer.
fn looks(line: &Line) -> ObservedPacket {
    let kind = match (line.class, line.fetches) {
        (Class::Req, _) | (Class::RwD, true) => PacketKind::Request,
        (Class::RwD, false) | (Class::Drs, _) => PacketKind::Data,
        (Class::Ndr, _) => PacketKind::Ack,
    };
    ObservedPacket::new(kind, u32::from(line.src), u32::from(line.dst))
}

/// Returns whether a line carries data of its message.
fn is_data(line: &Line) -> bool {
    match line.class {
        Class::Drs => true,
        Class::RwD => !line.fetches,
        Class::Req | Class::Ndr => false,
    }
}

fn lines(message: &Message) -> u32 {
    u32::try_from(message.bytes.div_ceil(LINE_BYTES)).expect("a message below 256 GiB")
}

/// Returns the bytes of the message in its line of this number.
fn line_payload(message: &Message, number: u32) -> u64 {
    (message.bytes - u64::from(number) * LINE_BYTES).min(LINE_BYTES)
}

impl Registered for Cxl {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "cxl",
        about: "credit flow control, hop by hop",
        no_shared_buffer: Some("credits of `cxl` are for the buffer of one link each"),
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { port: 600.0, pair: 0.5, open: 30.0, overhead: 6.0, ..Cost::NONE };
    type Params = Params;

    fn build(site: &Site, params: &Params) -> Result<Cxl, SetupError> {
        Cxl::new(site.network, params)
    }
}

impl Fabric for Cxl {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        core.sent(u64::from(message.request));
        self.progress.push(Progress::default());
        debug_assert_eq!(self.progress.len(), id.index() + 1, "messages are submitted in order");
        // Credits are all that can keep the lines from leaving, except lines of other messages.
        core.waits(id, || Wait::Credit);
        let class = if message.kind == Kind::Read { Class::Req } else { Class::RwD };
        let src = message.src as u16;
        self.nodes[usize::from(src)].submit(Burst {
            message: id.0,
            dst: message.dst as u16,
            lines: lines(&message),
            class,
            fetches: message.kind == Kind::Rmw,
        });
        self.offer(core, u32::from(src));
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Fill(link) => {
                let Link { wake_at, sender, .. } = &mut self.links[link as usize];
                if *wake_at == core.now() {
                    *wake_at = Time::MAX;
                    let sender = *sender;
                    self.offer(core, link);
                    if let Sender::Output { switch, .. } = sender {
                        self.offer_outputs(core, switch);
                    }
                }
            }
            Event::Arrive(link) => self.arrive(core, link),
        }
    }

    /// Returns the completion time alone: exact while credits and window cover the round trips they span (as the
    /// defaults do at rack distances up to 300 Gbps, and always for 4 KiB), and a lower bound beyond.
    fn unloaded(&self, message: &Message) -> Time {
        self.alone.completion(message, lines(message))
    }
}
