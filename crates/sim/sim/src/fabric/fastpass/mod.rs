//! `fastpass`: an arbiter assigns a timeslot to every packet (Perry et al., SIGCOMM 2014).
//!
//! The arbiter is a separate server on a separate link. It is as far from every node as nodes of different racks are from each other.
//! Requests to the arbiter and its answers cross that link in FIFO order. The demands that a node collects while its link is busy are sent
//! in one packet, and so are the slots that a batch assigns to a node.
//!
//! A slot lasts as long as a full packet and the control packets that may accompany it: a packet to the arbiter and an acknowledgement.
//! Without room for these, a busy node would fall behind its slots, and packets would queue again.
//!
//! A batch begins when there is demand and the slots of the last batch are over. The arbiter informs every node that gets slots in one
//! packet; these packets are sent in order of node number. The first slot follows the slots of the last batch, and begins no sooner than
//! the last of these packets can have arrived. A node that learns of a slot too late uses it as soon as it can.
//!
//! Messages of one segment to the same destination share a slot as far as they fit: see [`packing`].

mod arbiter;
mod packing;

use self::arbiter::{Server, SlotsPacket};
use self::packing::{Packing, TransferName};
use super::packet::{
    self, Net, OUTSIDE, Packet, PacketNetwork, StrictPriority, Transfer, TransferSide, Transport,
    fabric_of_packets,
};
use super::slab::Slab;
use super::stream::StreamPlan;
use crate::contract::Registered;
use crate::cost::{Cost, PACKET};
use crate::site::{Ethernet, FabricSite};
use std::collections::BTreeSet;
use unrack_engine::PacketSize;
use unrack_engine::error::SetupError;
use unrack_engine::events::{Observer, PacketKind, WaitReason};
use unrack_engine::network::Network;
use unrack_protocol::fastpass::{Allocation, Demand, Params};
use unrack_protocol::segments::SegmentSet;
use unrack_protocol::silence::{LONGEST, STEADY, TimeoutCount, longer};
use unrack_rack::{Profile, Protocol};
use unrack_units::Time;
use unrack_workload::{Message, NodeId};

/// Fastpass on a network.
pub struct Fastpass {
    network: PacketNetwork<FastpassEnds>,
}

impl Fastpass {
    /// Creates the arbiter and the endpoints.
    ///
    /// # Errors
    /// If a parameter is out of range or does not fit the network.
    pub fn new(network: &Network, ethernet: &Ethernet, params: &Params) -> Result<Fastpass, SetupError> {
        let plan = StreamPlan::at_line_rate(network, ethernet)?;
        if !(1..=64).contains(&params.batch) {
            return Err(SetupError::new("fabric.batch", "is from 1 to 64", params.batch));
        }
        let server = Server::new(&plan, params);
        let timeout = params.timeout.unwrap_or(plan.round_trip() * 3 + server.patience(&plan));
        if timeout < plan.round_trip() {
            return Err(SetupError::new("fabric.timeout", "is at least the round trip", timeout));
        }
        let nodes = (0..network.nodes()).map(|_| Node::default()).collect();
        let (transfers, words) = (Vec::new(), Slab::new());
        let packs = params.packing;
        let ends = FastpassEnds { server, timeout, packs, transfers, nodes, words };
        let mut network = PacketNetwork::new(plan, ends, StrictPriority::default())?;
        network.set_outside(network.transport().server.way_up());
        Ok(Fastpass { network })
    }
}

impl Registered for Fastpass {
    const PROTOCOL: Protocol = Protocol::new(&Profile {
        name: "fastpass",
        about: "an arbiter gives every packet a timeslot",
        splits: <FastpassEnds as Transport>::SPLITS,
        ..Profile::SWITCHED
    });
    const COST: Cost = Cost {
        node: 240.0,
        port: 325.0,
        open: 420.0,
        segment: 2.0 * Cost::BIT,
        packet: 1.6 * PACKET,
        overhead: 4.0 * Cost::ETHERNET,
        ..Cost::NONE
    };
    type Params = Params;

    fn build(site: &FabricSite, params: &Params) -> Result<Fastpass, SetupError> {
        let Fastpass { network } = Fastpass::new(site.network, site.ethernet, params)?;
        Ok(Fastpass { network: network.seeded(site.seed) })
    }
}

struct FastpassEnds {
    server: Server,
    timeout: Time,
    /// Whether small messages share slots.
    packs: bool,
    transfers: Vec<FastpassPair>,
    nodes: Vec<Node>,
    /// Contents of the packets to and from the arbiter, and of reports.
    words: Slab<ArbiterContent>,
}

