//! `cxl`: cache lines over credited links and an input-buffered switch (CXL.mem; EDM §4.3).
//!
//! The star of the scenario, each link carrying flits both ways. A message is cut into lines of 64 B,
//! each a request and an answer of the link layer: see [`unrack_protocol::cxl`]. A read or rmw is
//! complete when all its data is at `src`, a write or flow when all its data is at `dst`. A line
//! takes its whole 64 B however few of them the message needs.
//!
//! A link has an event at the start of each flit while it has something to send, and one at the end
//! of each flit that completes a message. Credits come back without events: they are dated, and only
//! a sender that waits for one is woken.
//!
//! Departure: credits go back one flit time and one propagation after the buffer came free, and take
//! nothing from the link: they travel in headers, or in flits that would be idle.
//! Departure: the switch's own latency of the scenario is not used, but [`Params::hop`].

mod alone;
mod link;
#[cfg(test)]
mod tests;

use self::alone::Alone;
use self::link::Link;
use super::Fabric;
use crate::engine::{Core, Hop, LinkId, Observer, Packet, PacketKind, Wait};
use crate::error::SetupError;
use crate::network::Star;
use std::collections::VecDeque;
use unrack_protocol::cxl::{Burst, Class, ClassSet, Feed, LINE_BYTES, Line, Node, Params, Switch};
use unrack_units::Time;
use unrack_workload::{Kind, Message, MessageId};

/// CXL on a star.
pub struct Cxl {
    alone: Alone,
    propagation: Time,
    hop: Time,
    port: Time,
    /// Time of one flit on a link.
    flit: Time,
    nodes: Vec<Node>,
    switch: Switch,
    /// Of each node: towards the switch, and from it.
    links: Vec<Link>,
    /// Of each message.
    progress: Vec<Progress>,
    /// Buffers that the flit being filled frees: at the end of which link, of which class.
    freed: Vec<(usize, Class)>,
}

#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A flit may start on a link.
    Fill(u32),
    /// Messages have come to the end of a link.
    Arrive(u32),
}

/// Lines of data of a message.
#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    sent: u32,
    arrived: u32,
}

/// The two links of a node. Even numbers lead to the switch.
fn uplink(node: u16) -> usize {
    usize::from(node) * 2
}
fn downlink(node: u16) -> usize {
    usize::from(node) * 2 + 1
}

impl Cxl {
    pub fn new(star: &Star, params: &Params) -> Result<Cxl, SetupError> {
        check(star, params)?;
        let nodes = star.nodes as u16;
        let flit = star.rate.transmit(params.flit.bytes());
        let links = (0..2 * nodes).map(|_| Link::new(params)).collect();
        Ok(Cxl {
            alone: Alone::new(star, params, flit),
            propagation: star.propagation,
            hop: params.hop,
            port: params.port,
            flit,
            nodes: (0..nodes).map(|id| Node::new(id, params.outstanding)).collect(),
            switch: Switch::new(nodes, params.credits),
            links,
            progress: Vec::new(),
            freed: Vec::new(),
        })
    }

    /// From the end of a flit on a link until what it carries can be used at its end.
    fn latency(&self, link: usize) -> Time {
        let at_switch = if link.is_multiple_of(2) { self.hop } else { Time::ZERO };
        self.propagation + self.port + at_switch
    }
}

