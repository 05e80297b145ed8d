//! Losses of a message, and the times at which they held it up.

use std::collections::{BTreeMap, BTreeSet};
use unrack_engine::events::{Hop, LinkId, ObservedPacket, PacketKind, Wait};
use unrack_engine::network::Network;
use unrack_engine::topology::End;
use unrack_units::Time;
use unrack_workload::NodeId;

/// Losses of a message as they concern one leg of it: its request, or its data.
pub(super) struct Losses {
    /// Packets of the leg as they leave the node that makes them, in the order in which they join the queue there.
    sent: Vec<Sent>,
    /// Time at which the last packet joined that had not been sent before.
    last_new: Time,
    /// Times in which packets were lost and not yet replaced.
    missing: Spans,
    /// Times in which packets of the message were under way, except those that replace others.
    under_way: Spans,
    /// Times in which a link repeated something.
    repeated: Vec<(Time, Time)>,
}

/// A packet of the leg that leaves its node.
#[derive(Debug, Clone, Copy)]
struct Sent {
    ready: Time,
    offset: Option<u64>,
    /// The same packet was sent, or lost, before.
    again: bool,
}

impl Losses {
    /// Finds the losses that concern packets of this kind that `src` makes, among all packets of the message.
    pub(super) fn new(
        network: &Network,
        hops: &[Hop],
        lost: &[(Time, ObservedPacket)],
        of: (PacketKind, NodeId),
    ) -> Losses {
        let leg = Leg::new(network, hops, lost, of);
        let new = leg.sent.iter().filter(|sent| !sent.again);
        Losses {
            last_new: new.map(|sent| sent.ready).max().unwrap_or(Time::ZERO),
            missing: lost.iter().filter_map(|lost| leg.missing(lost)).collect(),
            under_way: leg.under_way(hops).collect(),
            repeated: repetitions(hops),
            sent: leg.sent,
        }
    }

    /// Returns the times at which the result of [`Losses::hold_up`] may change, except those of packets of the leg.
    pub(super) fn cuts(&self) -> impl Iterator<Item = Time> + '_ {
        let repeated = self.repeated.iter().flat_map(|&(from, until)| [from, until]);
        self.missing.ends().chain(self.under_way.ends()).chain(repeated)
    }

    /// Returns whether a loss is what keeps the leg from sending at this time. `wait` is the reason that the fabric
    /// reported.
    ///
    /// A loss is the cause if the next packet that leaves is sent again, or if at least as many packets of the
    /// message are lost as are under way: then most of those that it may have under way are lost. Packets that their
    /// node could send and holds back wait for other reasons, and so do new ones that could be granted. A message
    /// that waits for credits waits for the packets that a link repeats.
    pub(super) fn hold_up(&self, at: Time, wait: Option<Wait>) -> bool {
        let missing = self.missing.count(at);
        if missing == 0 {
            return wait == Some(Wait::Credit) && within(&self.repeated, at);
        }
        let next = self.sent.partition_point(|sent| sent.ready <= at);
        let is_repair = self.sent.get(next).is_some_and(|sent| sent.again);
        match wait {
            Some(Wait::Turn | Wait::Pacing | Wait::Pause) => false,
            Some(Wait::GrantTurn) => is_repair && self.last_new <= at,
            _ => is_repair || missing >= self.under_way.count(at),
        }
    }

    /// Returns whether this packet of the leg is sent again, since a packet of the message had been lost.
    pub(super) fn is_repair(&self, hop: &Hop) -> bool {
        let lost_before = self.missing.starts.first().is_some_and(|from| *from < hop.ready);
        let from = self.sent.partition_point(|sent| sent.ready < hop.ready);
        let together = self.sent[from..].iter().take_while(|sent| sent.ready == hop.ready);
        lost_before && together.filter(|sent| sent.offset == hop.packet.offset).any(|sent| sent.again)
    }
}

