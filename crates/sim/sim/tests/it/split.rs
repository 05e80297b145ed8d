//! Split runs give the same results.

use crate::common;
use crate::common::change;
use crate::common::fabrics::*;

use common::{assert_same, setup_on};
use proptest::prelude::*;
use unrack_protocol::tcp::ConnectionLifetime;
use unrack_rack::Protocol;
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::Pace;
use unrack_sim::site::Ethernet;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Setup, Work};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

/// Returns each protocol, and those that keep connections once more with kept ones.
fn protocols() -> impl Iterator<Item = (Protocol, ConnectionLifetime)> {
    let kept = [Tcp::PROTOCOL, Dctcp::PROTOCOL].map(|protocol| (protocol, ConnectionLifetime::Kept));
    splitting().into_iter().map(|protocol| (protocol, ConnectionLifetime::Fresh)).chain(kept)
}

fn keep(setup: &mut Setup, kept: ConnectionLifetime) {
    change::<Tcp>(&mut setup.fabric, |params| params.connections = kept);
    change::<Dctcp>(&mut setup.fabric, |params| params.connections = kept);
}

fn setup(topology: Topology, protocol: Protocol, buffer: u64, cut_through: bool) -> Setup {
    let setup = setup_on(topology, protocol, buffer);
    Setup { ethernet: Ethernet { cut_through, ..setup.ethernet }, ..setup }
}

/// Draws messages with times and sizes that make things happen at the same instant.
fn any_messages(nodes: u32) -> impl Strategy<Value = Vec<(Time, Message)>> {
    let kinds = prop_oneof![Just(0), Just(1), Just(2)];
    let sizes = prop_oneof![Just(64), Just(1460), Just(40_000), 1u64..200_000];
    let one = (0..20u64, 0..nodes, 1..nodes, kinds, sizes);
    prop::collection::vec(one, 1..60).prop_map(move |all| {
        let message = |(at, src, ahead, kind, bytes): (u64, u32, u32, u32, u64)| {
            let (at, dst) = (Time::from_ns(at * 500), (src + ahead) % nodes);
            let make = [Message::flow, Message::read, Message::write][kind as usize];
            (at, make(src, dst, bytes))
        };
        let mut all: Vec<_> = all.into_iter().map(message).collect();
        all.sort_by_key(|(at, _)| *at);
        all
    })
}

fn any_topology() -> impl Strategy<Value = Topology> {
    prop_oneof![
        (2u32..6, 1u32..4, 1u32..3, 0u64..2, 0u64..300).prop_map(|(racks, hosts, spines, fast, ns)| {
            Topology::leaf_spine(racks, hosts, spines, link(40, 200), link(40 + 120 * fast, ns))
        }),
        Just(Topology::fat_tree(4, link(100, 50), link(100, 50))),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 30, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_run_is_the_same_on_any_number_of_threads(
        (topology, messages) in any_topology()
            .prop_flat_map(|topology| (any_messages(topology.nodes()), Just(topology)))
            .prop_map(|(messages, topology)| (topology, messages)),
        buffer in prop_oneof![Just(9_000u64), Just(36_000), Just(1_000_000)],
        cut_through: bool,
        threads in 2u32..5,
        errors in prop_oneof![Just(0.0), Just(1e-6)],
    ) {
        prop_assume!(topology.parts(threads).is_some());
        for (protocol, connections) in protocols() {
            let mut setup = setup(topology.clone(), protocol, buffer, cut_through);
            keep(&mut setup, connections);
            if errors > 0.0 {
                let faults = FaultSchedule::new(&topology, &[], ErrorRates { host: errors, core: errors }, 7).unwrap();
                setup.network.topology = topology.clone().with_faults(faults);
            }
            let work = Work::listed(messages.clone());
            // Buffers that are too small for pauses are refused.
            let Ok(whole) = setup.run(&work, |_| {}) else { continue };
            assert_same(&whole.run, &setup.split(&work, threads, |_| {}).unwrap().run);
        }
    }
}

#[test]
fn what_is_given_up_is_the_same() {
    let topology = Topology::leaf_spine(3, 2, 2, link(40, 200), link(160, 200));
    // The cable of node 5 breaks while some messages to it are complete, some on their way and some to come.
    let failure = Downtime {
        what: BrokenPart::Node(5),
        from: Time::from_us(150),
        until: Time::MAX,
        every: None,
        detected_after: None,
    };
    let faults = FaultSchedule::new(&topology, &[failure], ErrorRates::default(), 3).unwrap();
    let message = |n: u64| {
        let make = [Message::flow, Message::read, Message::write, Message::rmw][n as usize % 4];
        (Time::from_us(n), make(n as u32 % 5, 5, 20_000 * (n % 3) + 100))
    };
    let back = |n: u64| (Time::from_us(n), Message::read(5, n as u32 % 5, 30_000));
    let mut messages: Vec<_> = (0..60).map(message).chain((0..60).map(back)).collect();
    messages.sort_by_key(|(at, _)| *at);
    for (protocol, connections) in [Tcp::PROTOCOL, Dctcp::PROTOCOL]
        .into_iter()
        .flat_map(|protocol| [ConnectionLifetime::Fresh, ConnectionLifetime::Kept].map(|how| (protocol, how)))
    {
        let mut setup = setup(topology.clone().with_faults(faults.clone()), protocol, 100_000, true);
        keep(&mut setup, connections);
        let work = Work::listed(messages.clone());
        let whole = setup.run(&work, |_| {}).unwrap().run;
        let given_up = whole.outcomes.iter().filter(|outcome| outcome.is_given_up()).count();
        assert!((10..110).contains(&given_up), "{given_up}");
        for threads in [2, 3] {
            assert_same(&whole, &setup.split(&work, threads, |_| {}).unwrap().run);
        }
    }
}

#[test]
fn what_cannot_be_split_is_refused() {
    let refused = |topology, protocol, threads| {
        let work = Work::listed(vec![(Time::ZERO, Message::flow(0, 1, 64))]);
        setup(topology, protocol, 100_000, true).split(&work, threads, |_| {}).err().unwrap().to_string()
    };
    let leaf_spine = |ns| Topology::leaf_spine(3, 2, 2, link(40, 200), link(160, ns));
    assert!(
        refused(Topology::star(8, link(40, 200)), Tcp::PROTOCOL, 2)
            .contains("is 1 on a topology without a tier")
    );
    assert!(refused(leaf_spine(200), Tcp::PROTOCOL, 4).contains("number of racks"));
    assert!(refused(leaf_spine(200), Homa::PROTOCOL, 2).contains("is 1 for ideal"));
}
