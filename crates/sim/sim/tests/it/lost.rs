//! One packet lost on purpose, under every fabric: the explanation calls its cost lost, and the fabric recovers.
//!
//! A link that is down for a picosecond loses the packet that crosses it then, and nothing else
//! ([`unrack_sim::faults`]). So a run without failures tells when a packet is alone on a link, and in a second run
//! the link fails at that time.

use crate::common;
use crate::common::fabrics::*;

use common::setup_on;
use proptest::prelude::*;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::Arc;
use unrack_protocol::{homa, phost};
use unrack_rack::graph::{Graph, Sides};
use unrack_rack::{Protocol, Wiring};
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::Pace;
use unrack_sim::observe::{Explanation, Journal, Packets, TimeSpent, Views, explain};
use unrack_sim::topology::{Link, LinkEnd, Topology};
use unrack_sim::{FabricConfig, Hop, LinkId, PacketKind, Run, Setup, Work};
use unrack_units::{Rate, Time};
use unrack_workload::{
    Arrivals, Message, MessageId, Pattern, SizeCdf, SizeDistribution, SyntheticSpec, Traffic,
};

const BUFFER: u64 = 1 << 20;

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

/// Creates a network that suits the fabric, of six nodes or more, with short links, so that packets in a row are
/// alone on them.
fn topology(protocol: Protocol) -> Topology {
    match protocol {
        R2c2::PROTOCOL | Pfq::PROTOCOL => {
            let sides = Sides::new(&[3, 2]).unwrap();
            Topology::direct(Arc::new(Graph::cube(sides, true).unwrap()), link(100, 10))
        }
        Mptcp::PROTOCOL => {
            let wiring = Wiring { racks: 2, hosts_per_rack: 3, cores: 0 };
            Topology::drack(wiring, link(100, 10), link(100, 10), link(500, 10))
        }
        Edm::PROTOCOL => Topology::star(6, link(100, 10)),
        _ => Topology::leaf_spine(2, 3, 2, link(100, 10), link(400, 10)),
    }
}

/// Results of a watched run.
struct Watched {
    run: Run,
    hops: Vec<Hop>,
    journal: Journal,
    setup: Setup,
}

impl Watched {
    fn new(setup: Setup, work: &Work) -> Watched {
        let hops = RefCell::new(Vec::new());
        let packets = Packets::new(|hop, _| hops.borrow_mut().push(*hop));
        let journal = Some(Journal::of_all());
        let mut watch = Views { packets: Some(packets), journal, ..Views::default() };
        let run = setup.watched(work, &mut watch, |_| {}).unwrap().run;
        watch.packets.take().unwrap().finish();
        let journal = watch.journal.take().unwrap();
        drop(watch);
        Watched { run, hops: hops.into_inner(), journal, setup }
    }

    fn explain(&self, index: usize) -> Explanation {
        let id = MessageId(index as u32);
        explain(&self.journal, &self.setup.network, id).expect("it finished")
    }

    fn completion(&self, index: usize) -> Option<Time> {
        self.run.outcomes[index].completion()
    }

    /// Returns a time at which this packet is alone on its cable, in both directions.
    fn alone(&self, hop: &Hop) -> Option<Time> {
        let topology = &self.setup.network.topology;
        let ours = cable(topology, hop.link);
        let spans = self.hops.iter().filter(|other| *other != hop && cable(topology, other.link) == ours);
        let mut spans: Vec<(Time, Time)> = spans.map(|other| (other.first, other.arrival())).collect();
        spans.sort_unstable();
        let mut at = hop.first;
        for (first, arrived) in spans {
            if first > at {
                break;
            }
            at = at.max(arrived + Time::from_ps(1));
        }
        (at <= hop.arrival()).then_some(at)
    }
}

/// Returns the cable of a link.
fn cable(topology: &Topology, link: LinkId) -> BrokenPart {
    let port = match link {
        LinkId::Host(number) => return BrokenPart::Node(number),
        LinkId::Port(port) => port,
    };
    match (topology.attachment_of(port), topology.end(port)) {
        (Some(number), _) | (None, LinkEnd::Node(number)) => BrokenPart::Node(number),
        (None, LinkEnd::Switch(other)) => {
            let own = topology.owner(port);
            BrokenPart::Between(own.min(other), own.max(other))
        }
    }
}

