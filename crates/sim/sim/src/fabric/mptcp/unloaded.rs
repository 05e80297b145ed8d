//! Completion time of a message that is alone, found by simulation.
//!
//! There is no closed form, because the choice of a subflow for each segment depends on when acknowledgements come. However, the segments
//! of a message are sent like the first segments of a longer message, and no later segment delays them. Therefore one message is simulated
//! for all messages that take paths of the same length ([`Pattern`]), and a shorter message ends when its segments ended in that
//! simulation. Only its last packet, which may be short, is traced over its path again. Where this reasoning may fail, each message is
//! simulated itself: inside hosts, in shared buffers, after a loss, and from the first segment on that another segment has overtaken.

use super::{Mptcp, Multipath, StreamPlan, Streams};
use crate::fabric::single_message::Alike;
use std::cell::RefCell;
use std::collections::BTreeMap;
use unrack_engine::events::{Hop, LinkId, Observer, PacketKind};
use unrack_engine::network::Departure;
use unrack_units::Time;
use unrack_workload::{Message, MessageId};

/// Simulations of messages whose times are used for other messages.
#[derive(Default)]
pub(super) struct Patterns {
    known: RefCell<BTreeMap<Alike, SegmentPaths>>,
}

/// Maximum number of segments of a message that is simulated for others. The records of a longer message would not be worth the memory that
/// they take.
const MOST_SEGMENTS: usize = 1 << 18;

impl Mptcp {
    pub(super) fn carried_alone(&self, message: &Message) -> Time {
        self.as_part_of_another(message).unwrap_or_else(|| self.streams.carried_alone(message))
    }

    /// Returns the completion time of a message that is sent like the first part of a longer message, or `None` if that time is not known.
    fn as_part_of_another(&self, message: &Message) -> Option<Time> {
        let streams = &self.streams;
        let segments = streams.plan.framing.segments(message.bytes) as usize;
        if streams.hosts.is_some() || streams.wires.occupancy.is_some() || segments > MOST_SEGMENTS {
            return None;
        }
        let alike = Alike::new(&streams.plan.network, message);
        let mut patterns = self.patterns.known.borrow_mut();
        let pattern = patterns.entry(alike).or_default();
        if pattern.ways.len() < segments && pattern.ways.len() == pattern.sound {
            let longer = segments.max(2 * pattern.sound).min(MOST_SEGMENTS);
            let bytes = longer as u64 * streams.plan.framing.mss().get();
            let tracer = PathTracer::new(&streams.plan, alike.links, longer);
            *pattern = streams.carry_alone(&Message { bytes, ..*message }, tracer).1.finish();
        }
        pattern.time(streams, message.bytes)
    }
}

/// Segments of a message that was simulated alone: their times and paths.
#[derive(Default)]
struct SegmentPaths {
    /// Times of each segment.
    ways: Vec<SegmentTimes>,
    /// Steps of each segment in order, one for each link on the path.
    steps: Vec<Step>,
    /// Number of leading segments that were neither lost nor overtaken, and that no retransmission delayed.
    sound: usize,
}

/// Times of one segment.
#[derive(Clone, Copy)]
struct SegmentTimes {
    /// Time at which the segment joined the queue of its first link.
    sent: Time,
    /// Time at which the segment arrived. In a finished pattern: the time at which it and all earlier segments had arrived.
    arrived: Time,
    steps: usize,
}

/// Crossing of one link by a segment.
#[derive(Clone, Copy)]
struct Step {
    link: LinkId,
    /// Time at which the previous packet joined the queue of this link.
    joined: Option<Time>,
    /// Time at which the previous packet has left.
    free: Time,
}

impl SegmentPaths {
    fn new(links: usize, segments: usize) -> SegmentPaths {
        let way = SegmentTimes { sent: Time::ZERO, arrived: Time::ZERO, steps: 0 };
        let step = Step { link: LinkId::Host(0), joined: None, free: Time::ZERO };
        SegmentPaths { ways: vec![way; segments], steps: vec![step; segments * links], sound: segments }
    }

