//! R2C2 on tori and meshes: arithmetic of lone flows, conservation, fair rates, losses.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_conserved, completion_ps, run, setup_on};
use proptest::prelude::*;
use std::cell::RefCell;
use std::sync::Arc;
use unrack_protocol::r2c2::selection::{Expression, Selection};
use unrack_protocol::r2c2::terms::Rule;
use unrack_protocol::r2c2::{FirstRate, Params, RateControl, Routing};
use unrack_rack::graph::{Graph, Sides};
use unrack_sim::fabric::r2c2::R2c2;
use unrack_sim::fabric::tcp::Tcp;
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::{Network, Pace};
use unrack_sim::observe::{Packets, Views};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Hop, LinkId, PacketKind, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn topology(sides: &[u32], wraps: bool) -> Topology {
    let graph = Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap();
    let link = Link { pace: Pace::new(Rate::from_gbps(10)), propagation: Time::from_ns(100) };
    Topology::direct(Arc::new(graph), link)
}

fn network(topology: Topology) -> Network {
    Network { topology, switch_latency: Time::from_ns(5) }
}

fn ethernet(buffer: u64, cut_through: bool) -> Ethernet {
    Ethernet {
        mtu: Bytes::new(1_500),
        headers: true,
        buffer: SwitchBuffer::Private(Bytes::new(buffer)),
        cut_through,
    }
}

fn r2c2(network: &Network, ethernet: &Ethernet, routing: Routing) -> R2c2 {
    R2c2::new(network, ethernet, &Params { routing, ..Params::default() }, 7).unwrap()
}

const LARGE: u64 = 1 << 30;

#[test]
fn a_lone_flow_takes_what_arithmetic_says() {
    // One packet is exact; with more, each may wait for a broadcast, and the last for the one before it, at each
    // link.
    let sizes = [1, 7, 64, 1_463, 1_464, 1_465, 2_928, 4_096, 300_000];
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    for (sides, wraps) in [(&[4, 4][..], true), (&[3, 3, 3], true), (&[4, 2], false)] {
        for (routing, cut_through) in [
            (Routing::Spraying, true),
            (Routing::Spraying, false),
            (Routing::Ecmp, true),
            (Routing::DestinationTag, false),
        ] {
            let network = network(topology(sides, wraps));
            let all = kinds.iter().flat_map(|kind| sizes.map(|bytes| kind(0, network.nodes() - 1, bytes)));
            let script = all.enumerate().map(|(n, m)| (Time::from_us(10_000) * n as u64, m)).collect();
            let run = run(r2c2(&network, &ethernet(LARGE, cut_through), routing), script);
            assert_conserved(&run);
            for (n, message) in run.messages.iter().enumerate() {
                let (took, least) = (completion_ps(&run, n), run.unloaded[n].as_ps());
                let waits = if message.bytes <= 1_464 { 0 } else { (13_000 + 1_200_000) * 6 };
                assert!((least..=least + waits).contains(&took), "{routing} {message:?}: {took} {least}");
                assert!(run.unloaded[n] >= network.ideal(message));
            }
        }
    }
}

/// Full packets by a single path: the headroom leaves gaps between them, so that none waits for anything.
#[test]
fn full_packets_by_one_way_take_exactly_what_arithmetic_says() {
    for (sides, routing) in [(&[2][..], Routing::Spraying), (&[5], Routing::Vlb), (&[5], Routing::Ecmp)] {
        let network = network(topology(sides, false));
        for cut_through in [true, false] {
            let script = [1, 2, 10, 300].map(|packets| {
                let message = Message::flow(0, network.nodes() - 1, packets * 1_464);
                (Time::from_us(10_000) * packets, message)
            });
            let run = run(r2c2(&network, &ethernet(36_000, cut_through), routing), script.to_vec());
            assert_conserved(&run);
            for (n, message) in run.messages.iter().enumerate() {
                let least = run.unloaded[n].as_ps();
                match routing {
                    // Paths of this routing differ.
                    Routing::Vlb => assert!(completion_ps(&run, n) >= least),
                    _ => assert_eq!(completion_ps(&run, n), least, "{routing} {message:?}"),
                }
            }
        }
    }
}