fn setup(protocol: Protocol) -> Setup {
    setup_on(topology(protocol), protocol, BUFFER)
}

/// Does the same with a cable that is down for a while.
fn with_outage(protocol: Protocol, what: BrokenPart, (from, length): (Time, Time)) -> Setup {
    let failure = Downtime { what, from, until: from + length, every: None, detected_after: None };
    let faults = FaultSchedule::new(&topology(protocol), &[failure], ErrorRates::default(), 3).unwrap();
    setup_on(topology(protocol).with_faults(faults), protocol, BUFFER)
}

/// Returns the time for each cause, the longest first.
fn causes(explained: &Explanation) -> Vec<(TimeSpent, Time)> {
    let mut sums = explained.sums();
    sums.sort_by_key(|(_, time)| std::cmp::Reverse(*time));
    sums
}

fn lost(explained: &Explanation) -> Time {
    let lost = explained.parts.iter().filter(|part| part.place == TimeSpent::Lost);
    lost.fold(Time::ZERO, |sum, part| sum + part.time)
}

/// A packet of a message, on one link, in a run without failures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Victim {
    First(PacketKind),
    Middle(PacketKind),
    Last(PacketKind),
}

/// Returns the packets that can be lost alone, and when: the first, the last and one in the middle of each kind, on
/// the link by which the packet leaves its node and on another.
fn victims(plain: &Watched) -> Vec<(Victim, Hop, Time)> {
    let topology = &plain.setup.network.topology;
    let leaves = |hop: &Hop| match hop.link {
        LinkId::Host(_) => true,
        LinkId::Port(port) => topology.graph().is_some() && topology.owner(port) == hop.packet.src,
    };
    let mut all = Vec::new();
    for (kind, leaving) in PacketKind::ALL.into_iter().flat_map(|kind| [(kind, true), (kind, false)]) {
        let is_one = |hop: &&Hop| hop.message.is_some() && hop.packet.kind == kind && leaves(hop) == leaving;
        let hops: Vec<&Hop> = plain.hops.iter().filter(is_one).collect();
        let alone = |hop: &&Hop| plain.alone(hop).map(|at| (**hop, at));
        let half = hops.len() / 2;
        let found = [
            (Victim::First(kind), hops.iter().find_map(alone)),
            (Victim::Middle(kind), hops[half..].iter().chain(&hops[..half]).find_map(alone)),
            (Victim::Last(kind), hops.iter().rev().find_map(alone)),
        ];
        all.extend(found.into_iter().filter_map(|(victim, found)| found.map(|(hop, at)| (victim, hop, at))));
    }
    all
}

/// Loses each victim of a lone message, one at a time. Returns those whose loss cost more than everything else.
fn lose_each(protocol: Protocol, message: Message) -> BTreeSet<Victim> {
    let work = Work::listed(vec![(Time::from_us(1), message)]);
    let plain = Watched::new(setup(protocol), &work);
    let unharmed = plain.completion(0).unwrap();
    let mut costly = BTreeSet::new();
    for (victim, hop, at) in victims(&plain) {
        // A link of cxl sends lost flits again: only a longer outage costs time.
        let is_cxl = protocol == Cxl::PROTOCOL;
        let length = if is_cxl { Time::from_us(20) } else { Time::from_ps(1) };
        let what = cable(&plain.setup.network.topology, hop.link);
        let failed = Watched::new(with_outage(protocol, what, (at, length)), &work);
        let case = format!("{protocol}, {message:?}, {victim:?} on {:?}", hop.link);
        assert_eq!(failed.run.counters.dropped_packets, u64::from(!is_cxl), "{case}");
        let completion = failed.completion(0).expect("it is sent again");
        let cost = completion.saturating_sub(unharmed);
        let explained = failed.explain(0);
        assert_sums(&explained, completion);
        let causes = causes(&explained);
        // Waits that the message would have had in any case may have passed meanwhile, and the other way round.
        let lost = lost(&explained);
        let (most, least) = (lost.max(cost), lost.min(cost));
        assert!(most - least <= unharmed * 2, "{case}: lost {lost}, but it cost {cost}: {causes:?}");
        if cost * 2 > completion {
            assert_eq!(causes[0].0, TimeSpent::Lost, "{case}: {causes:?}");
            costly.insert(victim);
        }
    }
    costly
}

