//! Explanation of the time that one message took.
//!
//! The packet that completed the message is traced back, link by link, to the node that sent it. The time before the
//! packet left that node is divided by cause: earlier packets of the same message on the link, packets of other
//! messages, the protocol, or a loss ([`super::losses`]). A read or rmw has one leg for its request and one for its
//! answer. Parts follow each other without a gap; therefore they sum to the completion time.

use super::journal::{Entry, Journal};
use super::losses::{Losses, end_of, repetitions, union, within};
use std::ops::Range;
use unrack_engine::events::{Hop, LinkId, ObservedPacket, PacketKind, WaitReason};
use unrack_engine::network::Network;
use unrack_engine::topology::LinkEnd;
use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

/// Explanation of the time that a message took.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub message: Message,
    pub submitted: Time,
    pub completed: Time,
    /// Parts in order, without a gap.
    pub parts: Vec<Period>,
}

/// A period between submission and completion. It is never empty.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Period {
    pub from: Time,
    pub time: Time,
    pub place: TimeSpent,
}

/// Reason why time passed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum TimeSpent {
    /// Other messages of the node were sent first.
    HostQueue(NodeId),
    /// The bits of the message were put on this link.
    Serialization(LinkId),
    /// Bits propagated along this link.
    Propagation(LinkId),
    /// Fixed latency of this switch.
    Switch(u32),
    /// Fixed latency of this node.
    Node(NodeId),
    /// Other packets were ahead at this switch port.
    Queue(u32),
    /// A packet was lost, and not yet retransmitted.
    Lost,
    /// The protocol did not allow the message to proceed.
    Protocol(WaitReason),
}

impl TimeSpent {
    /// Returns the cause as one word, for programs.
    pub const fn cause(self) -> &'static str {
        match self {
            TimeSpent::HostQueue(_) => "host-queue",
            TimeSpent::Serialization(_) => "serialization",
            TimeSpent::Propagation(_) => "propagation",
            TimeSpent::Switch(_) => "switch",
            TimeSpent::Node(_) => "node",
            TimeSpent::Queue(_) => "queue",
            TimeSpent::Lost => "lost",
            TimeSpent::Protocol(_) => "protocol",
        }
    }
}

impl Explanation {
    /// Returns the total time of each cause, in the order in which the causes first occur.
    pub fn sums(&self) -> Vec<(TimeSpent, Time)> {
        let mut sums: Vec<(TimeSpent, Time)> = Vec::new();
        for part in &self.parts {
            match sums.iter_mut().find(|(place, _)| *place == part.place) {
                Some((_, sum)) => *sum += part.time,
                None => sums.push((part.place, part.time)),
            }
        }
        sums
    }
}

/// Explains the time that message `id` of a run on this network took. Returns `None` if the message did not finish, or
/// is not in the journal.
pub fn explain(journal: &Journal, network: &Network, id: MessageId) -> Option<Explanation> {
    let mut submission = None;
    let mut completion = None;
    for entry in journal.entries(id) {
        match *entry {
            Entry::Submitted(at, message) => submission = Some((at, message)),
            Entry::Completed(at) => completion = Some(at),
            _ => {}
        }
    }
    let ((submitted, message), completed) = (submission?, completion?);
    let hops: Vec<Hop> = journal.hops(id).copied().collect();
    let lost: Vec<(Time, ObservedPacket)> = journal.lost(id).collect();
    let told: Vec<(Time, WaitReason)> = journal.waiting(id).collect();
    let mut story = ExplanationParts { network, hops: &hops, lost: &lost, told: &told, parts: Vec::new() };
    if hops.is_empty() && network.topology.hosts().is_some() {
        // A reference within a rack crosses no observed link.
        story.add(submitted, completed, TimeSpent::Node(message.dst));
    } else if hops.is_empty() {
        story.alone(&message, submitted..completed);
    } else if message.kind.is_answered() {
        let data = way(network, &hops, PacketKind::Data, completed);
        let asked = first_answer(&hops).or(data.first().map(|hop| hop.ready)).unwrap_or(completed);
        let request = way(network, &hops, PacketKind::Request, asked);
        let turn = request.last().map_or(submitted, |hop| hop.onward);
        story.leg(&request, submitted..turn);
        story.leg(&data, turn..completed);
    } else {
        let data = way(network, &hops, PacketKind::Data, completed);
        story.leg(&data, submitted..completed);
    }
    Some(Explanation { message, submitted, completed, parts: story.parts })
}