/// Starts and ends of periods.
#[derive(Debug, Default)]
struct Spans {
    /// Starts, sorted.
    starts: Vec<Time>,
    /// Ends, sorted.
    ends: Vec<Time>,
}

impl Spans {
    /// Returns the number of spans that this time is in.
    fn count(&self, at: Time) -> usize {
        let until = |times: &[Time]| times.partition_point(|time| *time <= at);
        until(&self.starts) - until(&self.ends)
    }

    fn ends(&self) -> impl Iterator<Item = Time> + '_ {
        self.starts.iter().chain(&self.ends).copied()
    }
}

impl FromIterator<(Time, Time)> for Spans {
    fn from_iter<I: IntoIterator<Item = (Time, Time)>>(spans: I) -> Spans {
        let (mut starts, mut ends): (Vec<Time>, Vec<Time>) = spans.into_iter().unzip();
        starts.sort_unstable();
        ends.sort_unstable();
        Spans { starts, ends }
    }
}

/// Packets of a leg, from which its losses are found.
struct Leg {
    kind: PacketKind,
    src: NodeId,
    sent: Vec<Sent>,
    /// Times at which packets were queued for the last link on their path, and were of use at its end; by first byte.
    arrivals: BTreeMap<Option<u64>, Vec<(Time, Time)>>,
    /// Times at which packets were lost, in order; by first byte.
    lost: BTreeMap<Option<u64>, Vec<Time>>,
}

impl Leg {
    fn new(
        network: &Network,
        hops: &[Hop],
        lost: &[(Time, ObservedPacket)],
        (kind, src): (PacketKind, NodeId),
    ) -> Leg {
        let mut leg = Leg { kind, src, sent: Vec::new(), arrivals: BTreeMap::new(), lost: BTreeMap::new() };
        for (at, packet) in lost {
            if leg.has(packet) {
                leg.lost.entry(packet.offset).or_default().push(*at);
            }
        }
        let own: Vec<&Hop> = hops.iter().filter(|hop| leg.has(&hop.packet)).collect();
        for hop in own.iter().filter(|hop| is_last(network, hop)) {
            if !leg.was_lost_on(hop) {
                leg.arrivals.entry(hop.packet.offset).or_default().push((hop.ready, hop.onward));
            }
        }
        leg.sent = leg.sent_by(first_links(network, own));
        leg
    }

    /// Returns whether a packet is data of the leg, or the header of trimmed data.
    fn has(&self, packet: &ObservedPacket) -> bool {
        let kind = if packet.kind == PacketKind::Header { PacketKind::Data } else { packet.kind };
        (kind, packet.src) == (self.kind, self.src)
    }

    /// Returns when this packet of the leg was first lost, from `from` on.
    fn next_lost(&self, offset: Option<u64>, from: Time) -> Option<Time> {
        let lost = self.lost.get(&offset)?;
        lost.get(lost.partition_point(|at| *at < from)).copied()
    }

    /// Returns whether this packet of the leg was lost before.
    fn was_lost_before(&self, offset: Option<u64>, at: Time) -> bool {
        self.next_lost(offset, Time::ZERO).is_some_and(|lost| lost < at)
    }

    /// Returns whether this link lost the packet; the loss is known when its times are decided.
    fn was_lost_on(&self, hop: &Hop) -> bool {
        self.next_lost(hop.packet.offset, hop.ready).is_some_and(|at| at <= hop.first)
    }

    fn sent_by(&self, hops: Vec<&Hop>) -> Vec<Sent> {
        let mut before = BTreeSet::new();
        let sent = hops.into_iter().map(|hop| {
            let (ready, offset) = (hop.ready, hop.packet.offset);
            let again = !before.insert(offset) || self.was_lost_before(offset, ready);
            Sent { ready, offset, again: again && offset.is_some() }
        });
        sent.collect()
    }