/// First rate: a flow begins as fast as the slowest of its links allows, so that small queues lose nothing and the
/// rate is the final one from the start.
#[test]
fn a_flow_begins_at_the_rate_of_its_slowest_link() {
    let cables = [(0, 1), (1, 2), (2, 3)];
    let link = |gbps| Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(100) };
    let graph = Arc::new(Graph::of_cables(4, &cables).unwrap());
    let network = network(Topology::direct_by(graph, &[10, 4, 25].map(link)));
    for routing in [Routing::Spraying, Routing::DestinationTag, Routing::Ecmp] {
        let packets = 2_000;
        let script = vec![(Time::ZERO, Message::flow(0, 3, packets * 1_464))];
        let run = run(r2c2(&network, &ethernet(6_000, true), routing), script);
        assert_conserved(&run);
        assert_eq!(run.counters.dropped_packets, 0, "{routing}");
        let us = completion_ps(&run, 0) as f64 / 1e6;
        let expected = packets as f64 * 1_500.0 * 8.0 / 3_800.0;
        assert!((expected - 4.0..expected + 4.0).contains(&us), "{routing}: {us} for {expected}");
        assert!(run.unloaded[0].as_ps() <= completion_ps(&run, 0));
    }
}

/// Rates by water-filling: n flows over one link of a line share it, less the headroom.
#[test]
fn flows_that_share_a_link_share_it_fairly() {
    let network = network(topology(&[3], false));
    // Flows from both nodes to node 2, over the link from 1 to 2: half of 9.5 Gb/s each.
    let bytes = 20_000_000;
    let script = vec![(Time::ZERO, Message::flow(0, 2, bytes)), (Time::ZERO, Message::flow(1, 2, bytes))];
    let run = run(r2c2(&network, &ethernet(LARGE, true), Routing::Spraying), script);
    assert_conserved(&run);
    for n in 0..2 {
        let gbps = bytes as f64 * 8.0 * 1_500.0 / 1_464.0 / (completion_ps(&run, n) as f64 / 1e3);
        // The flows send at full rate until both are known to be old enough.
        assert!((4.7..5.0).contains(&gbps), "{gbps}");
    }
    // The queue is what came in the first interval of two flows at 10 Gb/s, and does not grow.
    assert!(run.queue_bytes.max() < 1_300_000, "{}", run.queue_bytes.max());
}

/// Returns the rates in Gb/s of two flows over the last link of a line, from 0 (20 MB) and from 1 (`last` bytes) to
/// 2, under these rules.
fn over_one_link(rules: Vec<Rule>, last: u64) -> [f64; 2] {
    let network = network(topology(&[3], false));
    let sizes = [20_000_000, last];
    let script = [0, 1].map(|src| (Time::ZERO, Message::flow(src, 2, sizes[src as usize])));
    let params = Params { rules, ..Params::default() };
    let run = run(R2c2::new(&network, &ethernet(LARGE, true), &params, 7).unwrap(), script.to_vec());
    assert_conserved(&run);
    [0, 1].map(|n| {
        assert!(run.unloaded[n].as_ps() <= completion_ps(&run, n));
        sizes[n] as f64 * 8.0 * 1_500.0 / 1_464.0 / (completion_ps(&run, n) as f64 / 1e3)
    })
}

fn of(src: u32) -> Rule {
    Rule { src: Some(vec![src]), ..Rule::default() }
}

#[test]
fn weights_and_priorities_are_kept() {
    // Three quarters and one quarter of 9.5 Gb/s, until the first is done.
    let [three, one] = over_one_link(vec![Rule { weight: Some(3), ..of(0) }], 20_000_000);
    assert!((6.9..7.5).contains(&three) && (4.5..5.0).contains(&one), "{three} {one}");
    let [first, last] = over_one_link(vec![Rule { priority: Some(1), ..of(1) }], 20_000_000);
    assert!((9.3..9.8).contains(&first) && (4.5..5.0).contains(&last), "{first} {last}");
}

