//! Nodes in virtual time: reproducible, and as fast as they compute.

mod net;
mod script;

use self::net::{Faults, Net};
use super::*;
use crate::content::Checks;
use proptest::prelude::*;
use std::collections::BTreeSet;
use unrack_protocol::r2c2::links::LinkState;
use unrack_protocol::r2c2::packet::{Assignment, Event as Told, Route};
use unrack_protocol::r2c2::selection::Selection;
use unrack_protocol::r2c2::terms::Rule;
use unrack_protocol::r2c2::{Params, Routing};
use unrack_rack::{LinkSpec, NetworkSpec, Scenario};
use unrack_units::Rate;

fn network(kind: &str, shape: &str) -> NetworkSpec {
    let text = format!(
        "[network]\ntopology = {{ kind = \"{kind}\", shape = {shape} }}\n[fabric]\nprotocol = \"r2c2\"\n\
         [workload]\nkind = \"flows\"\nsize = \"1KiB\"\nload = \"1%\"\nmessages = 1\n"
    );
    Scenario::parse("test", &text, &std::iter::empty::<String>().collect())
        .and_then(unrack_sim::check)
        .unwrap()
        .network
}

fn plan(kind: &str, shape: &str, params: Params) -> Arc<TorusPlan> {
    let mut network = network(kind, shape);
    network.link = LinkSpec { rate: Rate::from_gbps(1), propagation: Time::from_us(1) };
    Arc::new(TorusPlan::new(&network, &unrack_rack::Faults::default(), &params, 7).unwrap())
}

fn any_plan() -> impl Strategy<Value = Arc<TorusPlan>> {
    let shapes = [
        ("torus", "[4, 4]"),
        ("torus", "[3, 3]"),
        ("torus", "[2, 5]"),
        ("mesh", "[2, 3]"),
        ("torus", "[3, 2, 4]"),
    ];
    (prop::sample::select(shapes.to_vec()), prop::sample::select(&Routing::ALL[..]), 1u32..30).prop_map(
        |((kind, shape), routing, ack_every)| {
            plan(kind, shape, Params { routing, ack_every, ..Params::default() })
        },
    )
}

/// One day: all is over by then.
const END: Time = Time::from_us(86_400_000_000);

