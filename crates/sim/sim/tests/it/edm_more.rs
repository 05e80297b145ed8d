//! `edm` beyond the plain case: mega messages, read-modify-writes, timeouts, failures.

use crate::common;

use common::{assert_conserved, assert_unloaded_is_exact, completion_ps, run};
use proptest::prelude::*;
use unrack_sim::fabric::edm::{Edm, EdmConfig, Frames, SchedulingOrder};
use unrack_sim::faults::{BrokenPart, Downtime, ErrorRates, FaultSchedule};
use unrack_sim::network::{Network, StarNetwork};
use unrack_sim::{Run, SetupError};
use unrack_units::{Bytes, Fraction, Rate, Time};
use unrack_workload::Message;

fn star(nodes: u32) -> StarNetwork {
    let (rate, propagation) = (Rate::from_gbps(100), Time::from_ns(10));
    StarNetwork { nodes, rate, propagation, switch_latency: Time::ZERO }
}

fn edm(nodes: u32, config: &EdmConfig) -> Edm {
    Edm::new(&star(nodes), config).unwrap()
}

fn mega(bytes: u64) -> EdmConfig {
    EdmConfig { mega: Some(Bytes::new(bytes)), ..EdmConfig::default() }
}

#[test]
fn mega_messages_save_notifications_and_keep_the_order() {
    let script: Vec<_> = (0..99).map(|n| (Time::from_ps(n), Message::write(0, 1, 64))).collect();
    let (plain, mega) = (run(edm(2, &EdmConfig::default()), script.clone()), run(edm(2, &mega(256)), script));
    for run in [&plain, &mega] {
        assert_conserved(run);
        assert!(run.outcomes.windows(2).all(|two| two[0].completed() <= two[1].completed()));
    }
    // Four hops each: a notification, a grant and data over two links. Mega messages carry up to four at once, except
    // the first three.
    assert_eq!(plain.counters.packet_hops, 99 * 4);
    assert_eq!(mega.counters.packet_hops, (3 + 96 / 4) * 4);
    assert!(mega.ended < plain.ended);
}

#[test]
fn a_mega_message_of_one_is_a_message() {
    assert_unloaded_is_exact(edm(3, &mega(256)));
}

#[test]
fn a_read_modify_write_keeps_other_requests_out() {
    let config = EdmConfig { atomic: Time::from_ns(100), ..EdmConfig::default() };
    assert_unloaded_is_exact(edm(3, &config));
    let script = vec![(Time::ZERO, Message::rmw(1, 0, 8)), (Time::from_ns(10), Message::read(2, 0, 64))];
    let waited = |config: &EdmConfig| completion_ps(&run(edm(3, config), script.clone()), 1);
    // The read's request is 10 ns behind the other's, which is two blocks longer.
    let behind = waited(&config) - waited(&EdmConfig::default());
    assert!((90_000..=100_000).contains(&behind), "{behind}");
}

fn failing(nodes: u32, config: &EdmConfig, failures: &[Downtime], errors: f64) -> Result<Edm, SetupError> {
    let topology = Network::star(&star(nodes)).topology;
    let errors = ErrorRates { host: errors, core: 0.0 };
    let faults = FaultSchedule::new(&topology, failures, errors, 5)?;
    Edm::new(&star(nodes), config)?.with_faults(&topology.with_faults(faults), config)
}

fn node_down(node: u32, from_ns: u64, until_ns: u64) -> Downtime {
    let (from, until) = (Time::from_ns(from_ns), Time::from_ns(until_ns));
    Downtime { what: BrokenPart::Node(node), from, until, every: None, detected_after: None }
}

fn reads_and_writes(from: u64) -> Vec<(Time, Message)> {
    let both = |n: u64| {
        let at = Time::from_ns(from + 50 * n);
        [(at, Message::read(0, 1, 600)), (at, Message::write(2, 1, 600)), (at, Message::read(0, 2, 64))]
    };
    (0..10).flat_map(both).collect()
}