/// Host-limited flow: its host gives it 2 Gb/s. R2C2 is not told, but sees it, and gives the rest to the other flow.
#[test]
fn what_a_host_does_not_use_others_get() {
    let [limited, other] =
        over_one_link(vec![Rule { demand: Some(Rate::from_gbps(2)), ..of(0) }], 60_000_000);
    let wire = 2.0 * 1_500.0 / 1_464.0;
    assert!((wire * 0.99..wire * 1.01).contains(&limited), "{limited}");
    assert!((7.2..7.7).contains(&other), "{other}");
    // From 10 ms on the flow has all of its bytes, and a fair share.
    let all = Rule { at: Time::from_us(10_000), demand: Some(Rate::from_gbps(100)), ..of(0) };
    let [limited, _] =
        over_one_link(vec![Rule { demand: Some(Rate::from_gbps(2)), ..of(0) }, all], 60_000_000);
    let expected = 20.0 * 8.0 / (10.0 + (20.0 - 2.5) * 8.0 / 4.75 * 1_500.0 / 1_464.0) * 1_500.0 / 1_464.0;
    assert!((expected * 0.95..expected * 1.05).contains(&limited), "{limited} for {expected}");
}

#[test]
fn a_flow_under_way_takes_other_ways_when_a_rule_says_so() {
    let network = network(topology(&[4, 4], true));
    let bytes = 50_000_000;
    let rule = Rule { at: Time::from_us(10_000), routing: Some(Routing::Spraying), ..Rule::default() };
    let params = Params { routing: Routing::Ecmp, rules: vec![rule], ..Params::default() };
    let r2c2 = R2c2::new(&network, &ethernet(LARGE, true), &params, 7).unwrap();
    let run = run(r2c2, vec![(Time::ZERO, Message::flow(0, 10, bytes))]);
    assert_conserved(&run);
    // One path of 9.5 Gb/s for 10 ms, then four.
    let ms = completion_ps(&run, 0) as f64 / 1e9;
    let expected = 10.0 + (50.0 * 8.0 * 1_500.0 / 1_464.0 - 95.0) / 38.0;
    assert!((expected * 0.97..expected * 1.05).contains(&ms), "{ms} for {expected}");
}

fn selection(period_us: u64, utility: &str) -> Selection {
    let search = unrack_protocol::r2c2::selection::Params { population: 20, ..Default::default() };
    Selection {
        period: Time::from_us(period_us),
        routings: vec![Routing::Spraying, Routing::Wlb],
        utility: Expression::parse(utility).unwrap(),
        search,
    }
}

/// Selection on a ring whose flows all go three hops ahead: shortest paths leave half of the ring empty.
#[test]
fn routings_are_chosen_for_what_the_rack_is_worth() {
    let network = network(topology(&[8], true));
    let bytes = 20_000_000;
    let ms = |selection| {
        let script = (0..8).map(|src| (Time::ZERO, Message::flow(src, (src + 3) % 8, bytes))).collect();
        let params = Params { selection, ..Params::default() };
        let run = run(R2c2::new(&network, &ethernet(LARGE, true), &params, 7).unwrap(), script);
        assert_conserved(&run);
        (0..8).map(|n| completion_ps(&run, n)).max().unwrap() as f64 / 1e9
    };
    let wire = bytes as f64 * 8.0 * 1_500.0 / 1_464.0 / 1e6;
    let (before, after) = (wire / (9.5 / 3.0), wire / (9.5 / 1.875));
    let sprayed = ms(None);
    assert!((before * 0.95..before * 1.02).contains(&sprayed), "{sprayed} for {before}");
    for utility in ["aggregate", "min(rate)", "sum(log(rate))"] {
        let chosen = ms(Some(selection(2_000, utility)));
        assert!(chosen < after * 1.2, "{utility}: {chosen} for {after}");
    }
    // A utility that more rate would lower leaves the routings alone.
    let worst = ms(Some(selection(2_000, "-aggregate")));
    assert!(worst > sprayed * 0.99, "{worst} {sprayed}");
}

fn central(controller: u32) -> Params {
    Params { control: RateControl::Central, controller, ..Params::default() }
}

