//! A node of a rack without switches: it sends flows, forwards for others, and puts together what comes to it.
//!
//! It has no clock, thread or socket: whoever drives it says what came and when, and lends it what is [`Around`] it.
//! The parts that decide are those of the simulator: rates and what is known ([`View`]), ways ([`Map`]), buckets, what a flow
//! can use, what is sent again and told again, which routings are better. Here they meet bytes: every packet is written, checked and read as [`unrack_protocol::r2c2::packet`] says,
//! whoever sent it.
//!
//! Departure from the simulator: a bucket holds what its flow may send in [`SLACK`], since a thread wakes late; and a
//! sender gives up when [`MOST_SILENCE`] time-outs in a row brought no acknowledgement.

mod arriving;
mod bridging;
mod broadcasts;
mod discovery;
mod neighbours;
mod rating;
mod selecting;
mod sending;
#[cfg(test)]
mod tests;

use self::arriving::Arriving;
use self::bridging::Bridge;
use self::sending::Sending;
use super::plan::Plan;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use unrack_protocol::r2c2::FirstRate;
use unrack_protocol::r2c2::links::{LinkStates, Neighbours};
use unrack_protocol::r2c2::map::Map;
use unrack_protocol::r2c2::news::{News, Reports};
use unrack_protocol::r2c2::packet::{Announcement, Broadcast, DATA_HEADER, Data, Hello, Kind, Route};
use unrack_protocol::r2c2::selection::Problem;
use unrack_protocol::r2c2::view::View;
use unrack_protocol::r2c2::weights::Ways;
use unrack_units::Time;
use unrack_workload::random::mix;

/// The bytes of a packet. They move with it from node to node, and are not copied.
pub type Packet = Vec<u8>;

/// A flow, by its source and the number that it has there.
pub type FlowKey = (u16, u16);

/// What a node finds around it.
pub trait Around {
    /// The rack as it is known. It is the same for all nodes, so those of a thread share it.
    fn map(&mut self) -> &mut Map;
    /// What its nodes say of links. Whoever changes it is told to [`Node::discover`].
    fn links(&mut self) -> &mut LinkStates;
    /// An empty packet to write into.
    fn empty(&mut self) -> Packet;
    /// Nobody needs this one any more.
    fn spare(&mut self, packet: Packet);
    /// When the queue of a port has room for so many bytes: `now`, if it has.
    fn room_at(&self, now: Time, port: u32, bytes: u64) -> Time;
    /// Queues a packet at a port, or gives it back if there is no room, or the link loses it.
    fn put(&mut self, now: Time, port: u32, packet: Packet) -> Result<(), Packet>;
    /// Writes what a flow of this node has from `offset` on.
    fn fill(&mut self, flow: FlowKey, offset: u64, into: &mut [u8]);
    /// The next bytes of a flow to this node.
    fn deliver(&mut self, flow: FlowKey, offset: u64, bytes: &[u8]);
    /// Has somebody look for better routings, who calls [`Node::choose`] with what is found.
    fn seek(&mut self, problem: Problem);
    /// Gives a frame to the hosts behind this gateway.
    fn to_host(&mut self, frame: &[u8]);
    /// Something that whoever asked for flows wants to know.
    fn happened(&mut self, now: Time, event: Event);
}

/// What happens to flows. `message` is what [`Node::submit`] was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// It has a number now.
    Opened { message: u32, flow: FlowKey },
    /// At its destination: all of it was delivered.
    Complete { flow: FlowKey },
    /// At its source: it is known to be there.
    Acknowledged { message: u32, retransmissions: u32 },
    /// At its source: nothing was heard of its destination for too long.
    GivenUp { message: u32, retransmissions: u32 },
}

/// Totals of a node. Bytes are payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct Counters {
    /// Packets that came and timers that ran out.
    pub events: u64,
    pub packet_hops: u64,
    /// By sources, repeated ones included.
    pub sent_bytes: u64,
    /// At destinations, repeated ones included.
    pub arrived_bytes: u64,
    /// When nothing is under way: sent = arrived + dropped.
    pub dropped_bytes: u64,
    pub dropped_packets: u64,
    /// Of those: bytes that are no packet, or none that a node of this rack would send.
    pub malformed: u64,
    /// Broadcasts that found no room, and were reported to their source.
    pub lost_broadcasts: u64,
    /// The most packets that a flow had wait for their turn.
    pub most_waiting: u64,
}

