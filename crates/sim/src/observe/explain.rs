//! Where one message spent its time.
//!
//! The packet that completed the message is followed back, link by link, to the node that sent it. What
//! came before it left that node is divided by what kept it from leaving: the message's own earlier
//! packets on the link, packets of others, the protocol. A read or rmw has a leg of its request and a
//! leg of its answer. Parts follow each other without a gap, so that they sum to the completion time.

use super::journal::{Entry, Journal};
use crate::engine::{Hop, LinkId, PacketKind, Wait};
use crate::network::Network;
use crate::topology::End;
use unrack_units::Time;
use unrack_workload::{Message, MessageId, NodeId};

/// Where a message spent its time.
#[derive(Debug, Clone, PartialEq)]
pub struct Explanation {
    pub message: Message,
    pub submitted: Time,
    pub completed: Time,
    /// In order, without a gap.
    pub parts: Vec<Part>,
}

/// A time between submission and completion. Never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub from: Time,
    pub time: Time,
    pub place: Place,
}

/// What a message was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// Others of its node were sent first.
    HostQueue(NodeId),
    /// Its own bits were put on this link.
    Serialization(LinkId),
    /// Bits were on their way along this link.
    Propagation(LinkId),
    /// The fixed latency of a switch.
    Switch(u32),
    /// The fixed latency of a node.
    Node(NodeId),
    /// Behind other packets at this switch port.
    Queue(u32),
    /// Something was lost and had to be sent again.
    Retransmission,
    /// The protocol did not let it go on.
    Protocol(Wait),
}

impl Explanation {
    /// Time in each kind of place, in the order in which they were first met.
    pub fn sums(&self) -> Vec<(Place, Time)> {
        let mut sums: Vec<(Place, Time)> = Vec::new();
        for part in &self.parts {
            match sums.iter_mut().find(|(place, _)| *place == part.place) {
                Some((_, sum)) => *sum += part.time,
                None => sums.push((part.place, part.time)),
            }
        }
        sums
    }
}

/// Where message `id` of a run on this network spent its time. `None` if it did not finish, or is not in
/// the journal.
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
    let mut story = Story { network, hops: &hops, told: told(journal, id), parts: Vec::new() };
    if hops.is_empty() && network.topology.hosts().is_some() {
        // A reference in a rack: no link is crossed that is looked at.
        story.add(submitted, completed, Place::Node(message.dst));
    } else if hops.is_empty() {
        story.alone(&message, (submitted, completed));
    } else if message.kind.is_answered() {
        let data = way(network, &hops, PacketKind::Data, completed);
        let asked = data.first().map_or(completed, |hop| hop.ready);
        let request = way(network, &hops, PacketKind::Request, asked);
        let turn = request.last().map_or(submitted, |hop| hop.onward);
        story.leg(&request, (submitted, turn));
        story.leg(&data, (turn, completed));
    } else {
        let data = way(network, &hops, PacketKind::Data, completed);
        story.leg(&data, (submitted, completed));
    }
    Some(Explanation { message, submitted, completed, parts: story.parts })
}

