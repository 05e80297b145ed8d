//! Links and switches that fail under every fabric that has links.

use crate::common;
use crate::common::fabrics::*;

use common::completion_ps;
use proptest::prelude::*;
use unrack_rack::Protocol;
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::{Network, Pace};
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Run, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn link() -> Link {
    Link { pace: Pace::new(Rate::from_gbps(100)), propagation: Time::from_ns(10) }
}

const FOR_EVER: u64 = u64::MAX;

fn failure(what: BrokenPart, from_ns: u64, until_ns: u64) -> Downtime {
    let until = if until_ns == FOR_EVER { Time::MAX } else { Time::from_ns(until_ns) };
    let from = Time::from_ns(from_ns);
    Downtime { what, from, until, every: None, detected_after: None }
}

fn setup(topology: Topology, failures: &[Downtime], errors: ErrorRates, protocol: Protocol) -> Setup {
    let faults = FaultSchedule::new(&topology, failures, errors, 3).unwrap();
    Setup {
        network: Network { topology: topology.with_faults(faults), switch_latency: Time::from_ns(300) },
        ethernet: Ethernet {
            mtu: Bytes::new(1500),
            headers: true,
            buffer: SwitchBuffer::Private(Bytes::new(40_000)),
            cut_through: true,
        },
        fabric: FabricConfig::default_of(protocol),
        seed: 1,
        time_limit: Time::MAX,
    }
}

fn run(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    setup.run(&Work::listed(messages), |_| {}).unwrap().run
}

const STREAMS: [Protocol; 2] = [Dctcp::PROTOCOL, Tcp::PROTOCOL];
const SENT_AGAIN: [Protocol; 9] = [
    Dctcp::PROTOCOL,
    Tcp::PROTOCOL,
    Pfabric::PROTOCOL,
    Phost::PROTOCOL,
    Homa::PROTOCOL,
    Ird::PROTOCOL,
    Ndp::PROTOCOL,
    PfcDcqcn::PROTOCOL,
    Fastpass::PROTOCOL,
];

#[test]
fn what_a_link_lost_is_sent_again_when_it_is_back() {
    for protocol in SENT_AGAIN {
        let failures = [failure(BrokenPart::Node(1), 0, 1_000_000)];
        let setup = setup(Topology::star(2, link()), &failures, ErrorRates::default(), protocol);
        let run = run(&setup, vec![(Time::ZERO, Message::write(0, 1, 3_000))]);
        assert!(run.is_complete() && run.counters.dropped_packets >= 3, "{protocol}: {:?}", run.counters);
        assert!(completion_ps(&run, 0) > 1_000_000_000);
        assert!(run.outcomes[0].retransmissions > 0 || !STREAMS.contains(&protocol));
    }
}

#[test]
fn who_talks_to_nobody_gives_up() {
    for protocol in SENT_AGAIN {
        let failures = [failure(BrokenPart::Node(1), 0, FOR_EVER)];
        let setup = setup(Topology::star(3, link()), &failures, ErrorRates::default(), protocol);
        let messages = vec![
            (Time::ZERO, Message::write(0, 1, 3_000)),
            (Time::ZERO, Message::read(0, 1, 3_000)),
            (Time::ZERO, Message::read(1, 2, 3_000)),
            (Time::ZERO, Message::read(0, 2, 3_000)),
        ];
        let run = run(&setup, messages);
        let given_up: Vec<bool> = run.outcomes.iter().map(|outcome| outcome.is_given_up()).collect();
        assert_eq!(given_up, [true, true, true, false], "{protocol}");
        assert!(!run.is_complete());
    }
}

/// Two spines of which one fails: its flows are lost until the failure is known, and then go by the other.
#[test]
fn flows_go_around_a_switch_once_that_is_known() {
    let tree = || Topology::leaf_spine(2, 8, 2, link(), link());
    let messages = || {
        (0..8).map(|n| (Time::from_ns(u64::from(n)), Message::write(n, 8 + n, 100_000))).collect::<Vec<_>>()
    };
    // Fabrics whose packets take all paths find one that is up by themselves.
    for protocol in [Dctcp::PROTOCOL, Tcp::PROTOCOL, Pfabric::PROTOCOL] {
        let down = |detected_after| {
            let failure = Downtime { detected_after, ..failure(BrokenPart::Switch(3), 0, 10_000_000_000) };
            let mut setup = setup(tree(), &[failure], ErrorRates::default(), protocol);
            setup.ethernet.buffer = SwitchBuffer::Private(Bytes::new(1 << 24));
            run(&setup, messages())
        };
        let (blind, seeing) = (down(None), down(Some(Time::from_us(5))));
        assert!(blind.ended > Time::from_us(10_000_000), "{protocol}: some wait until it is back");
        assert!(seeing.is_complete() && seeing.ended < Time::from_us(20_000), "{protocol}: {}", seeing.ended);
        let known = down(Some(Time::ZERO));
        assert!(known.is_complete());
        assert_eq!(known.counters.dropped_packets, 0, "{protocol}");
    }
}