    fn time(&self, streams: &Streams<Multipath>, bytes: u64) -> Option<Time> {
        let framing = &streams.plan.framing;
        let last = framing.segments(bytes) - 1;
        let wire = framing.wire(framing.payload(bytes, last)).get();
        if last as usize >= self.sound {
            return None;
        }
        let arrived = self.again(streams, last as usize, wire as u32)?;
        let before = last.checked_sub(1).map(|before| self.ways[before as usize].arrived);
        Some(arrived.max(before.unwrap_or(Time::ZERO)))
    }

    /// Returns when a packet of `wire` bytes arrives that is sent instead of segment `number`; `None` if that time is not known.
    fn again(&self, streams: &Streams<Multipath>, number: usize, wire: u32) -> Option<Time> {
        let topology = &streams.plan.network.topology;
        let pace = |link| match link {
            LinkId::Host(nic) => topology.attachment_link(nic).pace,
            LinkId::Port(port) => topology.link(port).pace,
        };
        let SegmentTimes { sent: mut at, steps, .. } = self.ways[number];
        let steps = &self.steps[number * steps..][..steps];
        for (n, Step { link, joined, free }) in steps.iter().copied().enumerate() {
            let ahead = pace(link).bytes_in(free.saturating_sub(at));
            // A shorter packet arrives earlier, possibly before a packet that the segment had to follow.
            if n > 0 && (joined.is_some_and(|joined| joined >= at) || !streams.wires.room.takes(ahead, wire))
            {
                return None;
            }
            let first = free.max(at);
            let departure = Departure { first, last: first + pace(link).transmit(u64::from(wire)) };
            let ready = match steps.get(n + 1) {
                Some(next) => streams.plan.ready(departure, wire, pace(next.link)),
                None => departure.last,
            };
            at = ready + topology.propagation(link);
        }
        Some(at)
    }
}

/// Observer that records the paths of segments.
struct PathTracer<'a> {
    plan: &'a StreamPlan,
    /// Number of links on each path.
    links: usize,
    pattern: SegmentPaths,
    disturbed: bool,
    /// For the last packet that joined each link: when it joined, when it leaves, and the highest segment that has joined so far.
    last: BTreeMap<LinkId, (Time, Time, usize)>,
}

impl PathTracer<'_> {
    fn new(plan: &StreamPlan, links: usize, segments: usize) -> PathTracer<'_> {
        let pattern = SegmentPaths::new(links, segments);
        PathTracer { plan, links, pattern, disturbed: false, last: BTreeMap::new() }
    }

    /// Marks the time from which on retransmissions or losses may have affected segments that have not arrived yet.
    fn disturb(&mut self, now: Time) {
        if !std::mem::replace(&mut self.disturbed, true) {
            let there = |way: &SegmentTimes| way.steps == self.links && way.arrived < now;
            let sound = self.pattern.ways[..self.pattern.sound].iter().position(|way| !there(way));
            self.pattern.sound = sound.unwrap_or(self.pattern.sound);
        }
    }

    fn finish(mut self) -> SegmentPaths {
        self.disturb(Time::MAX);
        let mut all = Time::ZERO;
        for way in &mut self.pattern.ways {
            all = all.max(way.arrived);
            way.arrived = all;
        }
        self.pattern
    }
}