    /// Returns how long a lost packet was missing, if it concerns the leg.
    fn missing(&self, (at, packet): &(Time, ObservedPacket)) -> Option<(Time, Time)> {
        let mut later = self.sent[self.sent.partition_point(|sent| sent.ready <= *at)..].iter();
        let until = match packet.kind {
            // Missing until it arrives, or is lost again.
            _ if self.has(packet) => {
                let again = later.find(|sent| sent.offset == packet.offset);
                let lost_again = self.next_lost(packet.offset, *at + Time::from_ps(1));
                again.and_then(|again| self.arrival(again)).into_iter().chain(lost_again).min()
            }
            // Missing until the packet that it was for is sent.
            PacketKind::Grant | PacketKind::Notification => {
                let is_for = |sent: &&Sent| packet.offset.is_none() || sent.offset == packet.offset;
                later.find(is_for).map(|sent| sent.ready)
            }
            PacketKind::Ack | PacketKind::Nack => later.next().map(|sent| sent.ready),
            PacketKind::Data | PacketKind::Request | PacketKind::Header => return None,
            PacketKind::Pause | PacketKind::Congestion => return None,
        };
        Some((*at, until.unwrap_or(Time::MAX)))
    }

    /// Returns when a packet arrived; `None` if it never did.
    fn arrival(&self, sent: &Sent) -> Option<Time> {
        let copies = self.arrivals.get(&sent.offset)?.iter().filter(|(ready, _)| *ready >= sent.ready);
        copies.map(|(_, onward)| *onward).min()
    }

    /// Returns the times in which a packet was queued or on a link, unless the same packet was lost before.
    fn under_way(&self, hops: &[Hop]) -> impl Iterator<Item = (Time, Time)> {
        let is_repair =
            |hop: &Hop| self.has(&hop.packet) && self.was_lost_before(hop.packet.offset, hop.ready);
        hops.iter().filter(move |hop| !is_repair(hop)).map(|hop| (hop.ready, hop.onward))
    }
}

/// Returns packets as they leave the node that makes them, in the order in which they join the queue there.
fn first_links<'a>(network: &Network, mut hops: Vec<&'a Hop>) -> Vec<&'a Hop> {
    let by_host = |hop: &Hop| matches!(hop.link, LinkId::Host(_));
    // Where nodes forward for each other, some fabrics have no link from a node to its switch.
    let direct = !hops.iter().any(|hop| by_host(hop));
    hops.retain(|hop| match hop.link {
        LinkId::Host(_) => true,
        LinkId::Port(port) => direct && network.topology.owner(port) == hop.packet.src,
    });
    hops.sort_by_key(|hop| (hop.ready, hop.first));
    hops
}

/// Returns whether this link is the last on a packet's path.
fn is_last(network: &Network, hop: &Hop) -> bool {
    match end_of(network, hop.link) {
        End::Node(_) => true,
        // Where nodes forward for each other, the last link may be one between them.
        End::Switch(node) => network.topology.graph().is_some() && node == hop.packet.dst,
    }
}

/// Returns the times in which a link repeated one of these packets.
pub(super) fn repetitions(hops: &[Hop]) -> Vec<(Time, Time)> {
    let repeated = hops.iter().filter(|hop| hop.repeated > Time::ZERO);
    union(repeated.map(|hop| (hop.first, hop.first + hop.repeated)).collect())
}

/// Returns the device at the other end of a link.
pub(super) fn end_of(network: &Network, link: LinkId) -> End {
    match link {
        LinkId::Host(link) => End::Switch(network.topology.switch_at(link)),
        LinkId::Port(port) => network.topology.end(port),
    }
}

/// Returns the times that are in any of the spans, sorted, without overlaps.
pub(super) fn union(mut spans: Vec<(Time, Time)>) -> Vec<(Time, Time)> {
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

/// Returns whether this time is in one of these spans, which are sorted and do not overlap.
pub(super) fn within(spans: &[(Time, Time)], at: Time) -> bool {
    let next = spans.partition_point(|(from, _)| *from <= at);
    next > 0 && at < spans[next - 1].1
}