/// Content of a packet to or from the arbiter, or of a receiver's report.
enum ArbiterContent {
    Demands(Vec<Demand>),
    /// Timeslots, and when each begins.
    Slots(Vec<(Time, Allocation)>),
    /// Ranges of missing segments (a range does not include its end), and the number of all missing segments.
    Missing(Vec<(u32, u32)>, u32),
}

struct FastpassPair {
    /// Segments to be sent when slots come.
    wanted: SegmentSet,
    /// Number below which no segment is wanted.
    first: u32,
    /// Number of segments sent at least once.
    sent: u32,
    done: bool,
    arrived: SegmentSet,
    deadline: Time,
    /// Timeout. It doubles each time that no answer comes in this time.
    timeout: Time,
    /// Number of consecutive timeouts without progress. Progress is a segment sent for the first time, or a report of fewer missing
    /// segments.
    silence: TimeoutCount,
    /// Number of timeouts so far, and the salt of their random draws.
    draws: (u32, u32),
    /// Number of missing segments, as the receiver last reported it.
    missing: u32,
    /// Transfers of one segment that share the slot of this transfer.
    passengers: Vec<TransferName>,
}

#[derive(Default)]
struct Node {
    /// Demands of the next packet to the arbiter.
    demands: Vec<Demand>,
    slots: BTreeSet<Slot>,
    packing: Packing,
    wakes_at: Option<Time>,
}

/// Slot of a node: the time from which the node may send a segment of this transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Slot {
    at: Time,
    /// Position among the transfers that share the slot.
    place: u32,
    transfer: u32,
    serial: u32,
}

impl FastpassPair {
    /// Restarts the timeout for a packet from the arbiter or the receiver.
    fn wait(&mut self, now: Time) {
        let (ever, salt) = self.draws;
        self.deadline = now + longer(self.timeout, salt, ever);
    }

    /// Marks segments as wanted. Returns how many of them were not wanted before.
    fn want(&mut self, ranges: &[(u32, u32)]) -> u32 {
        let before = self.wanted.count();
        for segment in ranges.iter().flat_map(|(from, to)| *from..*to) {
            self.wanted.insert(segment);
            self.first = self.first.min(segment);
        }
        self.wanted.count() - before
    }

    /// Removes and returns the first wanted segment.
    fn take(&mut self) -> Option<u32> {
        let segment = self.wanted.first_present(self.first)?;
        self.wanted.remove(segment);
        self.first = segment;
        Some(segment)
    }

    /// Returns the ranges of segments that the receiver misses. The ranges span at most `most` segments, from the first missing one on.
    fn holes(&self, segments: u32, most: u32) -> Vec<(u32, u32)> {
        let mut holes = Vec::new();
        let mut from = self.arrived.first_absent(0);
        let end = segments.min(from.saturating_add(most));
        while from < end {
            let to = self.arrived.first_present(from).unwrap_or(end).min(end);
            holes.push((from, to));
            from = self.arrived.first_absent(to);
        }
        holes
    }
}

/// Header of a packet.
#[derive(Debug, Clone, Copy)]
pub enum Header {
    Segment(u32),
    Done,
    /// Asks the receiver which segments are missing.
    Probe,
    /// Reports missing segments: the first one, and an index in `Ends::words`.
    Missing(u32, u32),
    /// Marks a packet to or from the arbiter; the number is an index in `Ends::words`.
    Words(u32),
}

/// Timer events of the transport.
#[derive(Debug, Clone, Copy)]
pub enum Timer {
    /// Start of a slot of this node.
    Slot(NodeId),
    /// End of the arbiter's work on a packet; the number is an index in `Ends::words`.
    Asked(u32),
    /// Match of the next batch.
    Batch,
}

const CONTROL: u32 = 0;
const DATA: u32 = 1;

