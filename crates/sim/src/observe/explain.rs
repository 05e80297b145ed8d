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
    /// Behind others at this switch port.
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
    let entries: Vec<&Entry> = journal.entries(id).collect();
    let mut story = Story { network, entries, parts: Vec::new() };
    let hops: Vec<Hop> = journal.hops(id).copied().collect();
    if hops.is_empty() {
        story.alone(&message, (submitted, completed));
    } else if message.kind.is_answered() {
        let data = Leg::new(network, &hops, PacketKind::Data, completed);
        let asked = data.way.first().map_or(completed, |hop| hop.ready);
        let request = Leg::new(network, &hops, PacketKind::Request, asked);
        let turn = request.way.last().map_or(submitted, |hop| hop.onward);
        story.leg(&request, (submitted, turn));
        story.leg(&data, (turn, completed));
    } else {
        let data = Leg::new(network, &hops, PacketKind::Data, completed);
        story.leg(&data, (submitted, completed));
    }
    Some(Explanation { message, submitted, completed, parts: story.parts })
}

/// One way of a message: all its packets, and the way of the one that came last.
struct Leg {
    hops: Vec<Hop>,
    way: Vec<Hop>,
}

impl Leg {
    /// Of packets of this kind, the last of which is of use by `end`.
    fn new(network: &Network, hops: &[Hop], kind: PacketKind, end: Time) -> Leg {
        let hops: Vec<Hop> = hops.iter().filter(|hop| hop.packet.kind == kind).copied().collect();
        let at_end = |hop: &&Hop| hop.onward <= end && end_of(network, hop.link) == End::Node(hop.packet.dst);
        let last = hops.iter().filter(at_end).max_by_key(|hop| (hop.onward, hop.first));
        let mut way: Vec<Hop> = last.copied().into_iter().collect();
        while let Some(hop) = way.last().copied()
            && let Some(before) = before(network, &hops, &hop)
        {
            way.push(before);
        }
        way.reverse();
        Leg { hops, way }
    }
}

fn end_of(network: &Network, link: LinkId) -> End {
    match link {
        LinkId::Host(node) => End::Switch(network.topology.switch_of(node)),
        LinkId::Port(port) => network.topology.end(port),
    }
}

/// How the packet of `hop` came to where it left from.
fn before(network: &Network, hops: &[Hop], hop: &Hop) -> Option<Hop> {
    let LinkId::Port(port) = hop.link else { return None };
    let switch = End::Switch(network.topology.switch_with(port));
    let same = |other: &&Hop| {
        let (a, b) = (&other.packet, &hop.packet);
        (a.src, a.dst, a.offset) == (b.src, b.dst, b.offset)
            && other.onward <= hop.ready
            && end_of(network, other.link) == switch
    };
    hops.iter().filter(same).max_by_key(|other| (other.onward, other.first)).copied()
}

struct Story<'a> {
    network: &'a Network,
    entries: Vec<&'a Entry>,
    parts: Vec<Part>,
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

    fn leg(&mut self, leg: &Leg, (start, end): (Time, Time)) {
        let mut now = start;
        for (n, hop) in leg.way.iter().enumerate() {
            let default = place_of_queue(hop.link);
            self.wait(leg, hop.link, (now, hop.ready.max(now)), |told| match (told, n) {
                (None, _) => default,
                (Some(wait), 0) => host_place(wait, hop),
                (Some(wait), _) => Place::Protocol(wait),
            });
            self.wait(leg, hop.link, (hop.ready.max(now), hop.first), |_| default);
            let sent = hop.first + hop.serial;
            let there = sent + hop.propagation;
            self.add(hop.first, sent, Place::Serialization(hop.link));
            self.add(sent, there, Place::Propagation(hop.link));
            let device = match end_of(self.network, hop.link) {
                End::Switch(switch) => Place::Switch(switch),
                End::Node(node) => Place::Node(node),
            };
            now = hop.onward.min(end);
            self.add(there.min(now), now, device);
        }
        let node = leg.way.last().map_or(0, |hop| hop.packet.dst);
        self.add(now, end, Place::Node(node));
    }

    /// Divides a wait for `link` by the message's own packets on it, and else by `place`, which is told what the
    /// fabric last said.
    fn wait(
        &mut self,
        leg: &Leg,
        link: LinkId,
        (from, until): (Time, Time),
        place: impl Fn(Option<Wait>) -> Place,
    ) {
        let own: Vec<&Hop> = leg.hops.iter().filter(|hop| hop.link == link).collect();
        let told = self.entries.iter().filter_map(|entry| match entry {
            Entry::Waits(at, _) | Entry::Dropped(at) | Entry::SentAgain(at) => Some(*at),
            _ => None,
        });
        let mut cuts: Vec<Time> = own.iter().flat_map(|hop| [hop.ready, hop.first, hop.last]).collect();
        cuts.extend(told.chain([from, until]));
        cuts.retain(|cut| (from..=until).contains(cut));
        cuts.sort_unstable();
        for two in cuts.windows(2).filter(|two| two[0] < two[1]) {
            let within = |start: Time, end: Time| start <= two[0] && two[1] <= end;
            let place = if own.iter().any(|hop| within(hop.first, hop.last)) {
                Place::Serialization(link)
            } else if own.iter().any(|hop| within(hop.ready, hop.first)) {
                place_of_queue(link)
            } else {
                match self.told_at(two[0]) {
                    (true, None | Some(Wait::Nothing | Wait::Window)) => Place::Retransmission,
                    (_, told) => place(told),
                }
            };
            self.add(two[0], two[1], place);
        }
    }

    /// Whether payload is lost and not yet sent again, and what the fabric said last.
    fn told_at(&self, at: Time) -> (bool, Option<Wait>) {
        let (mut lost, mut told) = (0u32, None);
        for entry in &self.entries {
            match entry {
                Entry::Waits(from, wait) if *from <= at => told = Some(*wait),
                Entry::Dropped(from) if *from <= at => lost += 1,
                Entry::SentAgain(from) if *from <= at => lost = lost.saturating_sub(1),
                _ => {}
            }
        }
        (lost > 0, told)
    }
}

fn place_of_queue(link: LinkId) -> Place {
    match link {
        LinkId::Host(node) => Place::HostQueue(node),
        LinkId::Port(port) => Place::Queue(port),
    }
}

/// What a wait at the sending node is called.
fn host_place(wait: Wait, hop: &Hop) -> Place {
    match wait {
        Wait::Nothing => Place::Node(hop.packet.src),
        Wait::Turn => Place::HostQueue(hop.packet.src),
        Wait::Retransmission => Place::Retransmission,
        wait => Place::Protocol(wait),
    }
}