proptest! {
    /// Whatever links do, every flow arrives complete and in order, and no payload appears or vanishes uncounted.
    #[test]
    fn all_comes_as_it_was_sent(
        plan in any_plan(), seed: u64,
        flows in prop::collection::vec((any::<u32>(), any::<u32>(), 1u64..150_000, 0u64..3_000), 1..20),
        (lost, doubled, flipped) in prop_oneof![Just((0u8, 0u8, 0u8)), (0u8..12, 0u8..12, Just(0)), (0u8..6, 0u8..6, 0u8..6)],
    ) {
        let mut net = Net::new(plan.clone(), Faults { lost, doubled, flipped, ..Faults::default() }, seed);
        let nodes = plan.nodes();
        let mut flows: Vec<_> = flows.into_iter().map(|(src, apart, bytes, at)| {
            let src = src % nodes;
            (Time::from_us(at), src, (src + 1 + apart % (nodes - 1)) % nodes, bytes)
        }).collect();
        flows.sort();
        for (message, (at, src, dst, bytes)) in flows.iter().enumerate() {
            net.run(*at);
            net.now = net.now.max(*at);
            net.submit(message as u32, (*src, *dst), *bytes);
        }
        net.run(END);
        let (around, counters) = (&net.around, net.counters());
        prop_assert!(around.given_up.is_empty(), "{:?} of {}", around.given_up, flows.len());
        prop_assert_eq!(around.acknowledged.len(), flows.len());
        prop_assert_eq!(around.wrong, 0);
        let arrived: Vec<u64> = around.arrived.values().copied().collect();
        prop_assert_eq!(arrived, flows.iter().map(|flow| flow.3).collect::<Vec<_>>());
        if flipped == 0 {
            prop_assert_eq!(counters.malformed, 0);
            prop_assert_eq!(
                counters.sent_bytes + around.doubled,
                counters.arrived_bytes + counters.dropped_bytes + around.lost
            );
        }
        if (lost, doubled, flipped) == (0, 0, 0) {
            // Only packets that found their queue full are retransmitted.
            let bytes: u64 = flows.iter().map(|flow| flow.3).sum();
            prop_assert!(counters.sent_bytes >= bytes);
            prop_assert!(counters.dropped_packets > 0 || counters.sent_bytes == bytes);
        }
        prop_assert!(net.nodes.iter().all(|node| node.next_wake().is_none()));
    }

    /// Bytes from anywhere, some of them almost packets, are counted or carried, and nodes go on.
    #[test]
    fn nonsense_does_no_harm(
        plan in any_plan(), seed: u64,
        junk in prop::collection::vec((any::<u32>(), any_junk(), 0u64..50), 0..300),
    ) {
        let mut net = Net::new(plan.clone(), Faults::default(), seed);
        for (to, mut bytes, us) in junk {
            let to = to % plan.nodes();
            // Half of them name this node as their destination.
            if bytes.len() >= DATA_HEADER && us % 2 == 0 {
                bytes[8..10].copy_from_slice(&(to as u16).to_be_bytes());
                bytes = sealed(&bytes);
            }
            net.run(net.now + Time::from_us(us));
            net.around.at = to;
            net.nodes[to as usize].take(net.now, bytes, &mut net.around);
        }
        net.around.checks = Checks::default();
        net.submit(0, (0, 1), 10_000);
        // A forged start may have claimed a share of the rates, but a flow that does not send holds no other back for
        // ever.
        net.run(END);
        prop_assert_eq!(&net.around.acknowledged, &[0]);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]

    /// Broadcasts and reports of their loss are lost: as long as some get through, all nodes know the same flows in
    /// the end.
    #[test]
    fn all_nodes_know_the_same_flows(
        routing in prop::sample::select(&Routing::ALL[..]), seed: u64, refused in 1u8..80, unreported in 0u8..200,
        short in prop::collection::vec((0u32..9, 1u32..9, 1u64..5_000, 0u64..500), 0..10),
    ) {
        // Slow enough to last 160 ms.
        let slow = Rule { demand: Some(Rate::from_bps(10_000_000)), ..Rule::default() };
        let params = Params { routing, rules: vec![slow], ..Params::default() };
        let mut net = Net::new(plan("torus", "[3, 3]", params), Faults { refused, unreported, ..Faults::default() }, seed);
        (0..9).for_each(|src| net.submit(src, (src, (src + 1) % 9), 200_000));
        for (message, (src, apart, bytes, us)) in (9..).zip(short) {
            net.run(net.now + Time::from_us(us));
            net.submit(message, (src, (src + apart) % 9), bytes);
        }
        net.run(Time::from_us(20_000));
        net.around.faults = Faults::default();
        net.run(Time::from_us(120_000));
        let flows = |node: &mut Node| -> Vec<SourceFlow> {
            node.core.view.counting().iter().map(|told| (told.src, told.flow)).collect()
        };
        let known: Vec<Vec<SourceFlow>> = net.nodes.iter_mut().map(flows).collect();
        prop_assert!(known.iter().all(|flows| flows.len() == 9 && *flows == known[0]), "{known:?}");
        net.run(END);
        prop_assert!(net.nodes.iter_mut().all(|node| node.core.view.is_idle() && node.next_wake().is_none()));
        prop_assert!(net.around.given_up.is_empty() && net.around.wrong == 0);
    }

    /// Cables fail and come back, while one packet in sixteen is lost: in the end, all connected nodes know which are
    /// down.
    #[test]
    fn silence_is_found_out(
        seed: u64, failures in prop::collection::vec((0u32..36, 0u64..900, any::<bool>()), 1..5),
    ) {
        let mut net = Net::new(plan("torus", "[3, 3]", Params::default()), Faults { lost: 16, ..Faults::default() }, seed);
        let graph = net.around.plan.setup.graph.clone();
        net.start();
        let mut failures = failures;
        failures.sort_by_key(|(_, at, _)| *at);
        for (link, at, is_down) in failures {
            net.run(Time::from_us(at * 1_000));
            net.around.down.retain(|down| *down != link && *down != graph.reverse(link));
            if is_down {
                net.around.down.extend([link, graph.reverse(link)]);
            }
        }
        net.run(Time::from_us(1_500_000));
        net.around.faults = Faults::default();
        net.run(Time::from_us(1_600_000));
        // Four cables disconnect at most one node of this rack.
        let down = net.around.down.clone();
        let alone = (0..9).filter(|node| graph.links_of(*node).all(|link| down.contains(&link))).count();
        prop_assert!(net.know(&down) >= 9 - alone, "{} know of {down:?}", net.know(&down));
    }

    /// Wrong reports that links are down are corrected by the nodes at the links' ends.
    #[test]
    fn what_is_wrong_of_links_is_put_right(
        seed: u64,
        said in prop::collection::vec((0u32..9, 0u64..60, prop::collection::vec((0u32..40, any::<u32>()), 0..6)), 1..5),
    ) {
        let mut net = Net::new(plan("torus", "[3, 3]", Params::default()), Faults::default(), seed);
        net.start();
        net.submit(0, (0, 4), 100_000);
        for (to, ms, states) in said {
            net.run(net.now + Time::from_us(1_000 * ms));
            let mut packet = Packet::new();
            let of = |(link, version)| LinkState { link, version };
            Hello::encode(&states.into_iter().map(of).collect::<Vec<_>>(), &mut packet);
            net.around.at = to;
            net.nodes[to as usize].take(net.now, packet, &mut net.around);
            net.look(to);
        }
        net.run(net.now + Time::from_us(100_000));
        prop_assert_eq!(net.know(&[]), 9);
        prop_assert_eq!(&net.around.acknowledged, &[0]);
    }
}