#[test]
fn a_dead_memory_node_is_answered_for_with_null() {
    let config = EdmConfig { read_timeout: Some(Time::from_us(5)), ..EdmConfig::default() };
    let failures = [node_down(1, 0, 1_000_000)];
    let run = run(failing(3, &config, &failures, 0.0).unwrap(), reads_and_writes(0));
    for (message, outcome) in run.messages.iter().zip(&run.outcomes) {
        match (message.dst, message.kind.is_answered()) {
            (1, true) => assert!(outcome.is_given_up(), "a read"),
            (1, false) => assert!(outcome.completed().is_none() && !outcome.is_given_up(), "a write"),
            _ => assert!(outcome.completed().is_some(), "of a node that is there"),
        }
    }
    assert_balanced(&run);
}

#[test]
fn without_timer_what_was_lost_is_reported_and_the_others_finish() {
    let failures = [node_down(1, 0, 400)];
    let run = run(failing(3, &EdmConfig::default(), &failures, 0.0).unwrap(), reads_and_writes(0));
    assert!(!run.is_complete());
    assert!(run.counters.dropped_packets > 0);
    let of_others = run.messages.iter().zip(&run.outcomes).filter(|(message, _)| message.dst == 2);
    assert!(of_others.clone().count() == 10 && of_others.into_iter().all(|(_, o)| o.completed().is_some()));
    assert_balanced(&run);
}

#[test]
fn a_backup_switch_loses_nothing_and_costs_no_time() {
    let config = EdmConfig { backup: true, ..EdmConfig::default() };
    let switch = Downtime { what: BrokenPart::Switch(0), ..node_down(0, 100, 1_000_000) };
    let (failed, whole) = (
        run(failing(3, &config, &[switch], 1e-6).unwrap(), reads_and_writes(0)),
        run(edm(3, &config), reads_and_writes(0)),
    );
    assert_conserved(&failed);
    assert_eq!(failed.outcomes, whole.outcomes);
}

#[test]
fn one_flipped_bit_disables_a_link() {
    let script: Vec<_> = (0..2_000).map(|n| (Time::from_ns(10 * n), Message::write(0, 1, 64))).collect();
    let run = run(failing(3, &EdmConfig::default(), &[], 1e-5).unwrap(), script);
    let finished = run.outcomes.iter().take_while(|outcome| outcome.completed().is_some()).count();
    // A message puts some 1,200 bits on links.
    assert!((1..1_000).contains(&finished), "{finished}");
    assert!(run.outcomes[finished..].iter().all(|outcome| outcome.completed().is_none()));
}

fn with_frames(load: f64) -> EdmConfig {
    let frames = Frames { load: Fraction::new(load).unwrap(), frame: Bytes::new(1500) };
    EdmConfig { background: Some(frames), ..EdmConfig::default() }
}

#[test]
fn memory_waits_for_at_most_a_block_of_a_frame_on_each_link() {
    let block = 640;
    let kinds = [Message::read, Message::write, Message::rmw];
    let script: Vec<_> =
        (0..3_000).map(|n| (Time::from_ns(1_000 * n), kinds[n as usize % 3](0, 1, 64))).collect();
    let run = run(edm(3, &with_frames(0.6)), script);
    assert_conserved(&run);
    let waits: Vec<u64> = (0..3_000).map(|n| completion_ps(&run, n) - run.unloaded[n].as_ps()).collect();
    // Delays: of a notification or request, of a grant, and of data over two links.
    assert!(waits.iter().all(|wait| *wait <= 4 * block), "{:?}", waits.iter().max());
    // Each link is taken for six tenths of the time, and then half a block remains on average.
    let mean = waits.iter().sum::<u64>() as f64 / 3_000.0;
    assert!((mean / (4.0 * 0.6 * 320.0) - 1.0).abs() < 0.15, "{mean}");
}

