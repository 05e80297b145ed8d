//! Transports that send packet by packet, each on networks of one, two and three tiers of switches.

use crate::common;
use crate::common::fabrics::*;

use common::{SIZES, assert_conserved, completion_ps};
use proptest::prelude::*;
use unrack_rack::Protocol;
use unrack_sim::network::{Network, Pace};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Run, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

const PROTOCOLS: [Protocol; 7] = [
    Pfabric::PROTOCOL,
    Phost::PROTOCOL,
    Homa::PROTOCOL,
    Ird::PROTOCOL,
    Ndp::PROTOCOL,
    PfcDcqcn::PROTOCOL,
    Fastpass::PROTOCOL,
];

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

fn setup(topology: Topology, protocol: Protocol, buffer: u64, cut_through: bool) -> Setup {
    with_headers(true, topology, protocol, buffer, cut_through)
}

fn with_headers(
    headers: bool,
    topology: Topology,
    protocol: Protocol,
    buffer: u64,
    cut_through: bool,
) -> Setup {
    Setup {
        network: Network { topology, switch_latency: Time::from_ns(300) },
        ethernet: Ethernet {
            mtu: Bytes::new(1500),
            headers,
            buffer: SwitchBuffer::Private(Bytes::new(buffer)),
            cut_through,
        },
        fabric: FabricConfig::default_of(protocol),
        seed: 1,
        time_limit: Time::MAX,
    }
}

fn run(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    setup.run(&Work::listed(messages), |_| {}).unwrap().run
}

#[test]
fn unloaded_is_arithmetic() {
    let topologies = [
        Topology::star(8, link(100, 10)),
        Topology::leaf_spine(3, 4, 2, link(40, 200), link(40, 350)),
        Topology::leaf_spine(3, 4, 2, link(40, 200), link(160, 350)),
        Topology::fat_tree(4, link(10, 50), link(10, 80)),
    ];
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    let headers = [true, false].map(|headers| topologies.iter().map(move |topology| (topology, headers)));
    let networks = headers.into_iter().flatten();
    for ((topology, headers), protocol) in networks.flat_map(|t| PROTOCOLS.map(|protocol| (t, protocol))) {
        for (dst, cut_through) in
            [(1, true), (1, false), (topology.nodes() - 1, true), (topology.nodes() - 1, false)]
        {
            let setup = with_headers(headers, topology.clone(), protocol, 1 << 24, cut_through);
            let all = kinds.iter().flat_map(|kind| SIZES.map(|bytes| kind(0, dst, bytes)));
            let script = all.enumerate().map(|(n, message)| (Time::from_us(10_000) * n as u64, message));
            let run = run(&setup, script.collect());
            assert_conserved(&run);
            assert_eq!(run.counters.dropped_packets, 0);
            for (index, message) in run.messages.iter().enumerate() {
                let at = format!(
                    "{protocol} to {dst}, cut through: {cut_through}, headers: {headers}, {message:?}"
                );
                assert_eq!(completion_ps(&run, index), run.unloaded[index].as_ps(), "{at}");
            }
        }
    }
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let shape = (1u32..4, 2u32..5, 1u32..4, 1u64..5);
    prop_oneof![
        (2u32..9).prop_map(|nodes| Topology::star(nodes, link(100, 10))),
        shape.prop_map(|(racks, hosts, spines, speed)| {
            Topology::leaf_spine(racks, hosts, spines, link(100, 10), link(100 * speed, 30))
        }),
        (1u32..3).prop_map(|half| Topology::fat_tree(4 * half, link(100, 10), link(100, 20))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]
    #[test]
    fn nothing_is_lost_for_good_and_nothing_beats_ideal(
        topology in any_topology(),
        cut_through in any::<bool>(),
        headers in any::<bool>(),
        buffer in 2_000u64..40_000,
        protocol in prop::sample::select(PROTOCOLS.to_vec()),
        drawn in prop::collection::vec((0u64..5_000, any::<u32>(), any::<u32>(), 1u64..60_000), 1..60),
    ) {
        let nodes = topology.nodes();
        let mut messages: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
            let src = src % nodes;
            let dst = (src + 1 + offset % (nodes - 1)) % nodes;
            let kind = if bytes % 2 == 0 { Message::read } else { Message::write };
            (Time::from_ns(at), kind(src, dst, bytes))
        }).collect();
        messages.sort_by_key(|(at, _)| *at);
        let is_lossless = protocol == PfcDcqcn::PROTOCOL;
        let buffer = if is_lossless { buffer + 27_000 } else { buffer };
        let setup = with_headers(headers, topology, protocol, buffer, cut_through);
        let run = run(&setup, messages);
        prop_assert!(!is_lossless || run.counters.dropped_packets == 0);
        prop_assert!(run.is_complete(), "{:?}", run.ending);
        // Duplicates may still be under way.
        let counters = &run.counters;
        prop_assert!(counters.arrived_bytes + counters.dropped_bytes <= counters.sent_bytes);
        prop_assert!(counters.arrived_bytes >= run.messages.iter().map(Message::payload).sum());
        for (outcome, message) in run.outcomes.iter().zip(&run.messages) {
            prop_assert!(outcome.completion().unwrap() >= setup.network.ideal(message));
        }
    }
}

#[test]
fn pauses_never_drop_under_incast() {
    // 31 nodes send a megabyte each to one node at once: forty times what its port holds.
    for topology in [Topology::star(32, link(100, 10)), Topology::fat_tree(8, link(40, 100), link(40, 100))] {
        let setup = setup(topology, PfcDcqcn::PROTOCOL, 36 << 10, true);
        let messages = (1..32).map(|src| (Time::ZERO, Message::flow(src, 0, 1_000_000))).collect();
        let run = run(&setup, messages);
        assert!(run.is_complete());
        assert_eq!(
            (run.counters.dropped_packets, run.outcomes.iter().map(|o| o.retransmissions).sum()),
            (0, 0)
        );
        // Pauses had work to do: more waited at a switch port than its buffer of 36 KiB would have held.
        assert!(run.queue_bytes.max() > 36 << 10, "pauses were needed");
    }
}

#[test]
fn a_buffer_without_headroom_is_refused() {
    let setup = setup(Topology::star(2, link(100, 500)), PfcDcqcn::PROTOCOL, 10_000, true);
    let error = setup.run(&Work::listed(Vec::new()), |_| {}).err().unwrap();
    assert_eq!(error.key, "network.switch.buffer");
}