/// How the last packet of this kind got to its end, of those that are of use there by `end`.
fn way(network: &Network, hops: &[Hop], kind: PacketKind, end: Time) -> Vec<Hop> {
    let hops: Vec<Hop> = hops.iter().filter(|hop| hop.packet.kind == kind).copied().collect();
    let is_direct = network.topology.graph().is_some();
    let at_end = |hop: &&Hop| {
        hop.onward <= end
            && match end_of(network, hop.link) {
                End::Node(_) => true,
                // Where nodes forward for each other, the last link may be one between them.
                End::Switch(node) => is_direct && node == hop.packet.dst,
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

fn end_of(network: &Network, link: LinkId) -> End {
    match link {
        LinkId::Host(link) => End::Switch(network.topology.switch_at(link)),
        LinkId::Port(port) => network.topology.end(port),
    }
}

/// How the packet of `hop` came to where it left from.
fn before(network: &Network, hops: &[Hop], hop: &Hop) -> Option<Hop> {
    let LinkId::Port(port) = hop.link else { return None };
    let switch = End::Switch(network.topology.switch_with(port));
    let mut came = hops.iter().filter(|other| end_of(network, other.link) == switch);
    match hop.packet.offset {
        // Where packets do not say which they are, they keep their order, and all ways are the same.
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

struct Story<'a> {
    network: &'a Network,
    /// All packets of the message.
    hops: &'a [Hop],
    /// From when on: whether payload is lost and not yet sent again, and what the fabric said last.
    told: Vec<(Time, bool, Option<Wait>)>,
    parts: Vec<Part>,
}

/// What was told, as it stood from each time on.
fn told(journal: &Journal, id: MessageId) -> Vec<(Time, bool, Option<Wait>)> {
    let (mut lost, mut wait, mut told) = (0u32, None, Vec::new());
    for entry in journal.entries(id) {
        let at = match *entry {
            Entry::Waits(at, what) => {
                wait = Some(what);
                at
            }
            Entry::Dropped(at) => {
                lost += 1;
                at
            }
            Entry::SentAgain(at) => {
                lost = lost.saturating_sub(1);
                at
            }
            _ => continue,
        };
        told.push((at, lost > 0, wait));
    }
    told
}

/// Times in which one of the spans is, sorted, without overlaps.
fn union(mut spans: Vec<(Time, Time)>) -> Vec<(Time, Time)> {
    spans.sort_unstable();
    let mut united: Vec<(Time, Time)> = Vec::new();
    for (from, until) in spans {
        match united.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => united.push((from, until)),
        }
    }
    united
}

fn within(spans: &[(Time, Time)], at: Time) -> bool {
    let next = spans.partition_point(|(from, _)| *from <= at);
    next > 0 && at < spans[next - 1].1
}

impl Story<'_> {
    fn add(&mut self, from: Time, until: Time, place: Place) {
        debug_assert!(from <= until, "{place:?} from {from} until {until}");
        match self.parts.last_mut() {
            _ if from == until => {}
            Some(last) if last.place == place => last.time += until - from,
            _ => self.parts.push(Part { from, time: until - from, place }),
        }
    }

    /// Without packets: propagation, and the rest is serialization.
    fn alone(&mut self, message: &Message, (from, until): (Time, Time)) {
        let link = LinkId::Host(message.data_src());
        let distance: Time =
            self.network.links(message.src, message.dst).fold(Time::ZERO, |sum, link| sum + link.propagation);
        let distance = if message.kind.is_answered() { distance * 2 } else { distance };
        let sent = until - distance.min(until - from);
        self.add(from, sent, Place::Serialization(link));
        self.add(sent, until, Place::Propagation(link));
    }

    fn leg(&mut self, way: &[Hop], (start, end): (Time, Time)) {
        let mut now = start;
        let is_direct = self.network.topology.graph().is_some();
        for (n, hop) in way.iter().enumerate() {
            match hop.link {
                LinkId::Port(_) if n == 0 && is_direct => {
                    self.before_host(hop.link, hop.packet.src, (now, hop.first));
                }
                LinkId::Host(_) => self.before_host(hop.link, hop.packet.src, (now, hop.first)),
                LinkId::Port(port) => {
                    let granted = if self.told_at(now).1 == Some(Wait::Grant) { hop.ready } else { now };
                    self.add(now, granted, Place::Protocol(Wait::Grant));
                    self.add(granted, hop.first, Place::Queue(port));
                }
            }
            let sent = hop.first + hop.serial;
            let there = sent + hop.propagation;
            self.add(hop.first, sent, Place::Serialization(hop.link));
            self.add(sent, there, Place::Propagation(hop.link));
            let device = match end_of(self.network, hop.link) {
                End::Switch(switch) => Place::Switch(switch),
                End::Node(_) => Place::Node(hop.packet.dst),
            };
            self.add(there, hop.onward, device);
            now = hop.onward;
        }
        let node = way.last().map_or(0, |hop| hop.packet.dst);
        self.add(now, end, Place::Node(node));
    }

    /// Divides the time before a packet leaves its node: by the message's packets before it, and else by
    /// what the fabric told.
    fn before_host(&mut self, link: LinkId, src: NodeId, (from, until): (Time, Time)) {
        let own = || self.hops.iter().filter(|own| own.link == link && own.ready < until && own.last > from);
        let sent = union(own().map(|own| (own.first, own.last)).collect());
        let queued = union(own().map(|own| (own.ready, own.first)).collect());
        let spans = sent.iter().chain(&queued).flat_map(|&(start, end)| [start, end]);
        let mut cuts: Vec<Time> = spans.chain(self.told.iter().map(|told| told.0)).collect();
        cuts.extend([from, until]);
        cuts.retain(|cut| (from..=until).contains(cut));
        cuts.sort_unstable();
        for two in cuts.windows(2) {
            let at = two[0];
            let place = match self.told_at(at) {
                _ if within(&sent, at) => Place::Serialization(link),
                _ if within(&queued, at) => Place::HostQueue(src),
                (true, None | Some(Wait::Nothing | Wait::Window)) => Place::Retransmission,
                (_, None | Some(Wait::Turn)) => Place::HostQueue(src),
                (_, Some(Wait::Nothing)) => Place::Node(src),
                (_, Some(Wait::Retransmission)) => Place::Retransmission,
                (_, Some(wait)) => Place::Protocol(wait),
            };
            self.add(at, two[1], place);
        }
    }

    fn told_at(&self, at: Time) -> (bool, Option<Wait>) {
        let next = self.told.partition_point(|told| told.0 <= at);
        next.checked_sub(1).map_or((false, None), |last| (self.told[last].1, self.told[last].2))
    }
}