fn any_junk() -> impl Strategy<Value = Packet> {
    let heads = prop::sample::select(vec![1u8, 5, 6, 7, 0x60, 0x20, 0x21, 0x30, 0x40, 0x25, 0, 255]);
    let told = (0u16..16, 0u16..16, 0u16..4, 0u8..6).prop_map(|(src, dst, flow, tree)| {
        let asked = unrack_protocol::r2c2::rates::Requirements::default();
        let (event, routing) = (Told::Start, Routing::Spraying);
        Broadcast { event, src, dst, flow, asked, routing, tree }.encode().to_vec()
    });
    let any = (heads, prop::collection::vec(any::<u8>(), 0..100)).prop_map(|(head, mut bytes)| {
        if let Some(first) = bytes.first_mut() {
            *first = head;
        }
        bytes
    });
    let chosen = (0u8..6, 0u16..20, 0u16..9, prop::collection::vec((0u16..16, 0u16..4, 0u8..7), 0..20))
        .prop_map(|(tree, src, number, pairs)| {
            let mut packet = vec![0; 16];
            for (src, flow, code) in pairs {
                packet.extend(src.to_be_bytes().into_iter().chain(flow.to_be_bytes()).chain([code]));
            }
            Announcement { tree, src, number }.seal(&mut packet);
            packet
        });
    prop_oneof![any, told, chosen]
}

/// Seals the same fields with a valid length and checksum, at the end of a route.
fn sealed(bytes: &[u8]) -> Vec<u8> {
    let mut route = Route::default();
    route.push(0);
    let kind = Kind::from_packet(bytes).unwrap_or_default();
    let [flow, src, dst] = [4, 6, 8].map(|at| u16::from_be_bytes([bytes[at], bytes[at + 1]]) % 16);
    // A packet's source cannot be verified; so it is never node 0, the source of the flow under test.
    let src = src.max(1);
    let seq = u32::from_be_bytes([bytes[12], bytes[13], bytes[14], bytes[15]]) >> (bytes[11] % 32);
    let plen = (bytes.len() - DATA_HEADER) as u16;
    let mut packet = bytes.to_vec();
    Data { kind, flow, src, dst, seq, plen, route, ridx: 1 }.seal(&mut packet);
    packet
}

