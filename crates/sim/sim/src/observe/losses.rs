//! Losses of a message, and the times at which they held it up.

use std::collections::{BTreeMap, BTreeSet};
use unrack_engine::events::{Hop, LinkId, ObservedPacket, PacketKind, WaitReason};
use unrack_engine::network::Network;
use unrack_engine::topology::LinkEnd;
use unrack_units::Time;
use unrack_workload::NodeId;

/// Losses of a message as they concern one leg: its request, or its data.
pub(super) struct Losses {
    /// Packets of the leg, as they leave the node that created them, in the order in which they joined its queue.
    sent: Vec<LegPacket>,
    /// Time at which the last packet that had not been sent before joined the queue.
    last_new: Time,
    /// Periods in which packets were lost and not yet replaced.
    missing: Spans,
    /// Periods in which packets of the message were in flight, except retransmissions of lost packets.
    under_way: Spans,
    /// Periods in which a link repeated a transmission.
    repeated: Vec<(Time, Time)>,
}

/// A packet of the leg that leaves its node.
#[derive(Debug, Clone, Copy)]
struct LegPacket {
    ready: Time,
    offset: Option<u64>,
    /// Whether the same packet was sent, or lost, before.
    again: bool,
}

impl Losses {
    /// Finds the losses that concern packets of this kind that `src` creates, among all packets of the message.
    pub(super) fn new(
        network: &Network,
        hops: &[Hop],
        lost: &[(Time, ObservedPacket)],
        of: (PacketKind, NodeId),
    ) -> Losses {
        let leg = LegPackets::new(network, hops, lost, of);
        let new = leg.sent.iter().filter(|sent| !sent.again);
        Losses {
            last_new: new.map(|sent| sent.ready).max().unwrap_or(Time::ZERO),
            missing: lost.iter().filter_map(|lost| leg.missing(lost)).collect(),
            under_way: leg.under_way(hops).collect(),
            repeated: repetitions(hops),
            sent: leg.sent,
        }
    }

    /// Returns the times at which the result of [`Losses::hold_up`] may change, except the times of the packets of the
    /// leg.
    pub(super) fn cuts(&self) -> impl Iterator<Item = Time> + '_ {
        let repeated = self.repeated.iter().flat_map(|&(from, until)| [from, until]);
        self.missing.ends().chain(self.under_way.ends()).chain(repeated)
    }

    /// Returns whether a loss keeps the leg from sending at this time. `wait` is the reason that the fabric reported.
    ///
    /// A loss is the cause in two cases. Either the next packet that leaves is a retransmission. Or at least as many
    /// packets of the message are lost as are in flight, so that lost packets take up most of what the message may have
    /// in flight. There are exceptions. Packets that the node could send but holds back wait for other reasons, and so
    /// do new packets that could be granted. A message that waits for credits is held up by packets that a link
    /// repeats.
    pub(super) fn hold_up(&self, at: Time, wait: Option<WaitReason>) -> bool {
        let missing = self.missing.count(at);
        if missing == 0 {
            return wait == Some(WaitReason::Credit) && within(&self.repeated, at);
        }
        let next = self.sent.partition_point(|sent| sent.ready <= at);
        let is_repair = self.sent.get(next).is_some_and(|sent| sent.again);
        match wait {
            Some(WaitReason::Turn | WaitReason::Pacing | WaitReason::Pause) => false,
            Some(WaitReason::GrantTurn) => is_repair && self.last_new <= at,
            _ => is_repair || missing >= self.under_way.count(at),
        }
    }

    /// Returns whether this packet of the leg is a retransmission because a packet of the message was lost.
    pub(super) fn is_repair(&self, hop: &Hop) -> bool {
        let lost_before = self.missing.starts.first().is_some_and(|from| *from < hop.ready);
        let from = self.sent.partition_point(|sent| sent.ready < hop.ready);
        let together = self.sent[from..].iter().take_while(|sent| sent.ready == hop.ready);
        lost_before && together.filter(|sent| sent.offset == hop.packet.offset).any(|sent| sent.again)
    }
}

/// A set of periods, stored as starts and ends.
#[derive(Debug, Default)]
struct Spans {
    /// Starts, sorted.
    starts: Vec<Time>,
    /// Ends, sorted.
    ends: Vec<Time>,
}