fn check(star: &Star, params: &Params) -> Result<(), SetupError> {
    if star.nodes > MAX_NODES {
        return Err(SetupError::new("network.topology.nodes", "is at most 4096 for cxl", star.nodes));
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
    /// Something came that `link` may be able to send.
    fn offer<O: Observer>(&mut self, core: &mut Core<Event, O>, link: usize) {
        match self.links[link].free_at <= core.now() {
            true => self.fill(core, link),
            false => self.wake(core, link, self.links[link].free_at),
        }
    }

    /// Has a flit started at `at` unless one is due before.
    fn wake<O: Observer>(&mut self, core: &mut Core<Event, O>, link: usize, at: Time) {
        if at < self.links[link].wake_at {
            self.links[link].wake_at = at;
            core.schedule(at, Event::Fill(link as u32));
        }
    }

    /// What waits to be sent on `link`, credits or not.
    fn waiting(&self, link: usize) -> ClassSet {
        match link.is_multiple_of(2) {
            true => self.nodes[link / 2].waiting(),
            false => self.switch.waiting((link / 2) as u16),
        }
    }

    /// Starts a flit on `link` if there is anything to put in.
    fn fill<O: Observer>(&mut self, core: &mut Core<Event, O>, link: usize) {
        let (now, end) = (core.now(), core.now() + self.flit);
        let arrival = end + self.latency(link);
        let Cxl { links, nodes, switch, freed, .. } = self;
        let Link { transmitter, wire, began, .. } = &mut links[link];
        let resumed = transmitter.is_midway().then_some(*began);
        let (node, before) = ((link / 2) as u16, wire.len());
        let sent = Sent { wire, freed, arrival };
        let carries = match link.is_multiple_of(2) {
            true => transmitter.fill(now, &mut FromNode { node: &mut nodes[link / 2], sent }),
            false => transmitter.fill(now, &mut FromSwitch { switch, output: node, sent }),
        };
        let completed = before..self.links[link].wire.len();
        if carries {
            self.links[link].free_at = end;
        }
        if resumed.is_none() || !completed.is_empty() {
            self.links[link].began = now;
        }
        for place in completed.clone() {
            let first = resumed.filter(|_| place == before).unwrap_or(now);
            core.hop(|| self.hop(link, place, [first, end, arrival]));
        }
        if !completed.is_empty() {
            core.schedule(arrival, Event::Arrive(link as u32));
        }
        if link.is_multiple_of(2) {
            completed.for_each(|place| self.count_sent(core, self.links[link].wire[place].1));
        }
        self.return_credits(core);
        self.continue_after(core, link, carries);
    }

    /// A line that a flit completes; when it began, ends, and can go on.
    fn hop(&self, link: usize, place: usize, [first, last, onward]: [Time; 3]) -> Hop {
        let line = self.links[link].wire[place].1;
        let kind = match (line.class, line.fetches) {
            (Class::Req, _) | (Class::RwD, true) => PacketKind::Request,
            (Class::RwD, false) | (Class::Drs, _) => PacketKind::Data,
            (Class::Ndr, _) => PacketKind::Ack,
        };
        let (node, payload) = ((link / 2) as u32, if line.class.has_data() { LINE_BYTES as u32 } else { 0 });
        Hop {
            link: if link.is_multiple_of(2) { LinkId::Host(node) } else { LinkId::Port(node) },
            message: Some(MessageId(line.message)),
            packet: Packet::new(kind, u32::from(line.src), u32::from(line.dst)),
            wire: line.class.slots() * SLOT_BYTES,
            payload,
            ready: first,
            first,
            last,
            shares: true,
            serial: last - first,
            propagation: self.propagation,
            onward,
        }
    }

    /// When to try again.
    fn continue_after<O: Observer>(&mut self, core: &mut Core<Event, O>, link: usize, carries: bool) {
        let Link { transmitter, free_at, .. } = &self.links[link];
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
        while let Some((link, class)) = self.freed.pop() {
            let at = core.now() + self.flit + self.propagation;
            self.links[link].transmitter.handle_credit(at, class);
            if self.links[link].wake_at == Time::MAX && !self.waiting(link).is_empty() {
                let at = at.max(self.links[link].free_at);
                self.wake(core, link, at);
            }
        }
    }
}

/// What a flit completes and which buffers that frees.
struct Sent<'a> {
    wire: &'a mut VecDeque<(Time, Line)>,
    freed: &'a mut Vec<(usize, Class)>,
    arrival: Time,
}

struct FromNode<'a> {
    node: &'a mut Node,
    sent: Sent<'a>,
}

impl Feed for FromNode<'_> {
    fn take(&mut self, allowed: ClassSet) -> Option<Line> {
        let taken = self.node.take(allowed)?;
        self.sent.freed.extend(taken.frees.map(|class| (downlink(taken.line.src), class)));
        Some(taken.line)
    }
    fn complete(&mut self, line: Line) {
        self.sent.wire.push_back((self.sent.arrival, line));
    }
}