/// Central control: several long flows have the rates that nodes would have computed for themselves.
#[test]
fn a_controller_gives_the_same_rates() {
    let network = network(topology(&[4, 4], true));
    let rule = |src, weight| Rule { weight: Some(weight), ..of(src) };
    let limited = Rule { demand: Some(Rate::from_gbps(1)), ..of(7) };
    let rules = vec![rule(1, 3), rule(2, 2), limited];
    let flows = [(0, 5), (1, 5), (2, 10), (3, 10), (5, 0), (6, 9), (7, 8), (12, 5)];
    let of = |params: Params| {
        let params = Params { rules: rules.clone(), ..params };
        let script = flows.map(|(src, dst)| (Time::ZERO, Message::flow(src, dst, 30_000_000))).to_vec();
        let run = run(R2c2::new(&network, &ethernet(LARGE, true), &params, 7).unwrap(), script);
        assert_conserved(&run);
        (0..flows.len()).map(|n| completion_ps(&run, n) as f64).collect::<Vec<f64>>()
    };
    let all = of(Params::default());
    for controller in [0, 14] {
        for (n, (all, central)) in all.iter().zip(of(central(controller))).enumerate() {
            // The flows take some tens of ms; the controller learns of changes later, and acts at the end of its
            // intervals.
            let later_ms = (central - all) / 1e9;
            assert!(later_ms.abs() < 1.0, "flow {n} by {controller}: {later_ms} ms of {all}");
        }
    }
}

/// Seven flows of a ring that share no link: the controller is told twice of each, and gives it a rate once.
#[test]
fn what_a_controller_costs_is_on_its_links() {
    let flow = |(n, src): (u64, u32)| (Time::from_us(n), Message::flow(src, (src + 1) % 8, 2_000_000));
    let mut script: Vec<(Time, Message)> = (1..8).map(|src| flow((0, src))).collect();
    // A later message keeps the run going until all rates have been given; it is announced too.
    script.push((Time::from_us(5_000), Message::flow(1, 2, 100)));
    let mut setup = setup_on(topology(&[8], true), R2c2::PROTOCOL, LARGE);
    setup.fabric = FabricConfig::new::<R2c2>(central(0));
    let hops = RefCell::new(Vec::new());
    let packets = Packets::new(|hop: &Hop, _| hops.borrow_mut().push(*hop));
    let mut watch = Views { packets: Some(packets), ..Views::default() };
    let run = setup.watched(&Work::listed(script), &mut watch, |_| {}).unwrap().run;
    assert!(run.is_complete());
    watch.packets.take().unwrap().finish();
    drop(watch);
    let ring = Graph::cube(Sides::new(&[8]).unwrap(), true).unwrap();
    let [mut told, mut given, mut all] = [0; 3];
    for hop in hops.into_inner() {
        let LinkId::Port(link) = hop.link else { continue };
        match hop.packet.kind {
            PacketKind::Notification if ring.to(link) == 0 => told += hop.wire,
            PacketKind::Grant if ring.from(link) == 0 => given += hop.wire,
            _ => continue,
        }
        all += 1;
    }
    // Header and broadcast; header, number and rate.
    assert_eq!((told, given, all), (8 * 2 * (36 + 16), 7 * (36 + 6), 8 * 2 + 7));
}

/// A lone sprayed flow uses all links on its paths: across a square torus of 4 x 4 it has four at the source, and more
/// than three times a link's rate.
#[test]
fn a_long_flow_uses_all_its_ways() {
    let network = network(topology(&[4, 4], true));
    let bytes = 50_000_000;
    let run = run(
        r2c2(&network, &ethernet(LARGE, true), Routing::Spraying),
        vec![(Time::ZERO, Message::flow(0, 10, bytes))],
    );
    let gbps = bytes as f64 * 8.0 / (completion_ps(&run, 0) as f64 / 1e3);
    // Four links of 9.5 Gb/s, less headers and a first interval at 10.
    assert!((33.0..38.0).contains(&gbps), "{gbps}");
    assert_eq!(run.counters.dropped_packets, 0);
    assert!(run.unloaded[0].as_ps() <= completion_ps(&run, 0));
}