impl FastpassEnds {
    /// Asks the arbiter for `slots` slots. The transfer is kept at least as long as this demand.
    fn ask<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, slots: u32) {
        let Transfer { src, dst, serial, .. } = *net.transfer(transfer);
        self.nodes[src as usize].demands.push(Demand { src, dst, transfer, serial, slots });
        net.hold(transfer);
        net.waits(transfer, || WaitReason::Notification);
        net.wake(src);
    }

    /// Returns one packet to the arbiter with as many demands of this node as fit, or `None` if the node has no demands.
    fn ask_packet(&mut self, node: NodeId) -> Option<Packet<Header>> {
        let demands = &mut self.nodes[node as usize].demands;
        let transfer = demands.first()?.transfer;
        let batch: Vec<_> = demands.drain(..demands.len().min(self.server.most())).collect();
        let size = PacketSize { wire: self.server.wire(), payload: 0 };
        let words = self.words.insert(ArbiterContent::Demands(batch));
        Some(Packet::new(transfer, OUTSIDE, size, CONTROL, Header::Words(words)))
    }

    fn wake<O: Observer>(&mut self, net: &mut Net<Self, O>, src: NodeId) {
        let node = &mut self.nodes[src as usize];
        let Some(&Slot { at, .. }) = node.slots.first() else { return };
        if at <= net.now() {
            net.wake(src);
        } else if node.wakes_at.is_none_or(|wakes| at < wakes) {
            node.wakes_at = Some(at);
            net.schedule(at, Timer::Slot(src));
        }
    }

    fn heard<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let pair = &mut self.transfers[transfer as usize];
        pair.timeout = self.timeout;
        pair.wait(net.now());
        // The answer ends a timeout that may have been doubled.
        self.keep_alarm(net, transfer, TransferSide::Sender);
    }

    fn done<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let pair = &mut self.transfers[transfer as usize];
        if !std::mem::replace(&mut pair.done, true) {
            pair.wanted.clear();
            self.ask_for_passengers(net, transfer);
            net.close(transfer);
        }
    }

    fn reply<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, header: Header) {
        let (node, to) = (net.transfer(transfer).dst, net.transfer(transfer).src);
        net.send_first(node, Packet::new(transfer, to, net.bare(), CONTROL, header));
    }

    fn take_segment<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, number: u32) {
        let segments = net.transfer(transfer).segments;
        let pair = &mut self.transfers[transfer as usize];
        let new = pair.arrived.insert(number);
        if pair.arrived.count() == segments && (!new || net.delivered(transfer)) {
            self.reply(net, transfer, Header::Done);
        }
    }

    /// Reports the missing segments to the sender: one bit for each segment from the first missing one on, as many as a packet holds.
    fn report<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let Transfer { src, dst, segments, .. } = *net.transfer(transfer);
        let framing = &net.plan().framing;
        let most = framing.mss().get().saturating_mul(8).min(u64::from(segments)) as u32;
        let pair = &self.transfers[transfer as usize];
        let holes = pair.holes(segments, most);
        let (Some(&(from, _)), Some(&(_, to))) = (holes.first(), holes.last()) else {
            return self.reply(net, transfer, Header::Done);
        };
        let wire = framing.wire(u64::from((to - from).div_ceil(8))).get() as u32;
        let left = segments - pair.arrived.count();
        let words = self.words.insert(ArbiterContent::Missing(holes, left));
        let size = PacketSize { wire, payload: 0 };
        net.send_first(dst, Packet::new(transfer, src, size, CONTROL, Header::Missing(from, words)));
    }

    /// Asks for slots for all segments that a receiver has reported as missing.
    fn take_report<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, words: u32) {
        let ArbiterContent::Missing(holes, left) = self.take_words(words) else {
            unreachable!("a report is of missing segments");
        };
        self.heard(net, transfer);
        let pair = &mut self.transfers[transfer as usize];
        if left < std::mem::replace(&mut pair.missing, left) {
            pair.silence.end();
        }
        if !pair.done {
            match pair.want(&holes) {
                0 => {}
                slots => self.ask(net, transfer, slots),
            }
        }
    }

    /// Removes and returns the content of a packet that has arrived.
    fn take_words(&mut self, words: u32) -> ArbiterContent {
        let contents = std::mem::replace(&mut self.words[words], ArbiterContent::Demands(Vec::new()));
        self.words.release(words);
        contents
    }

    /// Matches the next batch, and sends each node its slots.
    fn batch<O: Observer>(&mut self, net: &mut Net<Self, O>) {
        let now = net.now();
        for SlotsPacket { node, slots, at } in self.server.batch(now) {
            let transfer = slots[0].1.transfer;
            let wire = self.server.wire();
            let served = slots.iter().filter(|(_, given)| given.last).map(|(_, given)| given.transfer);
            let served: Vec<u32> = served.collect();
            served.iter().for_each(|transfer| net.waits(*transfer, || WaitReason::Grant));
            let words = self.words.insert(ArbiterContent::Slots(slots));
            net.send_from_outside(
                at,
                Packet::new(transfer, node, PacketSize { wire, payload: 0 }, CONTROL, Header::Words(words)),
            );
            served.into_iter().for_each(|transfer| net.release(transfer));
        }
        if let Some(at) = self.server.next_batch(now) {
            net.schedule(at, Timer::Batch);
        }
    }
}

