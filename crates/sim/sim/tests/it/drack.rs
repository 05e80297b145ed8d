//! Fabrics on racks that pool their NICs, against racks of the same parts where each host has its own.

use crate::common;
use crate::common::fabrics::*;

use common::{assert_conserved, assert_unloaded_is_exact_between};
use proptest::prelude::*;
use unrack_protocol::{dctcp, mptcp, tcp};
use unrack_rack::{Protocol, Wiring};
use unrack_sim::fabric::dctcp::Dctcp;
use unrack_sim::fabric::mptcp::Mptcp;
use unrack_sim::fabric::tcp::Tcp;
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::{Network, Pace};
use unrack_sim::run::Run;
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::{Collective, Message, Operation};

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

fn drack(racks: u32, hosts_per_rack: u32) -> Topology {
    let cores = Wiring::default_cores(racks, hosts_per_rack);
    Topology::drack(Wiring { racks, hosts_per_rack, cores }, link(100, 200), link(100, 350), link(500, 55))
}

fn torack(racks: u32, hosts_per_rack: u32) -> Topology {
    Topology::leaf_spine(racks, hosts_per_rack, hosts_per_rack, link(100, 200), link(100, 350))
}

fn network(topology: Topology) -> Network {
    Network { topology, switch_latency: Time::from_ns(300) }
}

const DEEP: Ethernet = Ethernet {
    mtu: Bytes::new(1500),
    headers: true,
    buffer: SwitchBuffer::Private(Bytes::new(1 << 24)),
    cut_through: true,
};

fn setup(topology: Topology, protocol: Protocol) -> Setup {
    let fabric = FabricConfig::default_of(protocol);
    Setup { network: network(topology), ethernet: DEEP, fabric, seed: 1, time_limit: Time::MAX }
}

fn run(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    setup.run(&Work::listed(messages), |_| {}).unwrap().run
}

#[test]
fn unloaded_is_exact_in_a_rack_in_a_pod_and_between_pods() {
    // 4 racks of 2 hosts: pods of racks 0 and 2, and 1 and 3.
    let network = network(drack(4, 2));
    for dst in [1, 4, 2] {
        for cut_through in [true, false] {
            let ethernet = Ethernet { cut_through, ..DEEP };
            let params = dctcp::Params { min_rto: Time::from_us(1_000), ..Default::default() };
            assert_unloaded_is_exact_between(Dctcp::new(&network, &ethernet, &params).unwrap(), 0, dst);
            let params = tcp::Params { min_rto: Time::from_us(1_000), ..Default::default() };
            assert_unloaded_is_exact_between(Tcp::new(&network, &ethernet, &params).unwrap(), 0, dst);
            // Between pods, paths that are taken in turn may meet at a core switch, depending on their hashes.
            let params = tcp::Params { spraying: dst != 2, ..params };
            assert_unloaded_is_exact_between(Tcp::new(&network, &ethernet, &params).unwrap(), 0, dst);
            let params = mptcp::Params { min_rto: Time::from_us(1_000), ..Default::default() };
            assert_unloaded_is_exact_between(Mptcp::new(&network, &ethernet, &params).unwrap(), 0, dst);
        }
    }
}

#[test]
fn a_packet_between_racks_is_arithmetic() {
    // 64 B and 90 B around it; by NIC, switch and NIC, and through the CXL switch at 16 ps a byte.
    let alone = |dst| {
        let setup = setup(drack(2, 4), Tcp::PROTOCOL);
        common::completion_ps(&run(&setup, vec![(Time::ZERO, Message::write(0, dst, 64))]), 0)
    };
    assert_eq!(alone(4), 154 * 80 + 2 * 200_000 + 300_000);
    assert_eq!(alone(1), 154 * 16 + 2 * 55_000 + 300_000);
}

/// One busy host to each rack: its flows have all NICs of the rack, or one.
#[test]
fn a_busy_host_has_the_nics_of_the_others() {
    let hosts = 8;
    let messages = || (0..64).map(|_| (Time::ZERO, Message::write(0, hosts, 2_000_000))).collect::<Vec<_>>();
    let ended = |topology| {
        let run = run(&setup(topology, Dctcp::PROTOCOL), messages());
        assert!(run.is_complete());
        assert_conserved(&run);
        run.ended.as_ps() as f64
    };
    let gain = ended(torack(2, hosts)) / ended(drack(2, hosts));
    // 64 flows spread at random over 8 NICs give one of them more than its share.
    assert!((4.0..8.01).contains(&gain), "{gain}");
}