/// The same rate from the first packet on, if a scenario asks for it.
#[test]
fn a_flow_may_begin_by_all_its_ways() {
    let network = network(topology(&[4, 4], true));
    let bytes = 400_000;
    let [by_one, by_all] = [FirstRate::Link, FirstRate::Alone].map(|first_rate| {
        let params = Params { first_rate, ..Params::default() };
        let fabric = R2c2::new(&network, &ethernet(LARGE, true), &params, 7).unwrap();
        let run = run(fabric, vec![(Time::ZERO, Message::flow(0, 10, bytes))]);
        assert_conserved(&run);
        assert!(run.unloaded[0].as_ps() <= completion_ps(&run, 0));
        bytes as f64 * 8.0 / (completion_ps(&run, 0) as f64 / 1e3)
    });
    assert!((8.5..9.8).contains(&by_one), "{by_one}");
    assert!((31.0..38.0).contains(&by_all), "{by_all}");
}

#[test]
fn every_flow_is_announced_by_two_broadcasts() {
    let network = network(topology(&[8, 8], true));
    let hops = |script| {
        let r2c2 = r2c2(&network, &ethernet(LARGE, true), Routing::Spraying);
        run(r2c2, script).counters.packet_hops
    };
    let one = |us| (Time::from_us(us), Message::flow(0, 1, 100));
    // One packet and its acknowledgement over one link; start and end over 63 links each. A run ends with its last
    // message; every fourth flow of a node has the same tree.
    let five = (0..5).map(|n| one(100 * n)).collect();
    assert_eq!(hops(five) - hops(vec![one(0)]), 4 * (2 + 2 * 63));
}

#[test]
fn what_cannot_be_is_refused() {
    let good = network(topology(&[4, 4], true));
    let refused = |network: &Network, params: &Params| {
        R2c2::new(network, &ethernet(LARGE, true), params, 1).err().expect("refused").to_string()
    };
    let link = good.topology.core_link();
    let star = Network { topology: Topology::star(4, link), switch_latency: Time::ZERO };
    assert!(refused(&star, &Params::default()).contains("torus, mesh or graph"));
    assert!(
        refused(&good, &Params { interval: Time::ZERO, ..Params::default() }).contains("fabric.interval")
    );
    assert!(refused(&good, &Params { trees: 0, ..Params::default() }).contains("fabric.trees"));
    assert!(refused(&good, &Params { ack_every: 65, ..Params::default() }).contains("fabric.ack_every"));
    let by = |rule| refused(&good, &Params { rules: vec![rule], ..Params::default() });
    assert!(by(of(16)).contains("fabric.rules.0.src"));
    assert!(refused(&good, &Params { controller: 16, ..Params::default() }).contains("fabric.controller"));
    let selects = Params { selection: Some(selection(1, "tail")), ..central(0) };
    assert!(refused(&good, &selects).contains("fabric.control"));
    assert!(by(Rule { weight: Some(0), ..of(0) }).contains("fabric.rules.0.weight"));
    assert!(by(Rule { demand: Some(Rate::from_bps(999)), ..of(0) }).contains("fabric.rules.0.demand"));
    let by = |selection| refused(&good, &Params { selection: Some(selection), ..Params::default() });
    assert!(by(selection(0, "tail")).contains("fabric.selection.period"));
    assert!(
        by(Selection { routings: Vec::new(), ..selection(1, "tail") }).contains("fabric.selection.routings")
    );
    let large = network(topology(&[16, 16, 16, 16], false));
    assert!(refused(&large, &Params::default()).contains("65536 nodes with 4 trees, 16 GB"));
    let long = network(topology(&[90], true));
    assert!(refused(&long, &Params::default()).contains("45 hops"));
}