impl Spans {
    /// Returns the number of periods that contain this time.
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
struct LegPackets {
    kind: PacketKind,
    src: NodeId,
    sent: Vec<LegPacket>,
    /// Times at which packets joined the queue of the last link of their path and were usable at its end, by offset.
    arrivals: BTreeMap<Option<u64>, Vec<(Time, Time)>>,
    /// Times at which packets were lost, in order, by offset.
    lost: BTreeMap<Option<u64>, Vec<Time>>,
}

impl LegPackets {
    fn new(
        network: &Network,
        hops: &[Hop],
        lost: &[(Time, ObservedPacket)],
        (kind, src): (PacketKind, NodeId),
    ) -> LegPackets {
        let mut leg =
            LegPackets { kind, src, sent: Vec::new(), arrivals: BTreeMap::new(), lost: BTreeMap::new() };
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

    /// Returns whether a packet is data of the leg, or the header of trimmed data of the leg.
    fn has(&self, packet: &ObservedPacket) -> bool {
        let kind = if packet.kind == PacketKind::Header { PacketKind::Data } else { packet.kind };
        (kind, packet.src) == (self.kind, self.src)
    }

    /// Returns the first time from `from` on at which the packet of the leg with this offset was lost.
    fn next_lost(&self, offset: Option<u64>, from: Time) -> Option<Time> {
        let lost = self.lost.get(&offset)?;
        lost.get(lost.partition_point(|at| *at < from)).copied()
    }

    /// Returns whether the packet of the leg with this offset was lost before `at`.
    fn was_lost_before(&self, offset: Option<u64>, at: Time) -> bool {
        self.next_lost(offset, Time::ZERO).is_some_and(|lost| lost < at)
    }

    /// Returns whether this link lost the packet. A loss is recorded when the times of the transmission are decided.
    fn was_lost_on(&self, hop: &Hop) -> bool {
        self.next_lost(hop.packet.offset, hop.ready).is_some_and(|at| at <= hop.first)
    }

    fn sent_by(&self, hops: Vec<&Hop>) -> Vec<LegPacket> {
        let mut before = BTreeSet::new();
        let sent = hops.into_iter().map(|hop| {
            let (ready, offset) = (hop.ready, hop.packet.offset);
            let again = !before.insert(offset) || self.was_lost_before(offset, ready);
            LegPacket { ready, offset, again: again && offset.is_some() }
        });
        sent.collect()
    }

    /// Returns the period in which a lost packet was missing; `None` if the packet does not concern the leg.
    fn missing(&self, (at, packet): &(Time, ObservedPacket)) -> Option<(Time, Time)> {
        let mut later = self.sent[self.sent.partition_point(|sent| sent.ready <= *at)..].iter();
        let until = match packet.kind {
            // A packet is missing until it arrives or is lost again.
            _ if self.has(packet) => {
                let again = later.find(|sent| sent.offset == packet.offset);
                let lost_again = self.next_lost(packet.offset, *at + Time::from_ps(1));
                again.and_then(|again| self.arrival(again)).into_iter().chain(lost_again).min()
            }
            // A control packet is missing until the packet for which it was needed is sent.
            PacketKind::Grant | PacketKind::Notification => {
                let is_for = |sent: &&LegPacket| packet.offset.is_none() || sent.offset == packet.offset;
                later.find(is_for).map(|sent| sent.ready)
            }
            PacketKind::Ack | PacketKind::Nack => later.next().map(|sent| sent.ready),
            PacketKind::Data | PacketKind::Request | PacketKind::Header => return None,
            PacketKind::Pause | PacketKind::Congestion => return None,
        };
        Some((*at, until.unwrap_or(Time::MAX)))
    }

    /// Returns the time at which a packet arrived; `None` if it never did.
    fn arrival(&self, sent: &LegPacket) -> Option<Time> {
        let copies = self.arrivals.get(&sent.offset)?.iter().filter(|(ready, _)| *ready >= sent.ready);
        copies.map(|(_, onward)| *onward).min()
    }

    /// Returns the periods in which packets were queued or on a link, except packets that had been lost before.
    fn under_way(&self, hops: &[Hop]) -> impl Iterator<Item = (Time, Time)> {
        let is_repair =
            |hop: &Hop| self.has(&hop.packet) && self.was_lost_before(hop.packet.offset, hop.ready);
        hops.iter().filter(move |hop| !is_repair(hop)).map(|hop| (hop.ready, hop.onward))
    }
}

/// Returns packets as they leave the node that created them, in the order in which they joined its queue.
fn first_links<'a>(network: &Network, mut hops: Vec<&'a Hop>) -> Vec<&'a Hop> {
    let by_host = |hop: &Hop| matches!(hop.link, LinkId::Host(_));
    // If nodes forward for each other, some fabrics have no link from a node to its switch.
    let direct = !hops.iter().any(|hop| by_host(hop));
    hops.retain(|hop| match hop.link {
        LinkId::Host(_) => true,
        LinkId::Port(port) => direct && network.topology.owner(port) == hop.packet.src,
    });
    hops.sort_by_key(|hop| (hop.ready, hop.first));
    hops
}

/// Returns whether this link is the last link on the path of the packet.
fn is_last(network: &Network, hop: &Hop) -> bool {
    match end_of(network, hop.link) {
        LinkEnd::Node(_) => true,
        // If nodes forward for each other, the last link of a path may be a link between nodes.
        LinkEnd::Switch(node) => network.topology.graph().is_some() && node == hop.packet.dst,
    }
}

/// Returns the periods in which a link repeated one of these packets.
pub(super) fn repetitions(hops: &[Hop]) -> Vec<(Time, Time)> {
    let repeated = hops.iter().filter(|hop| hop.repeated > Time::ZERO);
    union(repeated.map(|hop| (hop.first, hop.first + hop.repeated)).collect())
}

/// Returns the device at the other end of a link.
pub(super) fn end_of(network: &Network, link: LinkId) -> LinkEnd {
    match link {
        LinkId::Host(link) => LinkEnd::Switch(network.topology.switch_at(link)),
        LinkId::Port(port) => network.topology.end(port),
    }
}

/// Returns the union of the spans, sorted and without overlaps.
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

/// Returns whether one of these spans contains this time. The spans are sorted and do not overlap.
pub(super) fn within(spans: &[(Time, Time)], at: Time) -> bool {
    let next = spans.partition_point(|(from, _)| *from <= at);
    next > 0 && at < spans[next - 1].1
}
