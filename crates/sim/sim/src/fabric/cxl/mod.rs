//! `cxl`: cache lines over credited links and input-buffered switches (CXL.mem; EDM §4.3).
//!
//! Any topology is possible, and each link carries flits in the two directions. A message is cut into lines of 64 B. Each line is a request
//! and an answer of the link layer: see [`unrack_protocol::cxl`]. A read or read-modify-write is complete when all its data is at `src`; a
//! write or flow is complete when all its data is at `dst`. A line always takes 64 B, even if the message needs fewer of them. All lines
//! between two nodes take the same path.
//!
//! Networks of several switches cannot deadlock either. A line goes up and then down, so that no two queues of a class wait for each other,
//! and the node that sent a request always accepts the answer, so that answers drain.
//!
//! A link has one event at the start of each flit while it has something to send, and one at the end of each flit that completes a message.
//! Credits return without events: each credit has the time from which it is valid, and only a sender that waits for a credit is woken. A
//! page read over one switch takes some 350 events of about 110 ns each: a sixth of this time is spent in the event queue, and the rest is
//! spent evenly in the steps below. With a [`run`](Params::run) of 16 lines, a page read takes some 35 events. A variant with times instead
//! of events for arrivals was tried: it saves two events of five, but keeping the arrivals in order costs as much as it saves.
//!
//! Lines that travel together ([`Params::run`]) share their events: one at the start of the run, one where its last flit begins if another
//! message can share or follow that flit, and one at the other end when the first line has arrived. From then on, the next link forwards
//! the run, but it forwards the last line no sooner than that line has arrived and has a credit. On a faster link, a run occupies only the
//! flits of its lines, although these lines come slowly; other messages may be sent between them, which the model does not account for. A
//! run waits until it has credits for all its lines, where credits that are known to come back in time count too. If it were sent in pieces
//! instead, the pieces would never be joined again, and nodes with pieces would get less of a link than nodes with whole runs.
//!
//! Faults: a flit that is corrupted, or that meets a link that is down, is retransmitted together with all flits after it ([`retry`]). A
//! line whose link never comes back is answered with an error at once, and its message is given up.
//!
//! Departure: a credit returns one flit time and one propagation after the buffer became free, and takes no time on the link, because
//! credits travel in headers or in flits that would otherwise be idle. Departure: [`Params::hop`] is used instead of the scenario's switch
//! latency.

mod feed;
mod link;
mod retry;
#[cfg(test)]
mod tests;
mod unloaded;
mod wiring;

use self::feed::{Freed, FromNode, FromSwitch, Onto};
use self::link::{Link, Receiver, Sender};
use self::unloaded::LoneMessage;
use self::wiring::CxlWiring;
use super::single_message::Lone;
use super::stream::flow_hash;
use crate::acted::unless_acted;
use crate::contract::Registered;
use crate::cost::Cost;
use crate::site::FabricSite;
use std::ops::Range;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Core, Hop, Mechanism, ObservedPacket, Observer, PacketKind, Tied, WaitReason};
use unrack_engine::network::Network;
use unrack_engine::run::Run;
use unrack_engine::topology::Topology;
use unrack_engine::{Fabric, Largest};
use unrack_protocol::cxl::{Burst, ClassSet, Flit, LINE_BYTES, Line, MessageClass, Node, Params, Switch};
use unrack_protocol::segments::MOST_SEGMENTS;
use unrack_rack::{Profile, Protocol};
use unrack_units::{Bytes, Time, Warning};
use unrack_workload::{Kind, Message, MessageId};

/// CXL on a network.
pub struct Cxl {
    alone: LoneMessage,
    /// Completion times of messages that are alone, as far as they were simulated.
    lone: Lone,
    topology: Topology,
    wiring: CxlWiring,
    nodes: Vec<Node>,
    switches: Vec<Switch>,
    /// Links from nodes to their switches, by node, followed by the links from switch ports, by port.
    links: Vec<Link>,
    /// Maximum number of lines that travel together.
    run: u32,
    /// Progress of each message, by id.
    progress: Vec<MessageProgress>,
    /// Buffers freed by the flit that is being filled, or by arrivals.
    freed: Vec<Freed>,
}