fn assert_sums(explained: &Explanation, completion: Time) {
    let mut now = explained.submitted;
    for part in &explained.parts {
        assert_eq!(part.from, now);
        now += part.time;
    }
    assert_eq!(now, explained.submitted + completion);
}

/// Returns control packets whose loss holds a message up for long, besides requests.
fn control(protocol: Protocol) -> &'static [PacketKind] {
    match protocol {
        // The next packet makes up for a lost one.
        Homa::PROTOCOL | Phost::PROTOCOL | Ird::PROTOCOL => &[PacketKind::Grant],
        // Packets to and from the arbiter.
        Fastpass::PROTOCOL => &[PacketKind::Notification],
        _ => &[],
    }
}

/// Returns whether a message can complete although one of its packets is lost.
fn recovers(protocol: Protocol) -> bool {
    match protocol {
        // It has no packets and no links.
        Ideal::PROTOCOL => false,
        // Its nodes hold packets back, and it refuses a network that fails.
        Pfq::PROTOCOL => false,
        // Lost packets are not sent again (EDM §3.3): the reader gives up, or nobody hears of it.
        Edm::PROTOCOL => false,
        _ => true,
    }
}

#[test]
fn whichever_packet_is_lost_that_is_the_largest_part() {
    for protocol in known().protocols.into_iter().filter(|protocol| recovers(*protocol)) {
        let three = lose_each(protocol, Message::flow(0, 5, 4_000));
        let read = lose_each(protocol, Message::read(0, 5, 4_000));
        let long = lose_each(protocol, Message::flow(0, 5, 40_000));
        lose_each(protocol, Message::rmw(0, 5, 100));
        let data = PacketKind::Data;
        for victim in [Victim::First(data), Victim::Middle(data), Victim::Last(data)] {
            assert!(three.contains(&victim), "{protocol}: {victim:?} of {three:?}");
        }
        assert!(read.contains(&Victim::First(PacketKind::Request)), "{protocol}: {read:?}");
        assert!(long.contains(&Victim::Last(data)), "{protocol}: {long:?}");
        for kind in control(protocol) {
            let lost = [&three, &long].map(|costly| costly.contains(&Victim::First(*kind)));
            assert!(lost.contains(&true), "{protocol}: {kind:?} of {three:?} and {long:?}");
        }
    }
}