#[test]
fn bit_errors_slow_a_long_flow_and_lose_nothing() {
    for protocol in SENT_AGAIN {
        let errors = ErrorRates { host: 1e-6, core: 0.0 };
        let setup = setup(Topology::star(2, link()), &[], errors, protocol);
        let run = run(&setup, vec![(Time::ZERO, Message::write(0, 1, 10_000_000))]);
        // 6,900 packets of 12,300 bits over two links; more where the packets after a lost one are sent again.
        let lost = run.counters.dropped_packets;
        assert!(run.is_complete());
        assert!((100..1_000).contains(&lost), "{protocol}: {lost}");
    }
}

#[test]
fn every_run_ends_on_links_that_carry_nothing() {
    let messages = || vec![Message::write(0, 1, 100), Message::read(1, 2, 64), Message::write(2, 0, 20_000)];
    let finished = |failures: &[Downtime], host: f64, protocol| {
        let errors = ErrorRates { host, core: 0.0 };
        let mut setup = setup(Topology::star(3, link()), failures, errors, protocol);
        setup.time_limit = Time::from_us(100_000);
        let run = run(&setup, messages().into_iter().map(|message| (Time::ZERO, message)).collect());
        run.outcomes.iter().map(|outcome| outcome.completed().is_some()).collect::<Vec<_>>()
    };
    // Up for 2 ns of 102, which is too short for any packet or flit.
    let flaps = [Downtime { every: Some(Time::from_ns(102)), ..failure(BrokenPart::Node(0), 0, 100) }];
    for protocol in [&SENT_AGAIN[..], &[Cxl::PROTOCOL, Edm::PROTOCOL]].concat() {
        for rate in [1e-4, 1e-3, 0.01] {
            // Some finish, or none: the promise is that the run ends.
            finished(&[], rate, protocol);
        }
        for rate in [0.1, 0.5, 0.999] {
            assert_eq!(finished(&[], rate, protocol), [false; 3], "{protocol} at {rate}");
        }
        assert_eq!(finished(&flaps, 0.0, protocol), [false, true, false], "{protocol} flaps");
    }
}

#[test]
fn a_run_without_faults_is_the_same_with_an_empty_schedule() {
    let messages: Vec<_> =
        (0..40u32).map(|n| (Time::from_ns(u64::from(n)), Message::read(n % 4, 4 + n % 3, 20_000))).collect();
    for protocol in SENT_AGAIN {
        let faulty = setup(Topology::star(8, link()), &[], ErrorRates::default(), protocol);
        let network = Network { topology: Topology::star(8, link()), ..faulty.network };
        let plain = Setup { network, ..faulty.clone() };
        let (a, b) = (run(&faulty, messages.clone()), run(&plain, messages.clone()));
        assert_eq!((a.outcomes, a.counters), (b.outcomes, b.counters));
    }
}

fn any_failure(nodes: u32, switches: u32, endless: bool) -> impl Strategy<Value = Downtime> {
    let what =
        prop_oneof![(0..nodes).prop_map(BrokenPart::Node), (0..switches).prop_map(BrokenPart::Switch),];
    let often = prop::option::of(1u64..100_000);
    let detected = prop::option::of(0u64..100_000);
    (what, 0u64..50_000, 1u64..200_000, often, detected, any::<bool>()).prop_map(
        move |(what, from, length, pause, detected, for_ever)| {
            let for_ever = for_ever && endless;
            let (from, length) = (Time::from_ns(from), Time::from_ns(length));
            Downtime {
                what,
                from,
                until: if for_ever { Time::MAX } else { from + length },
                every: pause.filter(|_| !for_ever).map(|pause| length + Time::from_ns(pause)),
                detected_after: detected.map(Time::from_ns),
            }
        },
    )
}

fn messages(drawn: Vec<(u64, u32, u32, u64)>, nodes: u32) -> Vec<(Time, Message)> {
    let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
    let mut messages: Vec<_> = drawn
        .into_iter()
        .map(|(at, src, offset, bytes)| {
            let src = src % nodes;
            let dst = (src + 1 + offset % (nodes - 1)) % nodes;
            (Time::from_ns(at), kinds[bytes as usize % 4](src, dst, bytes))
        })
        .collect();
    messages.sort_by_key(|(at, _)| *at);
    messages
}