/// §3.3.1: two flows over one link get half each of the rate without headroom.
#[test]
fn flows_share_a_link() {
    let plan = plan("mesh", "[2, 2]", Params { routing: Routing::DestinationTag, ..Params::default() });
    let mut net = Net::new(plan, Faults::default(), 1);
    (0..2).for_each(|message| net.submit(message, (0, 1), 5_000_000));
    net.run(END);
    // 5 MB and headers of 36 B to 1464 B at 475 Mb/s: 86.3 ms. The first interval, at the link's rate, saves one
    // interval.
    for at in net.around.complete.values() {
        assert!((84.0..88.0).contains(&(at.as_us_f64() / 1e3)), "{at}");
    }
    let counters = net.counters();
    assert_eq!((counters.dropped_packets, counters.sent_bytes), (0, 10_000_000));
}

/// A node dies: flows to it are abandoned; others only lose packets that were on their way through it.
#[test]
fn who_sends_to_the_dead_gives_up() {
    let plan = plan("torus", "[4, 4]", Params::default());
    let mut net = Net::new(plan, Faults::default(), 1);
    let flows = [(0, 5), (1, 6), (5, 2), (4, 9), (10, 0)];
    for (message, ends) in flows.into_iter().enumerate() {
        net.submit(message as u32, ends, 1_000_000);
    }
    net.run(Time::from_us(2_000));
    // Node 5 dies: packets on links to it are removed.
    net.around.at = 5;
    net.nodes[5].die(net.now, &mut net.around);
    while net.now < END {
        let toward = |net: &Net| {
            net.around
                .crossings
                .iter()
                .find(|(_, (link, _))| net.around.plan.setup.graph.to(*link) == 5)
                .map(|(key, _)| *key)
        };
        while let Some(key) = toward(&net) {
            net.around.crossings.remove(&key);
        }
        let next = net.around.crossings.first_key_value().map(|((at, _), _)| *at);
        let wake = net.nodes.iter().filter_map(Node::next_wake).min();
        let Some(next) = next.into_iter().chain(wake).min() else { break };
        net.run(next);
    }
    net.around.given_up.sort();
    net.around.acknowledged.sort();
    assert_eq!((net.around.given_up, net.around.acknowledged), (vec![0, 2], vec![1, 3, 4]));
    assert!(net.now < Time::from_us(20_000_000), "{}", net.now);
}

fn complete_ms(net: &Net) -> [f64; 2] {
    [0, 1].map(|message| net.around.complete[&message].as_us_f64() / 1e3)
}

/// §3.3.2: a flow with less to send than its rate announces that, and the other gets the rest.
#[test]
fn what_a_host_cannot_use_is_others() {
    let slow = Rule { dst: Some(vec![2]), demand: Some(Rate::from_bps(50_000_000)), ..Rule::default() };
    // Thirty of its packets are sent in an interval: with two, the sender could not tell how fast they come.
    let params = Params { rules: vec![slow], interval: Time::from_us(7_000), ..Params::default() };
    let mut net = Net::new(plan("mesh", "[3]", params), Faults::default(), 1);
    net.submit(0, (0, 2), 5_000_000);
    net.run(Time::from_us(5_000));
    net.submit(1, (0, 1), 5_000_000);
    net.run(END);
    let [limited, other] = complete_ms(&net);
    assert_eq!(net.counters().dropped_packets, 0);
    // 5 MB at 50 Mb/s; 5.12 MB at the rest of 950 Mb/s, once that is known; 86 ms if it were not.
    assert!((800.0..801.0).contains(&limited), "{limited}");
    assert!((49.0..60.0).contains(&other), "{other}");
}

