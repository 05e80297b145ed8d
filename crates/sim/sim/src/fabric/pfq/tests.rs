//! Lone flows against arithmetic, shares against max-min, and nothing left of any flow.

use super::*;
use crate::site::SwitchBuffer;
use proptest::prelude::*;
use unrack_engine::events::Sim;
use unrack_engine::faults::{ErrorRates, FaultSchedule};
use unrack_engine::run::Run;
use unrack_engine::topology::{Link as Wire, Topology};
use unrack_rack::graph::Sides;
use unrack_units::{Bytes, Rate};
use unrack_workload::ListedMessages;

fn network(graph: Graph) -> Network {
    let link = Wire { pace: Pace::new(Rate::from_gbps(10)), propagation: Time::from_ns(100) };
    Network { topology: Topology::direct(Arc::new(graph), link), switch_latency: Time::from_ns(5) }
}

fn cube(sides: &[u32], wraps: bool) -> Network {
    network(Graph::cube(Sides::new(sides).unwrap(), wraps).unwrap())
}

fn ethernet(cut_through: bool) -> Ethernet {
    let buffer = SwitchBuffer::Private(Bytes::new(1_500));
    Ethernet { mtu: Bytes::new(1_500), headers: true, buffer, cut_through }
}

fn run(network: &Network, cut_through: bool, mut script: Vec<(Time, Message)>) -> (Pfq, Run) {
    script.sort_by_key(|(at, _)| *at);
    let pfq = Pfq::new(network, &ethernet(cut_through), 7).unwrap();
    Sim::new(pfq, ListedMessages::new(Arc::new(script), network.nodes()).unwrap()).run_dry()
}

/// Asserts that everything sent has arrived, and that no node knows of any flow.
fn assert_done(pfq: &Pfq, run: &Run) {
    let counters = &run.counters;
    assert_eq!(counters.sent_bytes, run.messages.iter().map(Message::payload).sum::<u64>());
    assert_eq!((counters.arrived_bytes, counters.dropped_bytes), (counters.sent_bytes, 0));
    assert!(run.outcomes.iter().all(|outcome| outcome.completed().is_some()));
    assert_eq!((pfq.flows.used(), pfq.packets.used()), (0, 0));
    assert_eq!(pfq.nodes.iter().map(Node::flows).sum::<usize>(), 0);
}

fn took(run: &Run, n: usize) -> Time {
    run.outcomes[n].completion().expect("complete")
}

/// Returns the time of a flow on a link of 10 Gb/s in full packets, in ps.
fn wire_time(bytes: u64) -> f64 {
    bytes.div_ceil(1_464) as f64 * 1_500.0 * 0.8e3
}

#[test]
fn a_lone_flow_takes_what_arithmetic_says() {
    let sizes = [1, 7, 64, 1_463, 1_464, 1_465, 2_928, 4_096, 300_000];
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    // One shortest path, of one hop or more; then several.
    let cases = [
        (cube(&[2], false), 1, true),
        (cube(&[5], false), 4, true),
        (cube(&[7], true), 3, true),
        (cube(&[4, 4], true), 10, false),
        (cube(&[3, 3, 3], false), 26, false),
    ];
    for (network, dst, has_one_way) in &cases {
        for cut_through in [true, false] {
            let all = kinds.iter().flat_map(|kind| sizes.map(|bytes| kind(0, *dst, bytes)));
            let script = all.enumerate().map(|(n, m)| (Time::from_us(10_000) * n as u64, m)).collect();
            let (pfq, run) = run(network, cut_through, script);
            assert_done(&pfq, &run);
            for (n, message) in run.messages.iter().enumerate() {
                let (took, least) = (took(&run, n), run.unloaded[n]);
                assert!(least >= network.ideal(message));
                match *has_one_way || message.bytes <= 1_464 {
                    true => assert_eq!(took, least, "{message:?} to {dst}, {cut_through}"),
                    // There are as many links at the destination as at the source, so it is hardly longer.
                    false => assert!(took >= least && took < least + Time::from_ns(1_200 * 8), "{message:?}"),
                }
            }
        }
    }
}

/// Flows from all nodes of a line to its end: each has the same share of the last link.
#[test]
fn flows_over_more_hops_get_no_less() {
    for cut_through in [true, false] {
        let bytes = 3_000_000;
        let script = (0..5).map(|src| (Time::ZERO, Message::flow(src, 5, bytes))).collect();
        let (pfq, run) = run(&cube(&[6], false), cut_through, script);
        assert_done(&pfq, &run);
        for n in 0..5 {
            let shares = took(&run, n).as_ps() as f64 / wire_time(bytes);
            assert!((4.98..5.02).contains(&shares), "{n}: {shares}");
        }
    }
}