impl Tied for Event {}

/// Events of [`Cxl`]. Each event names the link concerned by its number, or the message.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// A flit may start on this link.
    Fill(u32),
    /// Messages have arrived at the end of this link.
    Arrive(u32),
    /// The last run of this message has arrived completely.
    Complete(MessageId),
}

/// Progress of one message, in lines of data.
#[derive(Debug, Clone, Copy, Default)]
struct MessageProgress {
    sent: u32,
    arrived: u32,
    dropped: u32,
    /// Time at which all runs that have started to arrive have arrived completely.
    last: Time,
    /// Whether the request has arrived, or was lost.
    asked: bool,
}

impl Cxl {
    /// Creates the nodes, switches and links of a network.
    ///
    /// # Errors
    /// If the network has too many nodes, `credits`, `outstanding` or `transfers` is 0, or the credits are less than a cache line.
    pub fn new(network: &Network, params: &Params) -> Result<Cxl, SetupError> {
        check(network, params)?;
        Ok(Cxl::with_run(network, params, longest_run(&network.topology, params)))
    }

    /// Creates the nodes, switches and links of a checked network. At most `run` lines travel together.
    fn with_run(network: &Network, params: &Params, run: u32) -> Cxl {
        let topology = &network.topology;
        let (wiring, buffers) = (CxlWiring::new(topology), params.buffers());
        Cxl {
            alone: LoneMessage::new(network, params),
            lone: Lone::default(),
            nodes: (0..topology.nodes() as u16).map(|id| Node::new(id, params, run)).collect(),
            switches: wiring.sizes().map(|ports| Switch::new(ports, buffers, params.blocking)).collect(),
            links: wiring.links(topology, params, run),
            run,
            wiring,
            topology: topology.clone(),
            progress: Vec::new(),
            freed: Vec::new(),
        }
    }
}

impl Cxl {
    /// Returns the simulated completion time of a message that is alone.
    fn simulated(&self, message: &Message) -> Time {
        let (network, message) = self.alone.smallest(message);
        let afresh = || Cxl::with_run(&network, self.alone.params(), self.run);
        self.lone.completion(&network, &message, afresh)
    }
}

fn check(network: &Network, params: &Params) -> Result<(), SetupError> {
    if network.nodes() > MAX_NODES {
        return Err(SetupError::new("network.topology", "has at most 4096 nodes for cxl", network.nodes()));
    }
    if params.credits == 0 {
        return Err(SetupError::new("fabric.credits", "is at least 1", 0));
    }
    if params.fewest_buffers() == 0 {
        let unit = params.credit_unit.unwrap_or_default();
        return Err(SetupError::new("fabric.credit_unit", "makes 64B with the credits at least", unit));
    }
    if params.transfers == 0 {
        return Err(SetupError::new("fabric.transfers", "is at least 1", 0));
    }
    if !params.blocking && network.nodes() > MOST_UNBLOCKED {
        let rule = "is true in a network of more than 1024 nodes, because a switch would need a queue for each pair of ports";
        return Err(SetupError::new("fabric.blocking", rule, params.blocking));
    }
    if params.outstanding == 0 {
        return Err(SetupError::new("fabric.outstanding", "is at least 1", 0));
    }
    Ok(())
}

/// Returns the maximum number of lines that travel together on a network.
fn longest_run(topology: &Topology, params: &Params) -> u32 {
    if topology.faults().is_some() || !paces_apart(topology, params) { 1 } else { params.longest_run() }
}

