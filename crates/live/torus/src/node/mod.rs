//! A node of a rack without switches: it sends flows, forwards packets of others, and reassembles flows that arrive.
//!
//! The node has no clock, thread or socket. Its caller passes in packets and times, and lends it the services of [`NodeServices`].
//! [`unrack_protocol::r2c2::node`], which the simulator also uses, decides how the node behaves. This module adds the bytes: every packet
//! is written, checked and read as [`unrack_protocol::r2c2::packet`] defines, whatever its origin.
//!
//! | module | holds |
//! |---|---|
//! | `driven` | the surroundings of the protocol's node |
//! | `sending`, `arriving` | flows at their two ends |
//! | `broadcasts`, `selecting` | announcements as bytes |
//! | `rating`, `discovery` | when rates are computed, and when failures are handled |
//! | `neighbours` | keep-alives |
//! | `bridging` | frames of hosts behind gateways |

mod arriving;
mod bridging;
mod broadcasts;
mod discovery;
mod driven;
mod neighbours;
mod rating;
mod selecting;
mod sending;
#[cfg(test)]
mod tests;

use self::arriving::Arriving;
use self::bridging::Bridge;
use self::driven::Driven;
use self::sending::FlowSending;
use crate::plan::TorusPlan;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use unrack_basis::{GOLDEN_GAMMA, SplitMix64, mix};
use unrack_protocol::r2c2::links::{LinkStates, Neighbours};
use unrack_protocol::r2c2::map::RackMap;
use unrack_protocol::r2c2::node;
use unrack_protocol::r2c2::packet::{Announcement, Broadcast, DATA_HEADER, Data, Hello, Kind};
use unrack_protocol::r2c2::rates::Rates;
use unrack_protocol::r2c2::selection::SelectionProblem;
use unrack_protocol::r2c2::shared_rates::SharedRates;
use unrack_units::Time;

/// Bytes of a packet. They are moved from node to node without a copy.
pub(crate) type Packet = Vec<u8>;

/// A flow, identified by its source and its number there.
pub(crate) type SourceFlow = (u16, u16);

/// Services that the caller of a node provides.
pub(crate) trait NodeServices {
    /// Returns the map of the rack as it is known. It is the same for all nodes, so the nodes of a thread share it.
    fn map(&mut self) -> &mut RackMap;
    /// Returns the states of links as nodes report them. If they have changed, the caller must call [`Node::discover`].
    fn links(&mut self) -> &mut LinkStates;
    /// Returns an empty packet to write into.
    fn empty(&mut self) -> Packet;
    /// Takes back a packet that is no longer needed.
    fn spare(&mut self, packet: Packet);
    /// Returns the earliest time at which `bytes` more fit into the queue of a port; `now` if they fit already.
    fn room_at(&self, now: Time, port: u32, bytes: u64) -> Time;
    /// Queues a packet at a port. Returns the packet if it does not fit or the link loses it.
    fn put(&mut self, now: Time, port: u32, packet: Packet) -> Result<(), Packet>;
    /// Writes the content of a flow of this node from `offset` on.
    fn fill(&mut self, flow: SourceFlow, offset: u64, into: &mut [u8]);
    /// Delivers the next bytes of a flow to this node.
    fn deliver(&mut self, flow: SourceFlow, offset: u64, bytes: &[u8]);
    /// Starts a search for better routings. The caller passes its result to [`Node::choose`].
    fn seek(&mut self, problem: SelectionProblem);
    /// Passes a frame to the hosts behind this gateway.
    fn to_host(&mut self, frame: &[u8]);
    /// Reports an event of a flow.
    fn happened(&mut self, now: Time, event: Event);
}

