//! Fabrics on networks of more than one switch.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_conserved, assert_unloaded_is_exact_between};
use proptest::prelude::*;
use unrack_protocol::dctcp::Params;
use unrack_protocol::{cxl, tcp};
use unrack_sim::fabric::cxl::Cxl;
use unrack_sim::fabric::dctcp::Dctcp;
use unrack_sim::fabric::ideal::Ideal;
use unrack_sim::fabric::tcp::Tcp;
use unrack_sim::network::{Network, Pace};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

fn network(topology: Topology) -> Network {
    Network { topology, switch_latency: Time::from_ns(300) }
}

fn leaf_spine(core_gbps: u64) -> Network {
    network(Topology::leaf_spine(3, 4, 2, link(40, 200), link(core_gbps, 350)))
}

const DEEP: Ethernet = Ethernet {
    mtu: Bytes::new(1500),
    headers: true,
    buffer: SwitchBuffer::Private(Bytes::new(1 << 24)),
    cut_through: true,
};

#[test]
fn unloaded_is_exact_within_and_between_racks() {
    let networks =
        [leaf_spine(40), leaf_spine(160), network(Topology::fat_tree(4, link(10, 50), link(10, 80)))];
    for network in networks {
        for dst in [1, network.nodes() - 1] {
            assert_unloaded_is_exact_between(Ideal::new(&network), 0, dst);
            for flit in [cxl::Flit::B68, cxl::Flit::B256] {
                // Enough credits for the round trips of these distances.
                let params = cxl::Params { flit, credits: 1_000, outstanding: 4_000, ..Default::default() };
                assert_unloaded_is_exact_between(Cxl::new(&network, &params).unwrap(), 0, dst);
            }
            for cut_through in [true, false] {
                let ethernet = Ethernet { cut_through, ..DEEP };
                let params = Params { min_rto: Time::from_us(1_000), ..Params::default() };
                let dctcp = Dctcp::new(&network, &ethernet, &params).unwrap();
                assert_unloaded_is_exact_between(dctcp, 0, dst);
                let params = tcp::Params { min_rto: Time::from_us(1_000), ..tcp::Params::default() };
                assert_unloaded_is_exact_between(Tcp::new(&network, &ethernet, &params).unwrap(), 0, dst);
            }
        }
    }
}

#[test]
fn a_packet_between_racks_is_arithmetic() {
    // 64 B and 90 B around it; 40 Gb/s: 200 ps a byte; 160 Gb/s: 50 ps. Two host links of 200 ns, two core links of
    // 350 ns, three switches of 300 ns.
    let run = |cut_through| {
        let ethernet = Ethernet { cut_through, ..DEEP };
        let dctcp = Dctcp::new(&leaf_spine(160), &ethernet, &Params::default()).unwrap();
        common::run(dctcp, vec![(Time::ZERO, Message::write(0, 11, 64))])
    };
    let distance = 2 * 200_000 + 2 * 350_000 + 3 * 300_000;
    assert_eq!(common::completion_ps(&run(false), 0), 154 * (200 + 50 + 50 + 200) + distance);
    // The fast link waits for the last bit to come in time; the link after it is slow again.
    assert_eq!(common::completion_ps(&run(true), 0), 154 * 200 + 154 * (200 - 50) + distance);
    // The run ends with the window of 650 ns in which all has finished: the acknowledgement has left its node, and
    // its rack.
    assert_eq!(run(true).counters.packet_hops, 4 + 2);
}

#[test]
fn a_core_that_is_slower_than_hosts_is_refused() {
    let error = Dctcp::new(&leaf_spine(10), &DEEP, &Params::default()).err().unwrap();
    assert_eq!(error.key, "network.core_link.rate");
}

#[test]
fn a_fabric_of_one_switch_says_so() {
    let setup = Setup {
        network: leaf_spine(40),
        ethernet: DEEP,
        fabric: FabricConfig::default_of(Edm::PROTOCOL),
        seed: 1,
        time_limit: Time::MAX,
    };
    let error = setup.run(&Work::listed(Vec::new()), |_| {}).err().unwrap();
    assert_eq!(error.key, "network.topology.kind");
    assert!(error.to_string().contains("one switch"), "{error}");
}

fn any_topology() -> impl Strategy<Value = Topology> {
    let shape = (1u32..4, 2u32..5, 1u32..4, 1u64..5);
    prop_oneof![
        shape.prop_map(|(racks, hosts, spines, speed)| {
            Topology::leaf_spine(racks, hosts, spines, link(100, 10), link(100 * speed, 30))
        }),
        (1u32..3).prop_map(|half| Topology::fat_tree(4 * half, link(100, 10), link(100, 20))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_for_good_and_nothing_beats_ideal(
        topology in any_topology(),
        cut_through in any::<bool>(),
        fabric in prop::sample::select(vec![Dctcp::PROTOCOL, Tcp::PROTOCOL, Cxl::PROTOCOL]),
        drawn in prop::collection::vec((0u64..5_000, any::<u32>(), any::<u32>(), 1u64..60_000), 1..60),
    ) {
        let network = network(topology);
        let nodes = network.nodes();
        let mut messages: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
            let src = src % nodes;
            let dst = (src + 1 + offset % (nodes - 1)) % nodes;
            (Time::from_ns(at), if bytes % 2 == 0 { Message::read(src, dst, bytes) } else { Message::write(src, dst, bytes) })
        }).collect();
        messages.sort_by_key(|(at, _)| *at);
        let fabric = FabricConfig::default_of(fabric);
        let ethernet = Ethernet { buffer: SwitchBuffer::Private(Bytes::new(20_000)), cut_through, ..DEEP };
        let setup = Setup { network, ethernet, fabric, seed: 1, time_limit: Time::MAX };
        let run = setup.run(&Work::listed(messages), |_| {}).unwrap().run;
        prop_assert!(run.is_complete());
        for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
            prop_assert!(outcome.completion().unwrap() >= setup.network.ideal(message));
        }
        if run.counters.dropped_packets == 0 {
            assert_conserved(&run);
        }
    }
}