/// Returns whether the last line of a run determines when the whole run can be forwarded by the next link. This holds if links are equally
/// fast, or if a faster link is at least twice as fast, so that each line leaves before the next one arrives.
fn paces_apart(topology: &Topology, params: &Params) -> bool {
    let flit = |link: unrack_engine::topology::Link| link.pace.transmit(params.flit.bytes().get());
    let ports = (0..topology.ports()).map(|port| flit(topology.link(port)));
    let mut flits: Vec<Time> = ports.chain([flit(topology.host_link())]).collect();
    flits.sort_unstable();
    flits.dedup();
    params.flit == Flit::B256 || flits.windows(2).all(|two| two[0] * 2 <= two[1])
}

/// CXL 3.x §4.2: a flit is cut into slots of 16 B.
const SLOT_BYTES: u32 = 16;
/// Maximum number of nodes without head-of-line blocking: a switch then has four queues for each pair of ports.
const MOST_UNBLOCKED: u32 = 1024;
/// CXL 3.x §7.7: port-based routing addresses 4096 edge ports.
const MAX_NODES: u32 = 4096;

/// Flits and credits.
impl Cxl {
    /// Sends on `link`, because a line has come that may be sent: now if the link is free, otherwise at the end of the current flit.
    fn offer<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let free_at = self.links[link as usize].free_at;
        match free_at <= core.now() {
            true => self.fill(core, link),
            false => self.wake(core, link, free_at),
        }
    }

    /// Schedules a flit on `link` at time `at`, unless an earlier one is scheduled.
    fn wake<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, at: Time) {
        let wake_at = &mut self.links[link as usize].wake_at;
        if at < *wake_at {
            *wake_at = at;
            core.schedule(at, Event::Fill(link));
        }
    }

    /// Returns the classes of lines that wait to be sent on `link`, whether or not they have credits.
    fn waiting(&self, link: u32) -> ClassSet {
        match self.links[link as usize].sender {
            Sender::Node(node) => self.nodes[usize::from(node)].waiting(),
            Sender::Output { switch, port } => self.switches[switch as usize].waiting(port),
        }
    }

    /// Starts a flit on `link` if there is anything to send.
    fn fill<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32) {
        let now = core.now();
        let Cxl { links, nodes, switches, freed, wiring, .. } = self;
        let Link { transmitter, wire, began, sender, flit, latency, id, .. } = &mut links[link as usize];
        let (id, sender, before, flit) = (*id, *sender, wire.len(), *flit);
        let resumed = transmitter.midway().filter(|line| line.count == 1).map(|_| *began);
        let onto = Onto { wire, now, flit, latency: *latency };
        let next = match sender {
            Sender::Node(node) => {
                let receives = wiring.to_node(node);
                let node = &mut nodes[usize::from(node)];
                transmitter.fill(now, &mut FromNode { node, receives, frees: None, onto, freed })
            }
            Sender::Output { switch, port } => {
                let feeders = wiring.feeders(switch);
                let switch = &mut switches[switch as usize];
                transmitter.fill(now, &mut FromSwitch { switch, output: port, feeders, onto, freed })
            }
        };
        let completed = before..self.links[link as usize].wire.len();
        let mut repeated = Time::ZERO;
        if let Some(next) = next {
            let end = self.through(link, now, next);
            core.met_fault(end != Some(next));
            repeated = end.map_or(Time::ZERO, |end| end - next);
            core.occupied(id, next - now + repeated);
            self.links[link as usize].free_at = end.unwrap_or(next);
            if let (Sender::Node(_), true) = (sender, !completed.is_empty()) {
                completed.clone().for_each(|place| self.count_sent(core, link, place));
            }
            match end {
                Some(_) => self.fly(core, link, completed.clone(), (resumed, repeated)),
                None => self.lose(core, link, completed.clone()),
            }
        }
        let place = &mut self.links[link as usize];
        if resumed.is_none() || !completed.is_empty() {
            (place.began, place.repeated) = (now, repeated);
        } else {
            place.repeated += repeated;
        }
        if next.is_none() && !self.waiting(link).is_empty() {
            core.acted(Mechanism::Credit);
        }
        self.return_credits(core);
        self.continue_after(core, link, next.is_some());
    }

    /// Schedules the arrival of the lines that a flit completes, and of the run that begins in the flit. The two times are the start of the
    /// first of these lines, if it began in an earlier flit, and the time that the link spent on repeating the flit.
    fn fly<O: Observer>(
        &mut self,
        core: &mut Core<Event, O>,
        link: u32,
        completed: Range<usize>,
        (resumed, repeated): (Option<Time>, Time),
    ) {
        let Link { wire, id, repeated: before_now, .. } = &mut self.links[link as usize];
        let (id, all_repeated) = (*id, repeated + *before_now);
        let (now, before) = (core.now(), completed.start);
        if repeated > Time::ZERO {
            wire.range_mut(completed.clone()).for_each(|(at, _)| *at += repeated);
        }
        let mut due = Time::ZERO;
        for place in completed {
            let (first, repeated) = match resumed {
                Some(began) if place == before => (began, all_repeated),
                _ => (now, repeated),
            };
            // The time on the link was already counted with the flit.
            core.hop(id, Time::ZERO, || self.hop(link, place, first, repeated));
            let (arrival, _) = self.links[link as usize].wire[place];
            if arrival != due {
                core.schedule(arrival, Event::Arrive(link));
            }
            due = arrival;
        }
    }

    /// Describes a line that a flit completes, or a run that begins in the flit. `first`: the time at which it begins. `repeated`: the time
    /// that the link spent on repeating it.
    fn hop(&self, link: u32, place: usize, first: Time, repeated: Time) -> Hop {
        let Link { wire, id, propagation, latency, receiver, .. } = &self.links[link as usize];
        let (first_onward, line) = wire[place];
        // A node needs all data of a run, but a switch forwards the lines that have come.
        let whole = matches!(receiver, Receiver::Node(_)) && is_data(&line);
        let onward = if whole { first_onward.max(line.last) } else { first_onward };
        let count = u32::from(line.count);
        let payload = if line.class.has_data() { LINE_BYTES as u32 } else { 0 };
        Hop {
            link: *id,
            message: Some(MessageId(line.message)),
            packet: looks(&line),
            wire: line.class.slots() * SLOT_BYTES * count,
            payload: payload * count,
            ready: first,
            first,
            last: onward.max(line.last) - *latency,
            shares: true,
            repeated,
            serial: onward - *latency - first,
            propagation: *propagation,
            onward,
        }
    }

    /// Schedules the next attempt: when the link becomes free if the flit carried something, otherwise when the next credit comes.
    fn continue_after<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, carries: bool) {
        let Link { transmitter, free_at, .. } = &self.links[link as usize];
        let wake_at = match (transmitter.midway(), self.waiting(link).is_empty()) {
            (None, true) => None,
            _ if carries => Some(*free_at),
            _ if self.run == 1 => transmitter.next_credit(ClassSet::ALL),
            _ => transmitter.next_credit(self.waiting(link)),
        };
        if let Some(at) = wake_at {
            self.wake(core, link, at);
        }
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

    /// Offers the lines that have come to the head of a queue to their outputs, until no queue has a new first line.
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
            self.freed.push(Freed::arrived(link, &line, core.now()));
        }
        if is_data(&line) {
            let id = MessageId(line.message);
            let message = *core.message(id);
            let progress = &mut self.progress[id.index()];
            core.arrived(payload(&message, progress.arrived + progress.dropped, &line));
            progress.arrived += u32::from(line.count);
            progress.last = progress.last.max(line.last);
            if progress.arrived == lines(&message) {
                match progress.last > core.now() {
                    true => core.schedule(progress.last, Event::Complete(id)),
                    false => core.complete(id),
                }
            }
        }
    }

    /// Counts a line of data that leaves its node.
    fn count_sent<O: Observer>(&mut self, core: &mut Core<Event, O>, link: u32, place: usize) {
        let line = self.links[link as usize].wire[place].1;
        if !is_data(&line) {
            return;
        }
        let message = *core.message(MessageId(line.message));
        let progress = &mut self.progress[line.message as usize];
        if !std::mem::replace(&mut progress.asked, true) {
            // If there was a request, it has arrived.
            core.arrived(u64::from(message.request));
        }
        core.sent(payload(&message, progress.sent, &line));
        progress.sent += u32::from(line.count);
    }
}