fn topologies() -> impl Strategy<Value = Topology> {
    prop::sample::select(vec![
        Topology::star(6, link()),
        Topology::leaf_spine(2, 3, 2, link(), link()),
        Topology::fat_tree(4, link(), link()),
    ])
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    /// Outcomes of random failures. The engine asserts that no message completes twice and time never goes back.
    #[test]
    fn every_message_completes_or_is_given_up(
        topology in topologies(),
        protocol in prop::sample::select([&SENT_AGAIN[..], &[Cxl::PROTOCOL]].concat()),
        failures in prop::collection::vec(any_failure(6, 1, true), 0..4),
        errors in prop::sample::select(vec![0.0, 1e-7, 1e-5]),
        drawn in prop::collection::vec((0u64..100_000, any::<u32>(), any::<u32>(), 1u64..40_000), 1..40),
    ) {
        let messages = messages(drawn, topology.nodes());
        let setup = setup(topology, &failures, ErrorRates { host: errors, core: errors }, protocol);
        let run = run(&setup, messages);
        for outcome in &run.outcomes {
            prop_assert!(outcome.completed().is_some() || outcome.is_given_up());
        }
        conserved(&run)?;
    }

    #[test]
    fn what_fails_for_a_while_is_recovered_from(
        topology in topologies(),
        protocol in prop::sample::select(SENT_AGAIN.to_vec()),
        failures in prop::collection::vec(any_failure(6, 1, false), 0..3),
        drawn in prop::collection::vec((0u64..100_000, any::<u32>(), any::<u32>(), 1u64..40_000), 1..40),
    ) {
        let messages = messages(drawn, topology.nodes());
        let failures: Vec<_> =
            failures.into_iter().map(|failure| Downtime { every: None, ..failure }).collect();
        let run = run(&setup(topology, &failures, ErrorRates::default(), protocol), messages);
        prop_assert!(run.is_complete());
        conserved(&run)?;
    }
}

/// Checks that bytes sent have arrived, were dropped, or are under way when the last message ends.
fn conserved(run: &Run) -> Result<(), TestCaseError> {
    let counters = &run.counters;
    prop_assert!(counters.arrived_bytes + counters.dropped_bytes <= counters.sent_bytes);
    let complete =
        run.messages.iter().zip(&run.outcomes).filter(|(_, outcome)| outcome.completed().is_some());
    prop_assert!(counters.arrived_bytes >= complete.map(|(message, _)| message.payload()).sum());
    Ok(())
}

#[test]
fn a_cxl_link_sends_a_bad_flit_again_and_loses_nothing() {
    let errors = ErrorRates { host: 1e-6, core: 1e-6 };
    for topology in [Topology::star(8, link()), Topology::leaf_spine(2, 4, 2, link(), link())] {
        let faulty = setup(topology.clone(), &[], errors, Cxl::PROTOCOL);
        let plain = setup(topology, &[], ErrorRates::default(), Cxl::PROTOCOL);
        let messages: Vec<_> = (0..7).map(|n| (Time::ZERO, Message::write(n, n + 1, 1 << 20))).collect();
        let (faulty, plain) = (run(&faulty, messages.clone()), run(&plain, messages));
        for run in [&faulty, &plain] {
            assert!(run.is_complete());
            assert_eq!(run.counters.sent_bytes, run.counters.arrived_bytes);
        }
        assert!(faulty.ended > plain.ended);
    }
}

#[test]
fn a_cxl_link_that_comes_back_goes_on() {
    let failures =
        [failure(BrokenPart::Switch(0), 300, 50_000), failure(BrokenPart::Node(1), 60_000, 70_000)];
    let setup = setup(Topology::star(3, link()), &failures, ErrorRates::default(), Cxl::PROTOCOL);
    let run =
        run(&setup, vec![(Time::ZERO, Message::read(0, 1, 1 << 18)), (Time::ZERO, Message::write(2, 1, 64))]);
    assert!(run.is_complete());
    assert_eq!((run.counters.sent_bytes, run.counters.dropped_packets), (run.counters.arrived_bytes, 0));
    assert!(completion_ps(&run, 0) > 70_000_000);
}

#[test]
fn what_a_dead_cxl_device_was_asked_for_is_given_up_and_holds_up_nobody() {
    let failures = [failure(BrokenPart::Node(1), 1_000, FOR_EVER)];
    let setup = setup(Topology::star(4, link()), &failures, ErrorRates::default(), Cxl::PROTOCOL);
    let to = |n: u64| (n % 2 + 1) as u32;
    let messages: Vec<_> = (0..400)
        .map(|n| (Time::from_ns(5 * n), Message::read(0, to(n), 4096)))
        .chain([
            (Time::from_us(3), Message::read(1, 2, 4096)),
            (Time::from_us(3), Message::write(3, 1, 4096)),
        ])
        .collect();
    let run = run(&setup, messages);
    for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
        let dead = message.dst == 1 || message.src == 1;
        assert!(outcome.completed().is_some() || dead && outcome.is_given_up(), "{message:?}");
    }
    assert!(run.outcomes.iter().filter(|outcome| outcome.is_given_up()).count() > 100);
    conserved(&run).unwrap();
}
