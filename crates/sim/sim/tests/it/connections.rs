//! Connections that are kept between messages.

use crate::common::assert_same;
use crate::common::change;
use crate::common::fabrics::*;
use proptest::prelude::*;
use unrack_protocol::tcp::{ConnectionLifetime, Params};
use unrack_protocol::{dctcp, mptcp};
use unrack_rack::Wiring;
use unrack_sim::network::{Network, Pace};
use unrack_sim::run::Run;
use unrack_sim::site::{Ethernet, SwitchBuffer};
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{FabricConfig, Setup, Work};
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

use ConnectionLifetime::{Fresh, Kept};

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

fn setup(topology: Topology, buffer: u64, fabric: FabricConfig) -> Setup {
    let (mtu, buffer) = (Bytes::new(1500), SwitchBuffer::Private(Bytes::new(buffer)));
    Setup {
        network: Network { topology, switch_latency: Time::from_ns(300) },
        ethernet: Ethernet { mtu, headers: true, buffer, cut_through: true },
        fabric,
        seed: 1,
        time_limit: Time::MAX,
    }
}

fn run(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    setup.run(&Work::listed(messages), |_| {}).unwrap().run
}

const TIMEOUT: Time = Time::from_us(2_000);

/// Returns the three protocols, with connections that begin with this window.
fn all(connections: ConnectionLifetime, initial_window: u32) -> [FabricConfig; 3] {
    let min_rto = TIMEOUT;
    [
        FabricConfig::new::<Tcp>(Params { connections, initial_window, min_rto, ..Default::default() }),
        FabricConfig::new::<Dctcp>(dctcp::Params {
            connections,
            initial_window,
            min_rto,
            ..Default::default()
        }),
        FabricConfig::new::<Mptcp>(mptcp::Params {
            connections,
            initial_window,
            min_rto,
            ..Default::default()
        }),
    ]
}

/// Returns the completion time over a fresh connection with this window, for each of the protocols.
fn fresh(topology: &Topology, initial_window: u32, message: Message) -> [Time; 3] {
    all(Fresh, initial_window).map(|fabric| {
        let run = run(&setup(topology.clone(), 1 << 30, fabric), vec![(Time::ZERO, message)]);
        run.outcomes[0].completion().unwrap()
    })
}

/// Creates a star whose round trip takes 200 us, far longer than a window.
fn star() -> Topology {
    Topology::star(3, link(1_000, 50_000))
}

/// Bytes of 150 segments: 10, 20, 40 and 80, one round trip each. All are acknowledged, so that the window is 160
/// then.
const ROUNDS: u64 = 150 * 1448;

#[test]
fn in_a_ring_the_second_message_begins_with_the_window_of_the_first() {
    let ring = |round: u64| {
        (0..3).map(move |n| (Time::from_us(1_000 * round), Message::write(n, (n + 1) % 3, ROUNDS)))
    };
    let windows = [10, 160, 310, 460].map(|window| fresh(&star(), window, Message::write(0, 1, ROUNDS)));
    // With a window of 10 there are four rounds; with 160 the message is on its way at once.
    assert!(windows[0][0] - windows[1][0] > Time::from_us(600 - 10));
    assert_eq!(windows[1], windows[2]);
    for (n, fabric) in all(Kept, 10).into_iter().enumerate() {
        let run = run(&setup(star(), 1 << 30, fabric), (0..4).flat_map(ring).collect());
        for (number, outcome) in run.outcomes.iter().enumerate() {
            assert_eq!(outcome.completion().unwrap(), windows[number / 3][n], "message {number}");
        }
    }
}

#[test]
fn a_read_keeps_the_connections_of_request_and_answer() {
    let windows = [10, 160].map(|window| fresh(&star(), window, Message::read(0, 1, ROUNDS)));
    for (n, fabric) in all(Kept, 10).into_iter().enumerate() {
        let reads = [Time::ZERO, TIMEOUT].map(|at| (at, Message::read(0, 1, ROUNDS)));
        let run = run(&setup(star(), 1 << 30, fabric), reads.into());
        assert_eq!(
            [0, 1].map(|read: usize| run.outcomes[read].completion().unwrap()),
            windows.map(|of| of[n])
        );
    }
}

#[test]
fn after_timeouts_without_a_message_the_window_is_smaller() {
    // No packet is lost, so slow start goes on from that window. The last segment of the first message is sent after
    // three round trips.
    for (timeouts, window) in [(0, 160), (1, 80), (2, 40), (3, 20), (4, 10), (5, 10), (50_000, 10)] {
        let expected = fresh(&star(), window, Message::write(0, 1, ROUNDS));
        for (n, fabric) in all(Kept, 10).into_iter().enumerate() {
            let later = Time::from_us(900) + TIMEOUT * timeouts;
            let messages = [Time::ZERO, later].map(|at| (at, Message::write(0, 1, ROUNDS)));
            let run = run(&setup(star(), 1 << 30, fabric), messages.into());
            assert_eq!(run.outcomes[1].completion().unwrap(), expected[n], "{timeouts} timeouts");
        }
    }
}