/// Describes a line to an observer.
fn looks(line: &Line) -> ObservedPacket {
    let kind = match (line.class, line.fetches) {
        (MessageClass::Req, _) | (MessageClass::RwD, true) => PacketKind::Request,
        (MessageClass::RwD, false) | (MessageClass::Drs, _) => PacketKind::Data,
        (MessageClass::Ndr, _) => PacketKind::Ack,
    };
    ObservedPacket::new(kind, u32::from(line.src), u32::from(line.dst))
}

/// Returns whether a line carries data of its message.
fn is_data(line: &Line) -> bool {
    match line.class {
        MessageClass::Drs => true,
        MessageClass::RwD => !line.fetches,
        MessageClass::Req | MessageClass::Ndr => false,
    }
}

fn lines(message: &Message) -> u32 {
    u32::try_from(message.bytes.div_ceil(LINE_BYTES)).expect("a message below 256 GiB")
}

/// Returns the number of the message's bytes in a line or run that follows `before` lines.
fn payload(message: &Message, before: u32, line: &Line) -> u64 {
    (message.bytes - u64::from(before) * LINE_BYTES).min(LINE_BYTES * u64::from(line.count))
}

impl Registered for Cxl {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "cxl",
        about: "credit flow control, hop by hop",
        no_shared_buffer: Some("credits of `cxl` are for the buffer of one link each"),
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost { node: 3880.0, port: 185.0, pair: 0.5, open: 30.0, overhead: 6.0, ..Cost::NONE };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Cxl, SetupError> {
        Cxl::new(site.network, params)
    }