impl Transport for FastpassEnds {
    type Header = Header;
    type Timer = Timer;
    type Queue = StrictPriority;
    const SPRAYS: bool = true;
    const SPLITS: bool = false;
    const HEARS_OF_LOSSES: bool = true;

    fn create<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        let segments = net.transfer(transfer).segments;
        let wanted = SegmentSet::full(segments);
        let (arrived, deadline) = (SegmentSet::new(segments), net.now() + self.timeout);
        let salt = net.salt(transfer, TransferSide::Sender);
        let (first, sent, done, timeout, silence) = (0, 0, false, self.timeout, TimeoutCount::new(salt));
        let (draws, missing, passengers) = ((0, salt), segments, Vec::new());
        let pair = FastpassPair {
            wanted,
            first,
            sent,
            done,
            arrived,
            deadline,
            timeout,
            silence,
            draws,
            missing,
            passengers,
        };
        packet::put(&mut self.transfers, transfer, pair);
    }

    fn open<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32) {
        self.keep_alarm(net, transfer, TransferSide::Sender);
        if !self.shares(net, transfer) {
            self.ask(net, transfer, net.transfer(transfer).segments);
        }
    }

    fn poll<O: Observer>(&mut self, net: &mut Net<Self, O>, node: NodeId) -> Option<Packet<Header>> {
        if let Some(packet) = self.ask_packet(node) {
            return Some(packet);
        }
        loop {
            let place = &mut self.nodes[node as usize];
            let &Slot { at, transfer, serial, .. } = place.slots.first()?;
            if at > net.now() {
                self.wake(net, node);
                return None;
            }
            place.slots.pop_first();
            let pair = &mut self.transfers[transfer as usize];
            // A slot that was requested twice is left empty. Its transfer may be over, and the transfer's number may be in use by another
            // one.
            if net.transfer(transfer).serial == serial
                && !pair.done
                && let Some(segment) = pair.take()
            {
                if segment < pair.sent {
                    net.retransmitted(transfer);
                } else {
                    pair.silence.end();
                }
                pair.sent = pair.sent.max(segment + 1);
                pair.wait(net.now());
                if pair.wanted.count() == 0 {
                    net.waits(transfer, || WaitReason::Nothing);
                }
                for ((passenger, serial), place) in self.passengers(net, transfer).into_iter().zip(1..) {
                    let slot = Slot { at, place, transfer: passenger, serial };
                    self.nodes[node as usize].slots.insert(slot);
                }
                let (to, size) = (net.transfer(transfer).dst, net.segment(transfer, segment));
                return Some(Packet::new(transfer, to, size, DATA, Header::Segment(segment)));
            }
        }
    }

    fn is_ready(&self, node: NodeId) -> bool {
        let node = &self.nodes[node as usize];
        !node.demands.is_empty() || !node.slots.is_empty()
    }

    fn receive<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let transfer = packet.transfer;
        match packet.header {
            Header::Segment(number) => self.take_segment(net, transfer, number),
            Header::Done => self.done(net, transfer),
            Header::Probe => self.report(net, transfer),
            Header::Missing(_, words) => self.take_report(net, transfer, words),
            Header::Words(words) => {
                let ArbiterContent::Slots(slots) = self.take_words(words) else {
                    unreachable!("the arbiter asks for nothing");
                };
                for (at, Allocation { src, transfer, serial, .. }) in slots {
                    if net.transfer(transfer).serial == serial && !self.transfers[transfer as usize].done {
                        self.heard(net, transfer);
                        self.nodes[src as usize].slots.insert(Slot { at, place: 0, transfer, serial });
                    }
                }
                self.wake(net, packet.to);
            }
        }
    }

    /// Releases the transfers of demands that were lost on the way to the arbiter. One such packet may hold the demands of several
    /// transfers.
    fn lost<O: Observer>(&mut self, net: &mut Net<Self, O>, header: &Header) {
        let (Header::Words(words) | Header::Missing(_, words)) = *header else { return };
        match self.take_words(words) {
            ArbiterContent::Demands(demands) => {
                for Demand { transfer, .. } in demands {
                    // No segment can be sent until the transfer asks for slots again.
                    let pair = &self.transfers[transfer as usize];
                    let next = pair.wanted.first_present(pair.first);
                    net.lost(transfer, PacketKind::Notification, next.unwrap_or(pair.first));
                    net.release(transfer);
                }
            }
            ArbiterContent::Slots(slots) => {
                // The last segments of each transfer have no slot now.
                for (nth, (_, Allocation { transfer, serial, .. })) in slots.iter().enumerate() {
                    let others = slots[..nth].iter().filter(|(_, other)| other.transfer == *transfer).count();
                    let Transfer { serial: present, segments, .. } = *net.transfer(*transfer);
                    let wanted = &self.transfers[*transfer as usize].wanted;
                    let without = (0..segments).rev().filter(|segment| wanted.contains(*segment)).nth(others);
                    if present == *serial
                        && let Some(segment) = without
                    {
                        net.lost(*transfer, PacketKind::Grant, segment);
                    }
                }
            }
            ArbiterContent::Missing(..) => {}
        }
    }

    fn receive_outside<O: Observer>(&mut self, net: &mut Net<Self, O>, packet: &Packet<Header>) {
        let Header::Words(words) = packet.header else { unreachable!("only demands go to the arbiter") };
        let done = self.server.asked(
            net.now(),
            u64::from(packet.wire),
            match &self.words[words] {
                ArbiterContent::Demands(demands) => demands.len(),
                ArbiterContent::Slots(_) | ArbiterContent::Missing(..) => 0,
            },
        );
        net.schedule(done, Timer::Asked(words));
    }

    fn answered<O: Observer>(&mut self, net: &mut Net<Self, O>, request: u32) {
        self.done(net, request);
    }

    fn describe(header: &Header) -> (PacketKind, Option<u32>) {
        match *header {
            Header::Segment(number) => (PacketKind::Data, Some(number)),
            Header::Done => (PacketKind::Ack, None),
            Header::Probe | Header::Words(_) => (PacketKind::Notification, None),
            Header::Missing(from, _) => (PacketKind::Nack, Some(from)),
        }
    }

    fn handle_timer<O: Observer>(&mut self, net: &mut Net<Self, O>, timer: Timer) {
        match timer {
            Timer::Slot(node) => {
                let place = &mut self.nodes[node as usize];
                if place.wakes_at.is_some_and(|at| at <= net.now()) {
                    place.wakes_at = None;
                }
                self.wake(net, node);
            }
            Timer::Asked(words) => {
                if let ArbiterContent::Demands(demands) = self.take_words(words) {
                    for demand in demands {
                        let transfer = demand.transfer;
                        net.waits(transfer, || WaitReason::GrantTurn);
                        if !self.server.demand(demand) {
                            net.release(transfer);
                        }
                    }
                }
                if let Some(at) = self.server.first_batch(net.now()) {
                    net.schedule(at, Timer::Batch);
                }
            }
            Timer::Batch => self.batch(net),
        }
    }

    #[cfg(test)]
    fn is_empty(&self) -> bool {
        let of_node = |node: &Node| node.demands.is_empty() && node.slots.is_empty();
        self.nodes.iter().all(of_node) && self.words.used() == 0 && self.server.is_idle()
    }

    fn deadline(&self, transfer: u32, _side: TransferSide) -> Option<Time> {
        let pair = &self.transfers[transfer as usize];
        (!pair.done).then_some(pair.deadline)
    }

    fn handle_alarm<O: Observer>(&mut self, net: &mut Net<Self, O>, transfer: u32, _side: TransferSide) {
        let Transfer { src, dst, .. } = *net.transfer(transfer);
        let pair = &mut self.transfers[transfer as usize];
        // The sender had no answer, or the answers brought no progress.
        if pair.timeout >= LONGEST || pair.silence.handle_timeout(self.timeout, STEADY).is_none() {
            (pair.done, pair.deadline) = (true, Time::MAX);
            pair.wanted.clear();
            self.ask_for_passengers(net, transfer);
            return net.give_up(transfer);
        }
        pair.timeout = pair.timeout * 2;
        pair.draws.0 += 1;
        pair.wait(net.now());
        match pair.wanted.count() {
            0 => net.send_first(src, Packet::new(transfer, dst, net.bare(), CONTROL, Header::Probe)),
            wanted => self.ask(net, transfer, wanted),
        }
    }

    fn unloaded(&self, plan: &StreamPlan, message: &Message) -> Time {
        let server = &self.server;
        packet::alone::<Self>(plan, message, Some(server.slot()), |src, dst| {
            // The demand for the answer may have to wait for the end of the request's batch.
            let between = match message.kind.is_answered() && src == message.dst {
                true => {
                    let request = plan.alone(dst, src).stream(u64::from(message.request));
                    server.batch_time().saturating_sub(server.lead() + request + server.ask_time(plan))
                }
                false => Time::ZERO,
            };
            server.ask_time(plan) + between + server.lead()
        })
    }
}

fabric_of_packets!(Fastpass, Timer, Header);