fn any_flows() -> impl Strategy<Value = Vec<(Time, Message)>> {
    prop::collection::vec((0u64..300, 0u32..16, 1u32..16, 1u64..200_000), 1..60).prop_map(|drawn| {
        let flow = |(at, src, apart, bytes)| {
            let dst = (src + apart) % 16;
            let message =
                if bytes % 3 == 0 { Message::read(src, dst, bytes) } else { Message::flow(src, dst, bytes) };
            (Time::from_us(at), message)
        };
        drawn.into_iter().map(flow).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { max_shrink_iters: 30, ..ProptestConfig::with_cases(24) })]

    /// Every flow arrives, whole and once, by any routing, through small queues and over bad links.
    #[test]
    fn all_arrives(
        flows in any_flows(), routing in prop::sample::select(&Routing::ALL[..]), buffer in 0usize..3, errors: bool,
        selects: bool, is_central: bool, fails in 0u64..300,
    ) {
        let errors = ErrorRates { host: 0.0, core: if errors { 1e-6 } else { 0.0 } };
        let topology = topology(&[4, 4], true);
        // Failures: one link for ever, and another now and then.
        let failure = |(a, b), every| Downtime {
            what: BrokenPart::Between(a, b),
            from: Time::from_us(fails),
            until: if every == 0 { Time::MAX } else { Time::from_us(fails + 90) },
            every: (every > 0).then(|| Time::from_us(every)),
            detected_after: Some(Time::from_us(fails % 60)),
        };
        // No multiple of it is a timeout: otherwise retransmissions could always meet an outage.
        let failures = [failure((1, 5), 0), failure((2, 3), 263)];
        let failures = if fails < 100 { &failures[..0] } else { &failures };
        let faults = FaultSchedule::new(&topology, failures, errors, 3).unwrap();
        let network = network(topology.with_faults(faults));
        let ethernet = ethernet([3_000, 36_000, LARGE][buffer], true);
        let selection = selects.then(|| selection(100, "tail + aggregate / 100"));
        let rule = Rule { at: Time::from_us(150), weight: Some(2), priority: Some(1), ..of(3) };
        let rules = if selects { vec![rule] } else { Vec::new() };
        let control = if is_central && !selects { RateControl::Central } else { RateControl::Decentralized };
        let interval = Time::from_us(50);
        let params = Params { routing, selection, rules, interval, control, ..Params::default() };
        let r2c2 = || R2c2::new(&network, &ethernet, &params, 7).unwrap();
        let result = run(r2c2(), flows.clone());
        prop_assert!(result.is_complete());
        // Duplicates may still be under way when everything has arrived.
        if result.counters.dropped_packets == 0 {
            assert_conserved(&result);
        }
        for (n, outcome) in result.outcomes.iter().enumerate() {
            prop_assert!(outcome.completion().unwrap() >= network.ideal(&result.messages[n]));
        }
        let again = run(r2c2(), flows);
        prop_assert_eq!(result.outcomes, again.outcomes);
        prop_assert_eq!(result.counters, again.counters);
    }

    /// TCP on the same network: one path per flow.
    #[test]
    fn tcp_takes_one_path_a_flow(flows in any_flows()) {
        let network = network(topology(&[4, 4], true));
        let tcp = Tcp::new(&network, &ethernet(36_000, true), &Default::default()).unwrap();
        let run = run(tcp, flows);
        assert_conserved(&run);
        for (n, outcome) in run.outcomes.iter().enumerate() {
            prop_assert!(outcome.completion().unwrap() >= network.ideal(&run.messages[n]));
        }
    }
}

/// Creates a network in which these parts fail, with times in us; other nodes know 50 us later.
fn failing(sides: &[u32], failures: &[(BrokenPart, u64, Option<u64>)]) -> Network {
    let topology = topology(sides, true);
    let failure = |(what, from, until): &(BrokenPart, u64, Option<u64>)| Downtime {
        what: *what,
        from: Time::from_us(*from),
        until: until.map_or(Time::MAX, Time::from_us),
        every: None,
        detected_after: Some(Time::from_us(50)),
    };
    let failures: Vec<Downtime> = failures.iter().map(failure).collect();
    let faults = FaultSchedule::new(&topology, &failures, ErrorRates::default(), 1).unwrap();
    network(topology.with_faults(faults))
}