#[test]
fn who_sends_while_a_connection_is_in_use_opens_another() {
    let (first, fourth) = (fresh(&star(), 10, Message::write(0, 1, ROUNDS)), Time::from_us(1_000));
    for (n, fabric) in all(Kept, 10).into_iter().enumerate() {
        // Messages to other ends, and in the other direction.
        let others = [Message::write(0, 2, ROUNDS), Message::write(1, 0, ROUNDS)];
        let messages = [Time::ZERO, fourth].into_iter().flat_map(|at| {
            let ends = if at == Time::ZERO { [Message::write(0, 1, ROUNDS); 2] } else { others };
            ends.map(|message| (at, message))
        });
        let run = run(&setup(star(), 1 << 30, fabric), messages.collect());
        let times: Vec<_> = run.outcomes.iter().map(|outcome| outcome.completion().unwrap()).collect();
        // The first two messages share a link, on which a message takes 2 us.
        assert!(times[..2].iter().all(|time| *time >= first[n] && *time < first[n] + Time::from_us(3)));
        assert_eq!(times[2..], [first[n]; 2]);
    }
}

#[test]
fn a_kept_connection_keeps_its_way() {
    // There are two paths from rack to rack: 40 connections take both, and one that is kept takes one.
    let topology = || Topology::leaf_spine(2, 1, 2, link(100, 200), link(100, 200));
    let ways = |connections| {
        let params = Params { connections, ..Default::default() };
        let hops = std::cell::RefCell::new(std::collections::BTreeSet::new());
        let sink = |hop: &unrack_sim::Hop, _: Option<&Message>| {
            hops.borrow_mut().insert((hop.link, hop.packet.kind == unrack_sim::PacketKind::Data));
        };
        let packets = Some(unrack_sim::observe::Packets::new(sink));
        let mut watch = unrack_sim::observe::Views { packets, ..Default::default() };
        let messages = (0..40).map(|n| (Time::from_us(100 * n), Message::write(0, 1, 20_000))).collect();
        let setup = setup(topology(), 1 << 20, FabricConfig::new::<Tcp>(params));
        setup.watched(&Work::listed(messages), &mut watch, |_| {}).unwrap();
        watch.packets.take().unwrap().finish();
        drop(watch);
        hops.into_inner().len()
    };
    // Links from the node, up, down, to the node; data in one direction, acknowledgements in the other.
    assert_eq!((ways(Fresh), ways(Kept)), (2 * (1 + 2 + 2 + 1), 2 * 4));
}

#[test]
fn what_a_message_takes_alone_is_a_bound() {
    for fabric in all(Kept, 10) {
        let setup = setup(star(), 1 << 30, fabric);
        let messages = [Time::ZERO, TIMEOUT].map(|at| (at, Message::write(0, 1, ROUNDS)));
        let ideal = setup.network.ideal(&messages[0].1);
        let run = run(&setup, messages.into());
        assert_eq!(run.unloaded, [ideal; 2]);
        assert!(run.outcomes.iter().all(|outcome| outcome.completion().unwrap() > ideal));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, failure_persistence: None, ..ProptestConfig::default() })]
    /// Fabrics on pools, with buffers that drop, and messages of all kinds over the same connections.
    #[test]
    fn everything_arrives_and_twice_the_same(
        pooled: bool,
        spraying: bool,
        probes: bool,
        buffer in prop::sample::select(vec![8_000u64, 40_000, 1 << 24]),
        drawn in prop::collection::vec((0u64..3_000, 0u32..3, 1u32..3, 1u64..200_000), 1..60),
    ) {
        let wiring = Wiring { racks: 3, hosts_per_rack: 3, cores: Wiring::default_cores(3, 3) };
        let topology = match pooled {
            true => Topology::drack(wiring, link(100, 200), link(100, 350), link(500, 55)),
            false => Topology::leaf_spine(3, 3, 2, link(100, 200), link(100, 350)),
        };
        let mut messages: Vec<_> = drawn.into_iter().map(|(at, src, ahead, bytes)| {
            let (src, dst) = (src * 3, (src + ahead) % 3 * 3);
            (Time::from_us(at), [Message::write, Message::read][bytes as usize % 2](src, dst, bytes))
        }).collect();
        messages.sort_by_key(|(at, _)| *at);
        for mut fabric in all(Kept, 10) {
            change::<Tcp>(&mut fabric, |params| {
                (params.spraying, params.tail_loss_probe) = (spraying, probes);
            });
            change::<Dctcp>(&mut fabric, |params| params.tail_loss_probe = probes);
            change::<Mptcp>(&mut fabric, |params| params.tail_loss_probe = probes);
            let setup = setup(topology.clone(), buffer, fabric);
            let once = run(&setup, messages.clone());
            prop_assert!(once.outcomes.iter().all(|outcome| outcome.completion().is_some()));
            // Segments that a sender repeated needlessly may still be under way; `stream/inside.rs` runs dry and is exact.
            let counters = &once.counters;
            prop_assert!(counters.arrived_bytes + counters.dropped_bytes <= counters.sent_bytes);
            prop_assert!(counters.arrived_bytes >= once.messages.iter().map(Message::payload).sum());
            assert_same(&once, &run(&setup, messages.clone()));
        }
    }
}