/// Three flows fill the last link of a line; another gets what they leave of the first (max-min: 1/3, 1/3, 1/3, 2/3).
#[test]
fn what_others_cannot_use_is_not_held_for_them() {
    let bytes = 3_000_000;
    let flows = [(0, 2, bytes), (1, 2, bytes), (1, 2, bytes), (0, 1, 2 * bytes)];
    let script = flows.map(|(src, dst, bytes)| (Time::ZERO, Message::flow(src, dst, bytes))).to_vec();
    let (pfq, run) = run(&cube(&[3], false), true, script);
    assert_done(&pfq, &run);
    for n in 0..4 {
        let shares = took(&run, n).as_ps() as f64 / wire_time(bytes);
        assert!((2.97..3.02).contains(&shares), "{n}: {shares}");
    }
}

/// A long flow that is alone uses all links that lead closer, without being told how to split.
#[test]
fn a_flow_uses_all_its_ways() {
    let bytes = 30_000_000;
    let (pfq, run) = run(&cube(&[4, 4], true), true, vec![(Time::ZERO, Message::flow(0, 10, bytes))]);
    assert_done(&pfq, &run);
    let links = wire_time(bytes) / took(&run, 0).as_ps() as f64;
    assert!((3.98..=4.0).contains(&links), "{links}");
}

/// One path is full of other flows, so the flow takes the other path. Fixed splits would give it 2/3 at most.
#[test]
fn load_decides_between_ways() {
    let bytes = 6_000_000;
    // A square: from 0 to 3 by 1 or 2, of which the link from 1 to 3 has two flows of its own.
    let square = Graph::of_cables(4, &[(0, 1), (0, 2), (1, 3), (2, 3)]).unwrap();
    let flows = [(0, 3, 4 * bytes / 3), (1, 3, bytes / 3), (1, 3, bytes / 3)];
    let script = flows.map(|(src, dst, bytes)| (Time::ZERO, Message::flow(src, dst, bytes))).to_vec();
    let (pfq, run) = run(&network(square), true, script);
    assert_done(&pfq, &run);
    // Shares per link by turns: a third of the link from 1 to 3, and all of the link from 2 to 3.
    for n in 0..3 {
        let time = took(&run, n).as_ps() as f64 / wire_time(bytes);
        assert!((0.99..1.01).contains(&time), "{n}: {time}");
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let why = |network: &Network| Pfq::new(network, &ethernet(true), 1).err().expect("refused").to_string();
    let good = cube(&[4, 4], true);
    let star = Topology::star(4, good.topology.core_link());
    assert!(why(&Network { topology: star, ..good.clone() }).contains("torus, mesh or graph"));
    let errors = ErrorRates { host: 0.0, core: 1e-9 };
    let faults = FaultSchedule::new(&good.topology, &[], errors, 1).unwrap();
    let failing = Network { topology: good.topology.clone().with_faults(faults), ..good.clone() };
    assert!(why(&failing).contains("loses nothing"));
    let small = Ethernet { mtu: Bytes::new(36), ..ethernet(true) };
    assert!(Pfq::new(&good, &small, 1).err().unwrap().to_string().contains("network.mtu"));
}

fn any_network() -> impl Strategy<Value = Network> {
    let sides = prop::sample::select(vec![&[16][..], &[4, 4], &[8, 2], &[2, 2, 4]]);
    let ladder =
        || (0..14).map(|node| (node, node + 2)).chain([(0, 1), (6, 7), (14, 15)]).collect::<Vec<_>>();
    prop_oneof![
        (sides, any::<bool>()).prop_map(|(sides, wraps)| cube(sides, wraps)),
        Just(()).prop_map(move |()| network(Graph::of_cables(16, &ladder()).unwrap())),
    ]
}

fn any_flows() -> impl Strategy<Value = Vec<(Time, Message)>> {
    let kinds = prop::sample::select(vec![Message::read, Message::rmw, Message::flow]);
    prop::collection::vec((0u64..300, kinds, 0u32..16, 1u32..16, 1u64..200_000), 1..60).prop_map(|drawn| {
        let flow = |(at, kind, src, apart, bytes): (_, fn(_, _, _) -> Message, _, _, _)| {
            (Time::from_us(at), kind(src, (src + apart) % 16, bytes))
        };
        drawn.into_iter().map(flow).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Every packet arrives once; nothing is dropped, waits for ever or piles up; no message is faster than its
    /// bound; a repetition gives the same results.
    #[test]
    fn all_arrives(network in any_network(), flows in any_flows(), cut_through: bool) {
        let (pfq, result) = run(&network, cut_through, flows.clone());
        assert_done(&pfq, &result);
        for (n, message) in result.messages.iter().enumerate() {
            prop_assert!(result.unloaded[n] >= network.ideal(message), "{message:?}");
            prop_assert!(took(&result, n) >= result.unloaded[n], "{message:?}");
        }
        // By each link arrive the bytes on the way when the flow is held, and a packet that has begun.
        let degree = pfq.graph.links_of(0).len().max(pfq.graph.links_of(7).len()) as u64;
        let around = 10 * (200 + 5) / 8 + 1_500;
        prop_assert!(result.queue_bytes.max() <= degree * (around + around + 1_500), "{}", result.queue_bytes.max());
        let (_, again) = run(&network, cut_through, flows);
        prop_assert_eq!(result.outcomes, again.outcomes);
        prop_assert_eq!(result.counters, again.counters);
    }
}