    fn never_acted(_params: &Params, run: &Run) -> Vec<Warning> {
        let text = "cxl never ran out of credits: no link was idle for want of one, so that `fabric.credits` had no effect";
        unless_acted(run, Mechanism::Credit, "credits", text)
    }
}

impl Fabric for Cxl {
    type Event = Event;

    fn submit<O: Observer>(&mut self, core: &mut Core<Event, O>, id: MessageId) {
        let message = *core.message(id);
        core.sent(u64::from(message.request));
        self.progress.push(MessageProgress::default());
        debug_assert_eq!(self.progress.len(), id.index() + 1, "messages are submitted in order");
        // Only credits and the lines of other messages can keep the lines of this message from leaving.
        core.waits(id, || WaitReason::Credit);
        let class = if message.kind == Kind::Read { MessageClass::Req } else { MessageClass::RwD };
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
            Event::Complete(id) => core.complete(id),
        }
    }

    fn largest(&self) -> Option<Largest> {
        let bytes = Bytes::new(LINE_BYTES * u64::from(MOST_SEGMENTS));
        Some(Largest { bytes, why: "2^31 lines: cut it into several messages".into() })
    }

    /// Returns the completion time of a message that is alone. It is computed for a message that needs no credit twice, such as one of 4
    /// KiB with the default credits. A longer message is simulated. If it is longer than 4 MiB, as many whole periods as possible are left
    /// out of the simulation, because each of them takes as long as the one before.
    fn unloaded(&self, message: &Message) -> Time {
        let lines = lines(message);
        if let Some(time) = self.alone.completion(message, lines) {
            return time;
        }
        let period = self.alone.period(self.run);
        let periods = LoneMessage::periods_beyond(lines, period);
        let without = |periods: u32| {
            let bytes = message.bytes - u64::from(periods) * u64::from(period) * LINE_BYTES;
            self.simulated(&Message { bytes, ..*message })
        };
        match periods {
            0 | 1 => without(0),
            several => {
                let (shorter, longer) = (without(several), without(several - 1));
                shorter + (longer - shorter) * u64::from(several)
            }
        }
    }
}