impl std::ops::AddAssign for Counters {
    fn add_assign(&mut self, other: Counters) {
        self.events += other.events;
        self.packet_hops += other.packet_hops;
        self.sent_bytes += other.sent_bytes;
        self.arrived_bytes += other.arrived_bytes;
        self.dropped_bytes += other.dropped_bytes;
        self.dropped_packets += other.dropped_packets;
        self.malformed += other.malformed;
        self.lost_broadcasts += other.lost_broadcasts;
        self.most_waiting = self.most_waiting.max(other.most_waiting);
    }
}

pub struct Node {
    plan: Arc<Plan>,
    me: u16,
    view: View,
    sending: HashMap<u16, Sending>,
    /// The number of its last flow.
    number: u16,
    arriving: Arriving,
    bridge: Bridge,
    /// Once it has begun to send keep-alives.
    neighbours: Option<Neighbours>,
    /// By time, and order of asking: flows that wait for the same link take turns.
    timers: BinaryHeap<Reverse<(Time, u64, Timer)>>,
    asked: u64,
    /// Timers named so far.
    turns: u32,
    /// Whether it computes rates once an interval.
    ticks: bool,
    /// What is to be told again, in that order.
    repeats: VecDeque<News>,
    reports: Reports,
    /// Whether it looks for better routings at its next turn, and the last of what it announced of these.
    selects: bool,
    announced: VecDeque<(u16, Packet)>,
    /// When the run began: times of rules and failures are since then.
    began: Time,
    random: u64,
    pub counters: Counters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    Tick,
    Hello,
    Repeat,
    /// What it had to drop is reported again.
    Report,
    /// From now on this rule holds.
    Rule(u32),
    Select,
    Send {
        flow: u16,
        turn: u32,
    },
    Frames {
        dst: u16,
        turn: u32,
    },
    Alarm {
        flow: u16,
        turn: u32,
    },
}

/// What a flow may send ahead of its rate, beyond a packet: that of this time. Threads that are late by less do not slow
/// it down; on a machine with other work they may well be late by more.
pub const SLACK: Time = Time::from_us(1_000);
/// With time-outs of a millisecond, doubled, this is 16 seconds. However long they are, it is not more than TCP's patience.
const MOST_SILENCE: u32 = 13;

impl Node {
    pub fn new(plan: &Arc<Plan>, me: u32) -> Node {
        Node {
            view: View::new(plan.rates(&Map::whole(&plan.graph, 1))),
            me: me as u16,
            sending: HashMap::new(),
            number: 0,
            arriving: Arriving::default(),
            bridge: Bridge::default(),
            neighbours: None,
            timers: BinaryHeap::new(),
            asked: 0,
            turns: 0,
            ticks: false,
            repeats: VecDeque::new(),
            reports: Reports::default(),
            selects: false,
            announced: VecDeque::new(),
            began: Time::ZERO,
            random: mix(plan.seed ^ u64::from(me).wrapping_mul(0x9E37_79B9_7F4A_7C15)),
            counters: Counters::default(),
            plan: plan.clone(),
        }
    }