#[test]
fn where_nothing_is_sent_again_there_is_nothing_to_explain() {
    let work = Work::listed(vec![(Time::from_us(1), Message::flow(0, 5, 4_000))]);
    for protocol in known().protocols.into_iter().filter(|protocol| !recovers(*protocol)) {
        let plain = Watched::new(setup(protocol), &work);
        let Some((_, hop, at)) = victims(&plain).into_iter().next() else {
            assert_eq!(protocol, Ideal::PROTOCOL);
            continue;
        };
        let what = cable(&plain.setup.network.topology, hop.link);
        let setup = with_outage(protocol, what, (at, Time::from_ps(1)));
        if protocol == Pfq::PROTOCOL {
            assert!(setup.run(&work, |_| {}).is_err());
            continue;
        }
        let failed = Watched::new(setup, &work);
        assert!(failed.completion(0).is_none() && failed.run.counters.dropped_packets == 1);
        assert!(explain(&failed.journal, &failed.setup.network, MessageId(0)).is_none(), "{protocol}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// Losses of any packet of any message among others: the lost part is no larger than it can be.
    #[test]
    fn parts_sum_whatever_is_lost(
        which in 0usize..known().protocols.len(),
        drawn in prop::collection::vec((0u64..3_000, 0u32..6, 1u32..6, 1u64..30_000), 1..20),
        from in 0u64..20_000, length in 1u64..2_000, node in 0u32..6,
    ) {
        let protocol = known().protocols[which];
        prop_assume!(recovers(protocol));
        let mut script: Vec<_> = drawn.into_iter().map(|(at, src, ahead, bytes)| {
            let make = if bytes % 2 == 0 { Message::read } else { Message::write };
            (Time::from_ns(at), make(src, (src + ahead) % 6, bytes))
        }).collect();
        script.sort_by_key(|(at, _)| *at);
        let outage = (Time::from_ns(from), Time::from_ns(length));
        let failed = Watched::new(with_outage(protocol, BrokenPart::Node(node), outage), &Work::listed(script));
        for (index, outcome) in failed.run.outcomes.iter().enumerate() {
            let Some(completion) = outcome.completion() else { continue };
            let explained = failed.explain(index);
            assert_sums(&explained, completion);
            let nothing = failed.journal.lost(MessageId(index as u32)).next().is_none();
            prop_assert!(!nothing || protocol == Cxl::PROTOCOL || lost(&explained) == Time::ZERO);
        }
    }
}

/// A receiver of which all packets are lost waits for one timeout, and not for a second after it was told (Homa §3.7:
/// a receiver that is asked about an unknown message asks for all of it at once).
#[test]
fn a_receiver_that_knew_nothing_grants_as_soon_as_it_is_told() {
    for protocol in [Homa::PROTOCOL, Phost::PROTOCOL] {
        for timeout in [Time::from_us(60), Time::from_us(2_000)] {
            for (bytes, kind) in [1, 839, 4_000, 9_000, 40_000, 300_000].into_iter().flat_map(|bytes| {
                [(bytes, Message::flow as fn(u32, u32, u64) -> Message), (bytes, Message::read)]
            }) {
                // No packet reaches or leaves node 5 until all that needs no grant has been sent.
                let mut setup = with_outage(protocol, BrokenPart::Node(5), (Time::ZERO, Time::from_us(20)));
                setup.fabric = match protocol {
                    Homa::PROTOCOL => FabricConfig::new::<Homa>(homa::Params {
                        resend: Some(timeout),
                        ..Default::default()
                    }),
                    _ => FabricConfig::new::<Phost>(phost::Params {
                        timeout: Some(timeout),
                        ..Default::default()
                    }),
                };
                let message = kind(0, 5, bytes);
                let run = setup.run(&Work::listed(vec![(Time::ZERO, message)]), |_| {}).unwrap().run;
                let completion = run.outcomes[0].completion().unwrap();
                // Data beyond the first window is granted at the pace of the link.
                let most = timeout + run.unloaded[0] * 2 + Time::from_us(3);
                assert!(
                    run.counters.dropped_packets > 0 && completion <= most,
                    "{protocol}, {timeout}, {message:?}: {completion}"
                );
            }
        }
    }
}

/// A rack whose ports hold 36 KiB, with Homa's unasked packets in them: messages that wait for a timeout say so.
#[test]
fn what_waits_for_a_time_out_among_others_is_lost_too() {
    for (seed, load) in [(1, 0.6), (4, 0.6), (2, 0.8)] {
        let topology = Topology::leaf_spine(4, 8, 2, link(100, 100), link(400, 200));
        let patient = homa::Params { resend: Some(Time::from_us(2_000)), ..Default::default() };
        let fabric = FabricConfig::new::<Homa>(patient);
        let setup = Setup { seed, fabric, ..setup_on(topology, Homa::PROTOCOL, 36 << 10) };
        let points = [(100.0, 0.2), (1_000.0, 0.6), (100_000.0, 0.95), (2_000_000.0, 1.0)];
        let spec = SyntheticSpec {
            traffic: Traffic::Flows,
            size: SizeDistribution::Cdf(SizeCdf::new(&points, 1.0).unwrap()),
            pattern: Pattern::AllToAll,
            blades: None,
            arrivals: Arrivals::Poisson,
            load,
            messages: 1_500,
        };
        let watched = Watched::new(setup, &Work::Synthetic(spec));
        let slow = (0..watched.run.messages.len()).filter(|index| watched.run.slowdown(*index) > Some(20.0));
        let slow: Vec<usize> = slow.collect();
        assert!(slow.len() > 20, "{}", slow.len());
        for index in slow {
            let (explained, message) = (watched.explain(index), watched.run.messages[index]);
            assert_sums(&explained, watched.completion(index).unwrap());
            assert_eq!(causes(&explained)[0].0, TimeSpent::Lost, "{message:?}: {:?}", causes(&explained));
        }
    }
}