#[test]
fn flows_leave_a_dead_nic_once_that_is_known() {
    let messages = || (0..16).map(|n| (Time::from_ns(n), Message::write(0, 4, 100_000))).collect::<Vec<_>>();
    let with = |detected_after| {
        let mut setup = setup(drack(2, 4), Tcp::PROTOCOL);
        let until = Time::from_us(50_000);
        let what = BrokenPart::Node(1);
        let failure = Downtime { what, from: Time::from_us(10), until, every: None, detected_after };
        let faults =
            FaultSchedule::new(&setup.network.topology, &[failure], ErrorRates::default(), 1).unwrap();
        setup.network.topology = setup.network.topology.with_faults(faults);
        let run = run(&setup, messages());
        assert!(run.is_complete(), "nothing is lost for good");
        assert!(run.counters.dropped_packets > 0, "it died in the middle of a flow");
        run.ended
    };
    assert!(with(None) > Time::from_us(50_000), "some wait until it is back");
    assert!(with(Some(Time::from_us(5))) < Time::from_us(5_000));
}

/// Returns ten megabytes from one host to one of the other rack.
fn one_flow() -> Vec<(Time, Message)> {
    vec![(Time::ZERO, Message::write(0, 8, 10_000_000))]
}

#[test]
fn one_flow_has_all_nics_by_its_subflows() {
    let ended = |protocol| run(&setup(drack(2, 8), protocol), one_flow()).ended.as_ps() as f64;
    let gain = ended(Tcp::PROTOCOL) / ended(Mptcp::PROTOCOL);
    // Eight NICs, less the time of slow start.
    assert!((6.0..8.01).contains(&gain), "{gain}");
    // In a rack all subflows go by the CXL port.
    let inside = |protocol| {
        let run = run(&setup(drack(2, 8), protocol), vec![(Time::ZERO, Message::write(0, 1, 10_000_000))]);
        run.ended.as_ps() as f64
    };
    let ratio = inside(Tcp::PROTOCOL) / inside(Mptcp::PROTOCOL);
    assert!((0.95..1.05).contains(&ratio), "{ratio}");
}

fn sprayed() -> FabricConfig {
    FabricConfig::new::<Tcp>(tcp::Params { spraying: true, ..Default::default() })
}

#[test]
fn one_flow_has_all_nics_if_its_packets_take_turns_at_them() {
    let by_hash = run(&setup(drack(2, 8), Tcp::PROTOCOL), one_flow());
    let sprayed = run(&Setup { fabric: sprayed(), ..setup(drack(2, 8), Tcp::PROTOCOL) }, one_flow());
    assert_conserved(&sprayed);
    assert_eq!(sprayed.outcomes[0].retransmissions, 0, "all ways are alike, and none is used by others");
    let gain = by_hash.ended.as_ps() as f64 / sprayed.ended.as_ps() as f64;
    assert!((6.0..8.01).contains(&gain), "{gain}");
}

#[test]
fn couplings_and_schedulers_carry_all_of_it() {
    use mptcp::{Coupling::*, Scheduler::*};
    for coupling in [Lia, Olia, Uncoupled] {
        for scheduler in [MinRtt, RoundRobin] {
            let params = mptcp::Params { coupling, scheduler, ..Default::default() };
            let mut setup = setup(drack(2, 8), Mptcp::PROTOCOL);
            // Four busy hosts, and switches that drop.
            setup.ethernet.buffer = SwitchBuffer::Private(Bytes::new(100_000));
            setup.fabric = FabricConfig::new::<Mptcp>(params);
            let messages = (0..4).map(|n| (Time::ZERO, Message::read(n, 8, 3_000_000))).collect();
            let run = run(&setup, messages);
            assert!(run.is_complete(), "{coupling:?}, {scheduler:?}");
            // 12 MB at 800 Gb/s take 120 us.
            assert!(run.ended < Time::from_us(1_200), "{coupling:?}, {scheduler:?}: {}", run.ended);
        }
    }
}