    /// When [`Node::wake`] wants to be called next.
    pub fn next_wake(&self) -> Option<Time> {
        self.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Does what is due by now.
    pub fn wake(&mut self, now: Time, around: &mut impl Around) {
        while let Some(&Reverse((at, _, timer))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            self.counters.events += 1;
            match timer {
                Timer::Tick => self.tick(now, around),
                Timer::Hello => self.say_hello(now, around),
                Timer::Repeat => self.repeat(now, around),
                Timer::Report => self.report_again(now, around),
                Timer::Rule(rule) => self.rule(now, rule, around),
                Timer::Select => self.select(now, around),
                Timer::Send { flow, turn } => self.send(now, flow, turn, around),
                Timer::Alarm { flow, turn } => self.alarm(now, flow, turn, around),
                Timer::Frames { dst, turn } => self.send_frames(now, dst, turn, around),
            }
        }
    }

    /// Bytes have come over a link: from a neighbour, or from whoever wrote to its socket.
    pub fn take(&mut self, now: Time, mut packet: Packet, around: &mut impl Around) {
        self.counters.events += 1;
        if Hello::is(&packet) {
            return self.take_hello(now, packet, around);
        }
        if Announcement::is(&packet) {
            return self.hear_routings(now, packet, around);
        }
        if Broadcast::is(&packet) {
            return self.hear(now, packet, around);
        }
        match Data::forward(&mut packet) {
            Ok(Some(port)) if port < self.plan.degree(self.me.into()) => {
                self.put(now, port, packet, around);
            }
            Ok(None) => self.arrive(now, packet, around),
            Ok(Some(_)) | Err(_) => self.refuse(packet, around),
        }
    }

    /// A packet that is at the end of its route.
    fn arrive(&mut self, now: Time, packet: Packet, around: &mut impl Around) {
        match Data::decode(&packet) {
            Ok((data, _)) if data.dst == self.me && u32::from(data.src) < self.plan.nodes() => {
                match data.kind {
                    Kind::Data | Kind::Last => self.take_part(now, data, packet, around),
                    Kind::Ack => self.take_ack(now, data, packet, around),
                    Kind::Lost => self.take_report(now, packet, around),
                    Kind::Frame => self.take_frame(now, data, packet, around),
                }
            }
            _ => self.refuse(packet, around),
        }
    }

    /// Bytes that no node of this rack would have sent.
    fn refuse(&mut self, packet: Packet, around: &mut impl Around) {
        self.counters.malformed += 1;
        self.lose(packet, around);
    }

    fn put(&mut self, now: Time, port: u32, packet: Packet, around: &mut impl Around) {
        self.counters.packet_hops += 1;
        if let Err(packet) = around.put(now, port, packet) {
            self.lose(packet, around);
        }
    }

    /// Counts a packet that goes no further.
    pub fn lose(&mut self, packet: Packet, around: &mut impl Around) {
        if Kind::of(&packet).is_some_and(Kind::is_data) {
            self.counters.dropped_bytes += packet.len().saturating_sub(DATA_HEADER) as u64;
        }
        self.counters.dropped_packets += 1;
        around.spare(packet);
    }

    /// Sends what follows a route and is no part of a flow.
    fn put_control(
        &mut self,
        now: Time,
        header: (Kind, u16, u32),
        dst: u16,
        body: &[u8],
        around: &mut impl Around,
    ) {
        let (kind, flow, seq) = header;
        let ways = Ways { src: self.me.into(), dst: dst.into(), flow: 0, ..CONTROL };
        // Without a way there, whoever waits for it will hear of that.
        let Some(route) = self.draw(ways, around) else { return };
        let Some(port) = route.port(0) else { return };
        let data = Data { kind, flow, src: self.me, dst, seq, plen: body.len() as u16, route, ridx: 1 };
        let mut packet = around.empty();
        packet.resize(DATA_HEADER, 0);
        packet.extend_from_slice(body);
        data.seal(&mut packet);
        self.put(now, port, packet, around);
    }

    /// Of a flow of which no rate is known yet.
    fn first_kbps(&self, ways: Ways, around: &mut impl Around) -> u32 {
        let alone = self.view.alone_kbps(&around.map().weights.shares(ways));
        match self.plan.params.first_rate {
            FirstRate::Link => alone.min(self.plan.fastest_kbps(self.me.into())),
            FirstRate::Alone => alone,
        }
    }

    /// `None`: no way is known.
    fn draw(&mut self, ways: Ways, around: &mut impl Around) -> Option<Route> {
        let random = &mut self.random;
        around.map().draw(ways, &mut || {
            *random = random.wrapping_add(0x9E37_79B9_7F4A_7C15);
            mix(*random)
        })
    }

    /// That no flow of this node has.
    fn next_number(&mut self) -> Option<u16> {
        let is_free = |number: &u16| !self.sending.contains_key(number) && self.stream_of(*number).is_none();
        self.number = (1..=u16::MAX).map(|n| self.number.wrapping_add(n)).find(is_free)?;
        Some(self.number)
    }

    fn turn(&mut self) -> u32 {
        self.turns = self.turns.wrapping_add(1).max(1);
        self.turns
    }

    fn at(&mut self, at: Time, timer: Timer) {
        self.asked += 1;
        self.timers.push(Reverse((at, self.asked, timer)));
    }
}

/// By any shortest way.
const CONTROL: Ways = Ways { routing: unrack_protocol::r2c2::Routing::Spraying, src: 0, dst: 0, flow: 0 };