impl Observer for PathTracer<'_> {
    const HOPS: bool = true;

    fn retransmitted(&mut self, _: MessageId, now: Time) {
        self.disturb(now);
    }
    fn dropped(&mut self, _: MessageId, _: u64, now: Time) {
        self.disturb(now);
    }
    fn hop(&mut self, hop: &Hop, _: Time) {
        let number = match (hop.packet.kind, hop.packet.offset) {
            (PacketKind::Data, Some(offset)) => Some((offset / self.plan.framing.mss().get()) as usize),
            _ => None,
        };
        let before = self.last.get(&hop.link).copied();
        let highest = before.map_or(0, |(.., highest)| highest).max(number.unwrap_or(0));
        self.last.insert(hop.link, (hop.ready, hop.last, highest));
        let SegmentPaths { ways, steps, sound } = &mut self.pattern;
        let Some(number) = number.filter(|number| *number < *sound) else { return };
        let way = &mut ways[number];
        if highest > number || way.steps == self.links {
            *sound = number;
            return;
        }
        if way.steps == 0 {
            way.sent = hop.ready;
        }
        let free = before.map_or(Time::ZERO, |(_, last, _)| last);
        let joined = before.map(|(ready, ..)| ready);
        steps[number * self.links + way.steps] = Step { link: hop.link, joined, free };
        way.steps += 1;
        way.arrived = hop.onward;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::site::Ethernet;
    use crate::site::SwitchBuffer;
    use proptest::prelude::*;
    use unrack_engine::events::Unobserved;
    use unrack_engine::network::{Network, Pace};
    use unrack_engine::topology::{Link, Topology};
    use unrack_protocol::mptcp::{Coupling, Params, Scheduler};
    use unrack_rack::Wiring;
    use unrack_units::{Bytes, Rate};

    fn link(gbps: u64, ns: u64) -> Link {
        Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
    }

    fn drack(racks: u32, hosts_per_rack: u32) -> Topology {
        let wiring = Wiring { racks, hosts_per_rack, cores: Wiring::default_cores(racks, hosts_per_rack) };
        Topology::drack(wiring, link(100, 200), link(100, 350), link(500, 55))
    }

    fn fabric(topology: Topology, buffer: u64, cut_through: bool, params: &Params) -> Mptcp {
        let network = Network { topology, switch_latency: Time::from_ns(300) };
        let (mtu, buffer) = (Bytes::new(1500), SwitchBuffer::Private(Bytes::new(buffer)));
        Mptcp::new(&network, &Ethernet { mtu, headers: true, buffer, cut_through }, params).unwrap()
    }

    #[test]
    fn where_nics_are_wired_directly_one_message_tells_of_all() {
        let fabric = fabric(drack(2, 4), 1 << 24, true, &Params::default());
        for bytes in (1..400_000).rev().step_by(999).chain([1, 1460, 1461]) {
            assert!(fabric.carried_alone(&Message::write(0, 4, bytes)) > Time::ZERO);
        }
        assert!(fabric.streams.lone.known.borrow().is_empty());
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        /// Checks paths that meet, paths that drop packets, and paths that do neither.
        #[test]
        fn a_part_of_another_takes_as_long_as_if_carried_itself(
            which in 0usize..5,
            buffer in prop::sample::select(vec![8_000u64, 40_000, 1 << 24]),
            cut_through: bool,
            coupling in prop::sample::select(vec![Coupling::Lia, Coupling::Olia, Coupling::Uncoupled]),
            scheduler in prop::sample::select(vec![Scheduler::MinRtt, Scheduler::RoundRobin]),
            sizes in prop::collection::vec((1u64..300_000, any::<bool>()), 1..12),
        ) {
            let (topology, subflows, dst) = match which {
                0 => (drack(2, 4), None, 4),
                1 => (drack(4, 2), None, 2),
                2 => (drack(4, 2), None, 1),
                3 => (Topology::leaf_spine(2, 2, 2, link(100, 200), link(100, 350)), Some(5), 2),
                _ => (Topology::leaf_spine(2, 2, 3, link(40, 200), link(100, 350)), Some(3), 2),
            };
            let params = Params { subflows, coupling, scheduler, ..Params::default() };
            let fabric = fabric(topology, buffer, cut_through, &params);
            for (bytes, reads) in sizes {
                let message = if reads { Message::read(0, dst, bytes) } else { Message::write(0, dst, bytes) };
                prop_assert_eq!(fabric.carried_alone(&message), fabric.streams.carry_alone(&message, Unobserved).0, "{} B", bytes);
            }
        }
    }
}