/// Undetected failure of a NIC: the subflow's data goes by the other subflows.
#[test]
fn a_nic_that_dies_under_a_subflow() {
    let mut setup = setup(drack(2, 8), Mptcp::PROTOCOL);
    let (from, until) = (Time::from_us(50), Time::from_us(1_000_000));
    let failure = Downtime { what: BrokenPart::Node(3), from, until, every: None, detected_after: None };
    let faults = FaultSchedule::new(&setup.network.topology, &[failure], ErrorRates::default(), 1).unwrap();
    setup.network.topology = setup.network.topology.with_faults(faults);
    let run = run(&setup, one_flow());
    assert!(run.is_complete() && run.counters.dropped_packets > 0);
    assert!(run.outcomes[0].completion().unwrap() < Time::from_us(2_000), "{}", run.ended);
}

#[test]
fn more_subflows_than_nics_are_refused() {
    let params = mptcp::Params { subflows: Some(3), ..Default::default() };
    let error = Mptcp::new(&network(drack(2, 2)), &DEEP, &params).err().unwrap();
    assert_eq!(error.key, "fabric.subflows");
    assert!(Mptcp::new(&network(torack(2, 2)), &DEEP, &params).is_ok(), "over one NIC, by several ways");
}

#[test]
fn fabrics_with_one_link_to_a_node_say_so() {
    let error = setup(drack(2, 2), Homa::PROTOCOL).run(&Work::listed(Vec::new()), |_| {}).err().unwrap();
    assert_eq!(error.key, "network.topology.kind");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn nothing_is_lost_for_good_and_nothing_beats_ideal(
        (racks, hosts) in (1u32..6, 1u32..6).prop_filter("one node", |(m, n)| m * n > 1),
        cut_through: bool,
        fabric in prop::sample::select(vec![
            FabricConfig::default_of(Dctcp::PROTOCOL),
            FabricConfig::default_of(Tcp::PROTOCOL),
            FabricConfig::default_of(Mptcp::PROTOCOL),
            sprayed(),
        ]),
        drawn in prop::collection::vec((0u64..5_000, any::<u32>(), any::<u32>(), 1u64..60_000), 1..60),
    ) {
        let nodes = racks * hosts;
        let mut messages: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
            let src = src % nodes;
            let dst = (src + 1 + offset % (nodes - 1)) % nodes;
            (Time::from_ns(at), if bytes % 2 == 0 { Message::read(src, dst, bytes) } else { Message::write(src, dst, bytes) })
        }).collect();
        messages.sort_by_key(|(at, _)| *at);
        let mut setup = Setup { fabric, ..setup(drack(racks, hosts), Tcp::PROTOCOL) };
        setup.ethernet = Ethernet { buffer: SwitchBuffer::Private(Bytes::new(20_000)), cut_through, ..DEEP };
        let run = run(&setup, messages);
        prop_assert!(run.is_complete());
        for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
            prop_assert!(outcome.completion().unwrap() >= setup.network.ideal(message));
        }
        // Duplicates that were not needed may be under way at the end.
        if run.outcomes.iter().all(|outcome| outcome.retransmissions == 0) {
            assert_conserved(&run);
        }
    }
}

fn all_reduce(setup: &Setup) -> Time {
    let (operation, size) = (Operation::RingAllReduce, Bytes::new(8_000_000));
    let spec = Collective { operation, size, servers: None, iterations: 2, compute: Time::from_us(50) };
    let run = setup.run(&Work::Collective(spec), |_| {}).unwrap().run;
    assert!(run.is_complete());
    assert_eq!(run.messages.len(), 2 * 14 * 8);
    run.ended
}

#[test]
fn an_all_reduce_takes_its_steps_and_no_more() {
    // 14 steps of a megabyte: 80 us at 100 Gb/s, and two links of 200 ns; twice, after 50 us each.
    let star = Topology::star(8, link(100, 200));
    let step = 80_000_000 + 2 * 200_000;
    assert_eq!(all_reduce(&setup(star, Ideal::PROTOCOL)).as_ps(), 2 * (50_000_000 + 14 * step));
}

/// Ring in which one host of each rack sends to the next rack (fig. 9h): it has both NICs of its rack, or one.
#[test]
fn a_ring_through_racks_gains_from_their_pools() {
    let torack = all_reduce(&setup(torack(4, 2), Tcp::PROTOCOL));
    let drack = all_reduce(&setup(drack(4, 2), Mptcp::PROTOCOL));
    assert!(drack < torack, "{drack}, {torack}");
}
