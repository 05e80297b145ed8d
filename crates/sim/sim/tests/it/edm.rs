//! `edm` against the paper and against arithmetic.

use crate::common;

use common::{assert_conserved, assert_unloaded_is_exact, completion_ps, run};
use unrack_sim::fabric::edm::{Edm, EdmConfig, SchedulingOrder};
use unrack_sim::network::StarNetwork;
use unrack_units::{Bytes, Rate, Time};
use unrack_workload::Message;

fn star(nodes: u32, gbps: u64) -> StarNetwork {
    StarNetwork {
        nodes,
        rate: Rate::from_gbps(gbps),
        propagation: Time::from_ns(10),
        switch_latency: Time::ZERO,
    }
}

fn edm(nodes: u32, gbps: u64) -> Edm {
    Edm::new(&star(nodes, gbps), &EdmConfig::default()).unwrap()
}

fn alone_ps(fabric: Edm, message: Message) -> u64 {
    completion_ps(&run(fabric, vec![(Time::from_ns(3), message)]), 0)
}

#[test]
fn table_1() {
    for gbps in [25, 100] {
        // §4.3 keeps the steps' latencies when it scales the links to 100 Gb/s.
        assert_eq!(alone_ps(edm(2, gbps), Message::read(0, 1, 64)), 299_520);
        assert_eq!(alone_ps(edm(2, gbps), Message::write(0, 1, 64)), 296_960);
    }
}

#[test]
fn a_scaled_table_1() {
    let half = EdmConfig { cycle: Time::from_ps(1_280), pma: Time::from_ns(5), ..EdmConfig::default() };
    let far = StarNetwork { propagation: Time::from_ns(200), ..star(2, 100) };
    let fabric = || Edm::new(&far, &half).unwrap();
    // 42 and 41 cycles (table 1), 8 PMA crossings, 4 links.
    assert_eq!(alone_ps(fabric(), Message::read(0, 1, 64)), 42 * 1_280 + 8 * 5_000 + 4 * 200_000);
    assert_eq!(alone_ps(fabric(), Message::write(0, 1, 64)), 41 * 1_280 + 8 * 5_000 + 4 * 200_000);
}

#[test]
fn a_page_takes_the_pipeline_and_all_but_its_last_burst() {
    assert_eq!(alone_ps(edm(2, 100), Message::read(0, 1, 4096)), 299_520 + (4096 - 64) * 80);
    assert_eq!(alone_ps(edm(2, 100), Message::write(0, 1, 4096)), 296_960 + (4096 - 64) * 80);
}

#[test]
fn unloaded_is_exact_for_all_kinds_sizes_rates_and_clocks() {
    for gbps in [10, 25, 30, 40, 100, 400] {
        for scheduler_ghz in [3.0, 1.0, 0.390_625] {
            for chunk in [64, 256, 1024] {
                let config = EdmConfig { scheduler_ghz, chunk: Bytes::new(chunk), ..EdmConfig::default() };
                assert_unloaded_is_exact(Edm::new(&star(3, gbps), &config).unwrap());
            }
        }
    }
}

#[test]
fn an_incast_keeps_the_port_busy_and_the_switch_empty() {
    let script = (1..33).map(|src| (Time::ZERO, Message::write(src, 0, 1024))).collect();
    let run = run(edm(33, 100), script);
    assert_conserved(&run);
    let last = run.outcomes.iter().map(|outcome| outcome.completed().unwrap()).max().unwrap();
    let expected = 296_960 + (32 * 1024 - 64) * 80; // back to back, no gap between chunks
    assert_eq!(last.as_ps(), expected);
    assert_eq!(run.queue_bytes.max(), 0);
}

#[test]
fn a_pair_has_at_most_three_active_messages_and_keeps_their_order() {
    let script: Vec<_> = (0..10).map(|n| (Time::from_ps(n), Message::write(0, 1, 4096 >> n))).collect();
    for policy in [SchedulingOrder::Fcfs, SchedulingOrder::Srpt] {
        let config = EdmConfig { policy, ..EdmConfig::default() };
        let run = run(Edm::new(&star(2, 100), &config).unwrap(), script.clone());
        assert_conserved(&run);
        assert!(run.outcomes.windows(2).all(|two| two[0].completed() < two[1].completed()));
    }
}

#[test]
fn srpt_lets_a_short_message_pass_a_long_one() {
    let script =
        vec![(Time::ZERO, Message::write(1, 0, 100_000)), (Time::from_us(1), Message::write(2, 0, 64))];
    let with = |policy| {
        let config = EdmConfig { policy, ..EdmConfig::default() };
        run(Edm::new(&star(3, 100), &config).unwrap(), script.clone())
    };
    let chunk_ps = 256 * 80;
    assert!(completion_ps(&with(SchedulingOrder::Srpt), 1) <= 296_960 + chunk_ps);
    assert!(completion_ps(&with(SchedulingOrder::Fcfs), 1) > 6_000_000);
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let refused = |config: EdmConfig| Edm::new(&star(2, 100), &config).err().unwrap().to_string();
    let default = EdmConfig::default();
    assert_eq!(
        refused(EdmConfig { chunk: Bytes::new(100), ..default }),
        "`fabric.chunk` is a multiple of 64B, at most 65472B, but is 100B"
    );
    assert!(refused(EdmConfig { max_active: 0, ..default }).contains("fabric.max_active"));
    assert!(refused(EdmConfig { scheduler_ghz: 0.1, ..default }).contains("fabric.scheduler_ghz"));
    assert!(refused(EdmConfig { scheduler_ghz: f64::NAN, ..default }).contains("NaN"));
    assert!(Edm::new(&star(5000, 100), &default).is_err());
    let slow = Edm::new(&star(2, 1), &default).err().unwrap().to_string();
    assert!(slow.starts_with("`network.link.rate` is fast enough for edm"), "{slow}");
}

/// Saturation: every node reads from, writes to and is written to by every other, without a pause.
#[test]
fn a_saturated_switch_holds_two_chunks_and_no_more() {
    let pairs = || (0..8).flat_map(|src| (0..8).map(move |dst| (src, dst))).filter(|(src, dst)| src != dst);
    for bytes in [64, 256, 1024] {
        let both = |(src, dst)| [Message::read(src, dst, bytes), Message::write(src, dst, bytes)];
        let script = (0..300).flat_map(|_| pairs().flat_map(both)).map(|message| (Time::ZERO, message));
        let run = run(edm(8, 100), script.collect());
        assert_conserved(&run);
        assert!((1..=2 * 256 + 64).contains(&run.queue_bytes.max()), "{bytes}: {}", run.queue_bytes.max());
    }
}