/// A rule that takes effect later: from then on the flow has three quarters.
#[test]
fn rules_hold_from_their_time_on() {
    let later = Rule { dst: Some(vec![2]), at: Time::from_us(43_000), weight: Some(3), ..Rule::default() };
    let params = Params { rules: vec![later], ..Params::default() };
    let mut net = Net::new(plan("mesh", "[4]", params), Faults::default(), 1);
    net.nodes.iter_mut().for_each(|node| node.begin(Time::ZERO));
    (0..2).for_each(|message| net.submit(message, (0, 2 + message), 5_000_000));
    net.run(END);
    let [first, second] = complete_ms(&net);
    assert_eq!(net.counters().dropped_packets, 0);
    // The first sends half by then at 475 Mb/s, and the rest at 712 Mb/s; after it, the second has the link alone.
    assert!((70.0..73.0).contains(&first), "{first}");
    assert!((83.0..88.0).contains(&second), "{second}");
}

/// Node 5 of 16 fails. Once that is known, all paths avoid it, and nothing more is lost.
#[test]
fn what_is_known_to_be_down_is_avoided() {
    for routing in Routing::ALL {
        let plan = plan("torus", "[4, 4]", Params { routing, ..Params::default() });
        let mut net = Net::new(plan.clone(), Faults::default(), 1);
        let flows = [(4, 6), (1, 9), (0, 10), (8, 2), (0, 5), (5, 3)];
        for (message, ends) in flows.into_iter().enumerate() {
            net.submit(message as u32, ends, 2_000_000);
        }
        net.run(Time::from_us(3_000));
        net.fail(5);
        net.run(Time::from_us(3_500));
        net.discover();
        // Packets that were on their way have arrived or are lost.
        net.run(Time::from_us(5_500));
        let lost = net.around.lost;
        net.run(END);
        assert_eq!(net.around.lost, lost, "{routing}");
        net.around.given_up.sort();
        net.around.acknowledged.sort();
        assert_eq!(
            (&net.around.given_up[..], &net.around.acknowledged[..]),
            (&[4, 5][..], &[0, 1, 2, 3][..])
        );
        assert_eq!(net.around.wrong, 0);
    }
}

/// §3.4: the tornado pattern, which spraying sends all one way round. A node finds better routings, and all use them.
#[test]
fn better_routings_are_announced_to_all() {
    let selection = Selection {
        period: Time::from_us(2_000),
        routings: vec![Routing::Spraying, Routing::Vlb],
        utility: unrack_protocol::r2c2::selection::Expression::aggregate(),
        search: Default::default(),
    };
    let plan = plan("torus", "[5, 5]", Params { selection: Some(selection), ..Params::default() });
    let mut net = Net::new(plan, Faults::default(), 1);
    for src in 0..25 {
        net.submit(src, (src, src / 5 * 5 + (src + 2) % 5), 1_000_000);
    }
    net.run(Time::from_us(2_500));
    let (node, problem) = net.around.sought.pop().expect("node 1 looks for better ones at 2 ms");
    let mut random = SplitMix64::new(1).after(1);
    let chosen = problem.solve(&mut || random.next_u64());
    assert_eq!(node, 1);
    assert!(!chosen.is_empty());
    net.around.at = node;
    net.nodes[node as usize].choose(net.now, &chosen, &mut net.around);
    net.run(net.now + Time::from_us(1_000));
    for node in &mut net.nodes {
        let counting = node.core.view.counting();
        let has = |pair: &&Assignment| {
            counting
                .iter()
                .any(|told| (told.src, told.flow, told.routing) == (pair.src, pair.flow, pair.routing))
        };
        assert_eq!(chosen.iter().filter(has).count(), chosen.len(), "node {}", node.own.me);
    }
    net.run(END);
    assert_eq!(net.around.acknowledged.len(), 25);
    assert!(net.nodes.iter().all(|node| node.next_wake().is_none()));
}