/// Returns the time at which the first packet of an answer was ready to be sent. Returns `None` if packets have no
/// offset. Later requests may ask again for packets that were lost; therefore the first answer counts.
fn first_answer(hops: &[Hop]) -> Option<Time> {
    let answers =
        hops.iter().filter(|hop| hop.packet.kind == PacketKind::Data && hop.packet.offset.is_some());
    answers.map(|hop| hop.ready).min()
}

/// Returns the hops of one packet: of all packets of this kind that arrived by `end`, the one that arrived last.
fn way(network: &Network, hops: &[Hop], kind: PacketKind, end: Time) -> Vec<Hop> {
    let hops: Vec<Hop> = hops.iter().filter(|hop| hop.packet.kind == kind).copied().collect();
    let is_direct = network.topology.graph().is_some();
    let at_end = |hop: &&Hop| {
        hop.onward <= end
            && match end_of(network, hop.link) {
                LinkEnd::Node(_) => true,
                // If nodes forward for each other, the last link of a path may be a link between nodes.
                LinkEnd::Switch(node) => is_direct && node == hop.packet.dst,
            }
    };
    let last = hops.iter().filter(at_end).max_by_key(|hop| (hop.onward, hop.first));
    let mut way: Vec<Hop> = last.copied().into_iter().collect();
    while let Some(hop) = way.last().copied()
        && let Some(before) = before(network, &hops, &hop)
    {
        way.push(before);
    }
    way.reverse();
    way
}

/// Returns the previous hop of the packet: the hop that ends where `hop` begins.
fn before(network: &Network, hops: &[Hop], hop: &Hop) -> Option<Hop> {
    let LinkId::Port(port) = hop.link else { return None };
    let switch = LinkEnd::Switch(network.topology.owner(port));
    let mut came = hops.iter().filter(|other| end_of(network, other.link) == switch);
    match hop.packet.offset {
        // Packets without an offset keep their order and take the same path; therefore they are matched by their
        // position.
        None => {
            let told_before = hops.iter().take_while(|other| *other != hop);
            came.nth(told_before.filter(|other| other.link == hop.link).count()).copied()
        }
        offset => {
            let same = |other: &&Hop| other.packet.offset == offset && other.onward <= hop.ready;
            came.filter(same).max_by_key(|other| (other.onward, other.first)).copied()
        }
    }
}

/// Parts of an explanation so far, and the records from which it is made.
struct ExplanationParts<'a> {
    network: &'a Network,
    /// Hops of all packets of the message.
    hops: &'a [Hop],
    /// Lost packets of the message, and the times of the losses.
    lost: &'a [(Time, ObservedPacket)],
    /// Waits that the fabric reported for the message, and the time at which each began.
    told: &'a [(Time, WaitReason)],
    parts: Vec<Period>,
}