#[test]
fn frames_get_what_memory_leaves() {
    // Node 0 writes to node 1 half of the time: a kilobyte every 164 ns.
    let until = 400_000;
    let script: Vec<_> =
        (0..until / 164).map(|n| (Time::from_ns(164 * n), Message::write(0, 1, 1024))).collect();
    let plain = run(edm(2, &EdmConfig::default()), script.clone());
    for load in [0.3, 0.9] {
        let run = run(edm(2, &with_frames(load)), script.clone());
        assert_conserved(&run);
        let counters = &run.counters;
        assert!(counters.background_arrived_bytes <= counters.background_sent_bytes);
        // Frames from 0 to 1 get the rest of the link, and those from 1 to 0 all of it.
        let share = |load: f64| load * 1500.0 / 1544.0 * 12.5 * run.ended.as_ns_f64();
        let expected = share(load.min(0.5)) + share(load);
        let arrived = counters.background_arrived_bytes as f64;
        assert!((arrived / expected - 1.0).abs() < 0.06, "{load}: {arrived} of {expected}");
        // Memory traffic is as fast as alone, except for blocks.
        for n in 0..run.outcomes.len() {
            assert!(completion_ps(&run, n) <= completion_ps(&plain, n) + 40 * 640, "{n}");
        }
    }
}

#[test]
fn frames_do_not_go_where_links_fail() {
    let failures = [node_down(1, 0, 400)];
    let error = failing(3, &with_frames(0.5), &failures, 0.0).err().unwrap();
    assert_eq!(error.key, "fabric.background");
    let refused = |load, frame| {
        let frames = Frames { load: Fraction::new(load).unwrap(), frame: Bytes::new(frame) };
        let config = EdmConfig { background: Some(frames), ..EdmConfig::default() };
        Edm::new(&star(2), &config).err().unwrap().key
    };
    assert_eq!(refused(0.0, 1500), "fabric.background.load");
    assert_eq!(refused(0.5, 20), "fabric.background.frame");
}

/// Asserts that no byte is under way when no event is left.
fn assert_balanced(run: &Run) {
    let counters = &run.counters;
    assert_eq!(counters.sent_bytes, counters.arrived_bytes + counters.dropped_bytes, "{counters:?}");
}

proptest! {
    #[test]
    fn what_is_sent_has_arrived_or_was_dropped(
        failures in prop::collection::vec((0u32..5, 0u64..3_000, 1u64..2_000), 0..4),
        errors in prop::sample::select(vec![0.0, 1e-7, 1e-5]),
        mega in prop::option::of(64u64..2_000),
        timeout in prop::option::of(1u64..20),
        pairs_in_order in any::<bool>(),
        policy in prop::sample::select(vec![SchedulingOrder::Fcfs, SchedulingOrder::Srpt]),
        drawn in prop::collection::vec((0u64..4_000, 0u32..5, 1u32..5, 1u64..2_000), 1..80),
    ) {
        let failures: Vec<_> =
            failures.into_iter().map(|(node, from, length)| node_down(node, from, from + length)).collect();
        let config = EdmConfig {
            mega: mega.map(Bytes::new),
            read_timeout: timeout.map(Time::from_us),
            pairs_in_order,
            policy,
            ..EdmConfig::default()
        };
        let kinds = [Message::read, Message::write, Message::rmw, Message::flow];
        let mut script: Vec<_> = drawn.into_iter().map(|(at, src, offset, bytes)| {
            (Time::from_ns(at), kinds[bytes as usize % 4](src, (src + offset) % 5, bytes))
        }).collect();
        script.sort_by_key(|(at, _)| *at);
        let harmless = failures.is_empty() && errors == 0.0;
        let run = run(failing(5, &config, &failures, errors).unwrap(), script);
        match harmless && timeout.is_none() {
            true => assert_conserved(&run),
            // Data of messages that were given up may still be on its way when the run is over.
            false => {
                let counters = &run.counters;
                prop_assert!(counters.arrived_bytes + counters.dropped_bytes <= counters.sent_bytes);
                if timeout.is_none() {
                    assert_balanced(&run);
                }
            }
        }
        if timeout.is_some() {
            let reads = run.messages.iter().zip(&run.outcomes).filter(|(message, _)| message.kind.is_answered());
            for (_, outcome) in reads {
                prop_assert!(outcome.completed().is_some() || outcome.is_given_up());
            }
        }
    }
}