/// §6: frames of hosts behind three gateways. One to an unknown host goes to both others, the answer to one; and a
/// stream without frames ends.
#[test]
fn gateways_learn_where_hosts_are() {
    let plan = plan("torus", "[4, 4]", Params::default());
    let plan = Arc::new(TorusPlan::clone(&plan).with_gateways(&[0, 5, 10]).unwrap());
    let mut net = Net::new(plan.clone(), Faults::default(), 1);
    let frame = |dst: u8, src: u8, length: usize| {
        let mut frame = vec![7; length];
        frame[..12].copy_from_slice(&[2, 0, 0, 0, 0, dst, 2, 0, 0, 0, 0, src]);
        frame
    };
    let send = |net: &mut Net, gateway: u32, frame: &[u8]| {
        net.around.at = gateway;
        net.nodes[gateway as usize].take_from_host(net.now, frame, &mut net.around);
        net.run(net.now + Time::from_us(1_000));
        net.around.to_hosts.sort();
        std::mem::take(&mut net.around.to_hosts)
    };
    let (asked, answer) = (frame(2, 1, 60), frame(1, 2, 1_400));
    assert_eq!(send(&mut net, 0, &asked), [(5, asked.clone()), (10, asked.clone())]);
    assert_eq!(send(&mut net, 10, &answer), [(0, answer.clone())]);
    assert_eq!(send(&mut net, 0, &asked), [(10, asked.clone())]);
    // To a host behind the same gateway; and longer than a packet.
    let dropped = net.counters().dropped_packets;
    assert!(send(&mut net, 0, &frame(1, 3, 60)).is_empty());
    assert!(send(&mut net, 0, &frame(2, 1, plan.setup.most as usize + 1)).is_empty());
    assert_eq!(net.counters().dropped_packets, dropped + 1);
    // A hundred at once keep their order, beside a flow.
    net.submit(0, (0, 2), 500_000);
    let many: Vec<Vec<u8>> = (0..100).map(|n| frame(2, 1, 100 + n)).collect();
    for frame in &many {
        net.around.at = 0;
        net.nodes[0].take_from_host(net.now, frame, &mut net.around);
    }
    net.run(END);
    assert!(net.around.to_hosts.iter().map(|(_, frame)| frame).eq(&many));
    assert_eq!(net.around.acknowledged, [0]);
    let counters = net.counters();
    assert_eq!(
        (counters.malformed, counters.sent_bytes),
        (0, counters.arrived_bytes + counters.dropped_bytes)
    );
    assert!(net.nodes.iter().all(|node| node.next_wake().is_none() && node.own.bridge.streams.is_empty()));
}

/// A node's power is cut: its neighbours detect that, all others learn of it, and flows avoid it. When it comes back,
/// all know.
#[test]
fn a_silent_node_is_gone_for_all() {
    let plan = plan("torus", "[4, 4]", Params::default());
    let mut net = Net::new(plan, Faults::default(), 1);
    let ms = |ms: u64| Time::from_us(1_000 * ms);
    net.start();
    net.run(ms(100));
    for (message, ends) in [(4, 6), (1, 9), (0, 5)].into_iter().enumerate() {
        net.submit(message as u32, ends, 20_000_000);
    }
    net.run(ms(110));
    net.fail(5);
    net.run(ms(280));
    assert_eq!(net.know(&[]), 16, "ten keep-alives are not missed yet");
    net.run(ms(345));
    let down = net.around.down.clone();
    // The dead node knows only its own cables, which are the ones down.
    assert_eq!((down.len(), net.know(&down)), (8, 16));
    let lost = net.around.lost;
    net.run(ms(2_000));
    assert_eq!((net.around.acknowledged.len(), net.around.lost), (2, lost));
    net.around.down.clear();
    net.run(ms(2_030));
    assert_eq!(net.know(&[]), 16);
    net.run(ms(30_000));
    assert_eq!((net.around.acknowledged.len(), net.around.given_up.len(), net.around.wrong), (3, 0, 0));
}