/// Events of flows. `message` is the number that was passed to [`Node::submit`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Event {
    /// The flow was given a number.
    Opened { message: u32, flow: SourceFlow },
    /// The destination has delivered all bytes.
    Complete { flow: SourceFlow },
    /// The source has received the acknowledgement of all bytes.
    Acknowledged { message: u32, retransmissions: u32 },
    /// The source has received nothing from the destination for too long.
    GivenUp { message: u32, retransmissions: u32 },
}

/// Counters of a node, or their sums over nodes. Bytes are payload.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize, serde::Deserialize)]
pub struct LiveCounters {
    /// Packets that arrived and timers that expired.
    pub events: u64,
    pub packet_hops: u64,
    /// Bytes sent by sources, including retransmissions.
    pub sent_bytes: u64,
    /// Bytes that arrived at destinations, including repeated ones.
    pub arrived_bytes: u64,
    /// Bytes dropped. When no packet is in flight, sent = arrived + dropped.
    pub dropped_bytes: u64,
    pub dropped_packets: u64,
    /// Dropped packets that were malformed: bytes that are not a packet, or a packet that no node of this rack would send.
    pub malformed: u64,
    /// Broadcasts that found no room in a queue, and were reported to their source.
    pub lost_broadcasts: u64,
    /// Maximum number of packets of one flow that waited in its re-order buffer.
    pub most_waiting: u64,
}

impl std::ops::AddAssign for LiveCounters {
    fn add_assign(&mut self, other: LiveCounters) {
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

/// A node: the protocol's node, and the state that this module adds.
pub(crate) struct Node {
    core: node::Node<SourceFlow>,
    own: LiveState,
}

/// State of a node in addition to that of the protocol.
struct LiveState {
    plan: Arc<TorusPlan>,
    me: u16,
    sending: HashMap<u16, FlowSending>,
    /// Number of the last flow.
    number: u16,
    arriving: Arriving,
    bridge: Bridge,
    /// State of neighbours; `None` until the node sends keep-alives.
    neighbours: Option<Neighbours>,
    /// Timers by time, then in the order in which they were set, so that flows that wait for the same link take turns.
    timers: BinaryHeap<Reverse<(Time, u64, Timer)>>,
    asked: u64,
    /// Number of the last timer of a flow or stream.
    turns: u32,
    /// Rates of the links that are up, without flows.
    empty: Rates,
    /// Whether a search for better routings is scheduled. The next field has the node's last announcements of routings.
    selects: bool,
    announced: VecDeque<(u16, Packet)>,
    /// Start of the run. Times of searches are relative to it.
    began: Time,
    random: SplitMix64,
    counters: LiveCounters,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    /// A timer of the protocol.
    Core(node::NodeTimer<SourceFlow>),
    Hello,
    /// Makes a rule effective.
    Rule(u32),
    Select,
    Frames {
        dst: u16,
        turn: u32,
    },
}

impl Node {
    /// Creates node `me`, which has no work yet.
    pub(crate) fn new(plan: &Arc<TorusPlan>, me: u32) -> Node {
        let rates = plan.rates(&RackMap::whole(&plan.setup.graph, 1));
        let own = LiveState {
            me: me as u16,
            sending: HashMap::new(),
            number: 0,
            arriving: Arriving::default(),
            bridge: Bridge::default(),
            neighbours: None,
            timers: BinaryHeap::new(),
            asked: 0,
            turns: 0,
            empty: rates.clone(),
            selects: false,
            announced: VecDeque::new(),
            began: Time::ZERO,
            random: SplitMix64::new(mix(plan.seed ^ u64::from(me).wrapping_mul(GOLDEN_GAMMA))).after(1),
            counters: LiveCounters::default(),
            plan: plan.clone(),
        };
        Node { core: node::Node::new(me, SharedRates::new(rates)), own }
    }

    /// Returns the node of the protocol, and its surroundings at this time.
    fn at<'a, A: NodeServices>(
        &'a mut self,
        now: Time,
        around: &'a mut A,
    ) -> (&'a mut node::Node<SourceFlow>, Driven<'a, A>) {
        (&mut self.core, Driven { now, own: &mut self.own, around })
    }

    /// Returns the counters, and resets them to zero.
    pub(crate) fn take_counters(&mut self) -> LiveCounters {
        std::mem::take(&mut self.own.counters)
    }

    /// Returns when [`Node::wake`] should be called next.
    pub(crate) fn next_wake(&self) -> Option<Time> {
        self.own.timers.peek().map(|Reverse((at, ..))| *at)
    }

    /// Handles the timers that are due.
    pub(crate) fn wake(&mut self, now: Time, around: &mut impl NodeServices) {
        while let Some(&Reverse((at, _, timer))) = self.own.timers.peek()
            && at <= now
        {
            self.own.timers.pop();
            self.own.counters.events += 1;
            match timer {
                Timer::Core(node::NodeTimer::Tick) => self.tick(now, around),
                Timer::Core(timer) => {
                    let (core, mut driven) = self.at(now, around);
                    core.wake(&mut driven, timer);
                }
                Timer::Hello => self.say_hello(now, around),
                Timer::Rule(rule) => {
                    let (core, mut driven) = self.at(now, around);
                    core.apply_rule(&mut driven, rule);
                }
                Timer::Select => self.select(now, around),
                Timer::Frames { dst, turn } => self.at(now, around).1.send_frames(dst, turn),
            }
        }
    }

    /// Handles bytes that arrived over a link: from a neighbour, or from a stranger that wrote to the link's socket.
    pub(crate) fn take(&mut self, now: Time, mut packet: Packet, around: &mut impl NodeServices) {
        self.own.counters.events += 1;
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
            Ok(Some(port)) if port < self.own.plan.degree(self.own.me.into()) => {
                self.at(now, around).1.put(port, packet);
            }
            Ok(None) => self.arrive(now, packet, around),
            Ok(Some(_)) | Err(_) => self.own.refuse(packet, around),
        }
    }