struct FromSwitch<'a> {
    switch: &'a mut Switch,
    output: u16,
    sent: Sent<'a>,
}

impl Feed for FromSwitch<'_> {
    fn take(&mut self, allowed: ClassSet) -> Option<Line> {
        self.switch.take(self.output, allowed)
    }
    fn complete(&mut self, line: Line) {
        let (input, class) = self.switch.finish(self.output);
        self.sent.freed.push((uplink(input), class));
        self.sent.wire.push_back((self.sent.arrival, line));
    }
}

/// Messages of the link layer.
impl Cxl {
    fn arrive<O: Observer>(&mut self, core: &mut Core<Event, O>, link: usize) {
        let node = (link / 2) as u16;
        while let Some(line) = self.links[link].pop_arrived(core.now()) {
            match link.is_multiple_of(2) {
                true => self.enter_switch(core, node, line),
                false => self.enter_node(core, node, line),
            }
        }
        if !link.is_multiple_of(2) {
            self.return_credits(core);
            self.offer(core, uplink(node));
        }
        self.offer_outputs(core);
    }

    /// Offers to every output what has come to the head of a queue, until nothing more does.
    fn offer_outputs<O: Observer>(&mut self, core: &mut Core<Event, O>) {
        while let Some(output) = self.switch.poll_output() {
            self.offer(core, downlink(output));
        }
    }

    fn enter_switch<O: Observer>(&mut self, core: &mut Core<Event, O>, input: u16, line: Line) {
        if line.class.has_data() {
            let ahead = u64::from(self.switch.queued(input, line.class));
            core.queued(u32::from(line.dst), ahead * LINE_BYTES);
        }
        self.switch.handle_line(input, line);
    }

    fn enter_node<O: Observer>(&mut self, core: &mut Core<Event, O>, node: u16, line: Line) {
        if self.nodes[usize::from(node)].handle_line(line) {
            self.freed.push((downlink(node), line.class));
        }
        if is_data(&line) {
            let id = MessageId(line.message);
            let message = *core.message(id);
            let arrived = &mut self.progress[id.index()].arrived;
            core.arrived(line_payload(&message, *arrived));
            *arrived += 1;
            if *arrived == lines(&message) {
                core.complete(id);
            }
        }
    }

    /// A line left its node.
    fn count_sent<O: Observer>(&mut self, core: &mut Core<Event, O>, line: Line) {
        if !is_data(&line) {
            return;
        }
        let message = *core.message(MessageId(line.message));
        let sent = &mut self.progress[line.message as usize].sent;
        if *sent == 0 {
            // What asked for it has come, if anything had to.
            core.arrived(u64::from(message.request));
        }
        core.sent(line_payload(&message, *sent));
        *sent += 1;
    }
}

/// Whether a line carries bytes of its message's data.
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

/// Bytes of the message in its line of this number.
fn line_payload(message: &Message, number: u32) -> u64 {
    (message.bytes - u64::from(number) * LINE_BYTES).min(LINE_BYTES)
}

impl Fabric for Cxl {
    type Event = Event;

    fn name(&self) -> &'static str {
        "cxl"
    }

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        core.sent(u64::from(message.request));
        self.progress.push(Progress::default());
        debug_assert_eq!(self.progress.len(), id.index() + 1, "messages are submitted in order");
        // All that can keep its lines from leaving, but for lines of others.
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
        self.offer(core, uplink(src));
    }

    fn handle<O: Observer>(&mut self, core: &mut Core<Event, O>, event: Event) {
        match event {
            Event::Fill(link) => {
                let link = link as usize;
                if self.links[link].wake_at == core.now() {
                    self.links[link].wake_at = Time::MAX;
                    self.offer(core, link);
                    self.offer_outputs(core);
                }
            }
            Event::Arrive(link) => self.arrive(core, link as usize),
        }
    }

    /// Exact while credits and window cover the round trips they span (as the defaults do on rack
    /// distances up to 300 Gbps, and always for 4 KiB); a lower bound beyond.
    fn unloaded(&self, message: &Message) -> Time {
        self.alone.completion(message.kind, u64::from(lines(message)))
    }
}