impl ExplanationParts<'_> {
    fn add(&mut self, from: Time, until: Time, place: TimeSpent) {
        debug_assert!(from <= until, "{place:?} from {from} until {until}");
        match self.parts.last_mut() {
            _ if from == until => {}
            Some(last) if last.place == place => last.time += until - from,
            _ => self.parts.push(Period { from, time: until - from, place }),
        }
    }

    /// Explains a message without packets: its propagation is known, and the rest counts as serialization.
    fn alone(&mut self, message: &Message, span: Range<Time>) {
        let Range { start: from, end: until } = span;
        let link = LinkId::Host(message.data_src());
        let distance: Time =
            self.network.links(message.src, message.dst).fold(Time::ZERO, |sum, link| sum + link.propagation);
        let distance = if message.kind.is_answered() { distance * 2 } else { distance };
        let sent = until - distance.min(until - from);
        self.add(from, sent, TimeSpent::Serialization(link));
        self.add(sent, until, TimeSpent::Propagation(link));
    }

    fn leg(&mut self, way: &[Hop], span: Range<Time>) {
        let mut now = span.start;
        let is_direct = self.network.topology.graph().is_some();
        for (n, hop) in way.iter().enumerate() {
            match hop.link {
                LinkId::Port(_) if n == 0 && is_direct => self.before_host(hop, now..hop.first),
                LinkId::Host(_) => self.before_host(hop, now..hop.first),
                LinkId::Port(port) => self.before_port(hop, port, now..hop.first),
            }
            let sent = hop.first + hop.serial;
            let there = sent + hop.propagation;
            self.add(hop.first, hop.first + hop.repeated, TimeSpent::Lost);
            self.add(hop.first + hop.repeated, sent, TimeSpent::Serialization(hop.link));
            self.add(sent, there, TimeSpent::Propagation(hop.link));
            let device = match end_of(self.network, hop.link) {
                LinkEnd::Switch(switch) => TimeSpent::Switch(switch),
                LinkEnd::Node(_) => TimeSpent::Node(hop.packet.dst),
            };
            self.add(there, hop.onward, device);
            now = hop.onward;
        }
        let node = way.last().map_or(0, |hop| hop.packet.dst);
        self.add(now, span.end, TimeSpent::Node(node));
    }

    /// Divides the time before a packet leaves its node by cause: earlier packets of the same message, losses, and, for
    /// the rest, the waits that the fabric reported.
    fn before_host(&mut self, hop: &Hop, span: Range<Time>) {
        let Hop { link, packet: ObservedPacket { kind, src, .. }, .. } = *hop;
        let losses = Losses::new(self.network, self.hops, self.lost, (kind, src));
        let own = || {
            self.hops.iter().filter(|own| own.link == link && own.ready < span.end && own.last > span.start)
        };
        let again = own()
            .map(|own| (own.first, if losses.is_repair(own) { own.last } else { own.first + own.repeated }));
        let again = union(again.collect());
        let sent = union(own().map(|own| (own.first, own.last)).collect());
        let queued = union(own().map(|own| (own.ready, own.first)).collect());
        let spans = [&again, &sent, &queued].into_iter().flatten().flat_map(|&(start, end)| [start, end]);
        let cuts: Vec<Time> = spans.chain(self.told.iter().map(|told| told.0)).chain(losses.cuts()).collect();
        self.divide(cuts, span, |story, at| match story.told_at(at) {
            _ if within(&again, at) => TimeSpent::Lost,
            _ if within(&sent, at) => TimeSpent::Serialization(link),
            _ if within(&queued, at) => TimeSpent::HostQueue(src),
            wait if losses.hold_up(at, wait) => TimeSpent::Lost,
            None | Some(WaitReason::Turn) => TimeSpent::HostQueue(src),
            Some(WaitReason::Nothing) => TimeSpent::Node(src),
            Some(WaitReason::GrantTurn) => TimeSpent::Protocol(WaitReason::Grant),
            Some(wait) => TimeSpent::Protocol(wait),
        });
    }

    /// Divides the time before a packet leaves a switch. The packet may arrive before it is granted, and it may wait
    /// for packets of its own message that a link repeats.
    fn before_port(&mut self, hop: &Hop, port: u32, span: Range<Time>) {
        let Range { start: from, end: until } = span;
        let granted = if self.told_at(from) == Some(WaitReason::Grant) { hop.ready } else { from };
        self.add(from, granted, TimeSpent::Protocol(WaitReason::Grant));
        let repeated = repetitions(self.hops);
        let cuts = repeated.iter().flat_map(|&(start, end)| [start, end]).collect();
        self.divide(cuts, granted..until, |_, at| match within(&repeated, at) {
            true => TimeSpent::Lost,
            false => TimeSpent::Queue(port),
        });
    }

    /// Adds the parts of a span. `cuts` are the times at which the cause may change.
    fn divide(&mut self, mut cuts: Vec<Time>, span: Range<Time>, place: impl Fn(&Self, Time) -> TimeSpent) {
        cuts.extend([span.start, span.end]);
        cuts.retain(|cut| (span.start..=span.end).contains(cut));
        cuts.sort_unstable();
        for two in cuts.windows(2) {
            let place = place(self, two[0]);
            self.add(two[0], two[1], place);
        }
    }

    fn told_at(&self, at: Time) -> Option<WaitReason> {
        let next = self.told.partition_point(|told| told.0 <= at);
        next.checked_sub(1).map(|last| self.told[last].1)
    }
}