    /// Handles a packet that is at the end of its route.
    fn arrive(&mut self, now: Time, packet: Packet, around: &mut impl NodeServices) {
        match Data::decode(&packet) {
            Ok((data, _)) if data.dst == self.own.me && u32::from(data.src) < self.own.plan.nodes() => {
                match data.kind {
                    Kind::Data | Kind::Last => self.take_part(now, data, packet, around),
                    Kind::Ack => self.take_ack(now, data, packet, around),
                    Kind::Lost => self.take_report(now, packet, around),
                    Kind::Frame => self.own.take_frame(now, data, packet, around),
                }
            }
            _ => self.own.refuse(packet, around),
        }
    }

    /// Counts and drops a packet.
    pub(crate) fn lose(&mut self, packet: Packet, around: &mut impl NodeServices) {
        self.own.lose(packet, around);
    }
}

impl LiveState {
    /// Drops bytes that no node of this rack would have sent.
    fn refuse(&mut self, packet: Packet, around: &mut impl NodeServices) {
        self.counters.malformed += 1;
        self.lose(packet, around);
    }

    fn lose(&mut self, packet: Packet, around: &mut impl NodeServices) {
        if Kind::from_packet(&packet).is_some_and(Kind::is_data) {
            self.counters.dropped_bytes += packet.len().saturating_sub(DATA_HEADER) as u64;
        }
        self.counters.dropped_packets += 1;
        around.spare(packet);
    }

    /// Returns a flow number that no open flow of this node has.
    fn next_number(&mut self) -> Option<u16> {
        let is_free = |number: &u16| !self.sending.contains_key(number) && self.stream_of(*number).is_none();
        self.number = (1..=u16::MAX).map(|n| self.number.wrapping_add(n)).find(is_free)?;
        Some(self.number)
    }

    fn at(&mut self, at: Time, timer: Timer) {
        self.asked += 1;
        self.timers.push(Reverse((at, self.asked, timer)));
    }
}