/// Returns messages between all pairs of nodes, 100 KB each, begun over 3 ms.
fn between_all(nodes: u32) -> Vec<(Time, Message)> {
    let pairs = (0..nodes).flat_map(|src| (1..nodes).map(move |apart| (src, (src + apart) % nodes)));
    let message = |(n, (src, dst)): (usize, (u32, u32))| {
        let kinds = [Message::flow, Message::read, Message::write];
        (Time::from_us(n as u64 * 3_000 / u64::from(nodes * nodes)), kinds[n % 3](src, dst, 100_000))
    };
    pairs.enumerate().map(message).collect()
}

#[test]
fn flows_go_around_what_is_down_for_good() {
    for routing in Routing::ALL {
        let network = failing(
            &[4, 4],
            &[(BrokenPart::Between(0, 1), 400, None), (BrokenPart::Between(0, 4), 900, None)],
        );
        let run = run(r2c2(&network, &ethernet(LARGE, true), routing), between_all(16));
        assert!(run.is_complete() && run.counters.dropped_packets > 0, "{routing}");
        // Losses before the failure is known cost a timeout, and not as long as TCP would try.
        let last = run.outcomes.iter().filter_map(|outcome| outcome.completed()).max().unwrap();
        assert!(last < Time::from_us(60_000), "{routing}: {last}");
    }
}

#[test]
fn flows_of_a_node_that_died_are_given_up_and_all_others_finish() {
    for (routing, until) in [(Routing::Spraying, None), (Routing::Vlb, None), (Routing::Romm, Some(40_000))] {
        let network = failing(&[4, 4], &[(BrokenPart::Node(5), 1_000, until)]);
        let run = run(r2c2(&network, &ethernet(LARGE, true), routing), between_all(16));
        let mut given_up = 0;
        for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
            let needs = message.src == 5 || message.dst == 5;
            assert!(outcome.completed().is_some() || needs && until.is_none(), "{routing} {message:?}");
            assert!(needs || outcome.completed() < Some(Time::from_us(100_000)), "{routing} {message:?}");
            given_up += u32::from(outcome.is_given_up());
        }
        assert_eq!(given_up > 10, until.is_none(), "{routing}: {given_up}");
        let patience = Time::from_us(13_000_000)..Time::from_us(60_000_000);
        assert!(until.is_some() || patience.contains(&run.ended), "{routing}: {}", run.ended);
    }
}

/// Known failures: once a link is known to be down, no packet takes it, and rates are those of the links that are
/// left.
#[test]
fn rates_are_those_of_what_is_left() {
    let network = failing(&[8], &[(BrokenPart::Between(2, 3), 5_000, None)]);
    let bytes = 30_000_000;
    let script = vec![(Time::ZERO, Message::flow(1, 4, bytes)), (Time::ZERO, Message::flow(0, 6, bytes))];
    let run = run(r2c2(&network, &ethernet(LARGE, true), Routing::Spraying), script);
    assert!(run.is_complete());
    // Each flow has the ring for itself, then both go the other way and share it.
    let wire = bytes as f64 * 8.0 * 1_500.0 / 1_464.0 / 1e6;
    let expected = 5.0 + 2.0 * (wire - 9.5 * 5.0) / 9.5;
    let last = [0, 1].map(|n| completion_ps(&run, n)).into_iter().max().unwrap() as f64 / 1e9;
    assert!((expected * 0.98..expected * 1.1).contains(&last), "{last} for {expected}");
}

/// A link that is down for a while: lost packets, and broadcasts too, are sent again.
#[test]
fn a_link_that_comes_back_loses_nothing_for_good() {
    let topology = topology(&[4, 4], true);
    let failure = Downtime {
        what: BrokenPart::Between(0, 1),
        from: Time::from_us(5),
        until: Time::from_us(900),
        every: None,
        detected_after: None,
    };
    let faults = FaultSchedule::new(&topology, &[failure], ErrorRates::default(), 1).unwrap();
    let network = network(topology.with_faults(faults));
    let script =
        (0..40).map(|n| (Time::from_us(20 * n), Message::flow(0, 1 + n as u32 % 15, 30_000))).collect();
    let run = run(r2c2(&network, &ethernet(LARGE, true), Routing::Spraying), script);
    assert!(run.is_complete() && run.counters.dropped_packets > 0);
}
