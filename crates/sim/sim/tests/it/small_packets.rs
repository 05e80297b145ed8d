//! `ndp` with packets that are about as short as the reports on them: a receiver acknowledges and pulls each, so that most of a link
//! carries reports where traffic goes both ways.

use unrack_rack::{Overrides, Scenario};
use unrack_sim::known;
use unrack_sim::{Run, Setup, Work};

/// Bytes of a packet without payload on the wire.
const BARE: u64 = 90;

/// Returns the payload that a link can carry in each direction, as a share of its rate: for each packet that a node sends, it receives
/// one, on which it sends an acknowledgement and a pull.
fn capacity(mtu: u64) -> f64 {
    let payload = mtu - 52;
    payload as f64 / (payload + 3 * BARE) as f64
}

/// Runs messages of 4 KiB between 16 nodes, at a load of so much of the capacity.
fn at(mtu: u64, of_capacity: f64, pattern: &str) -> Run {
    let load = capacity(mtu) * of_capacity;
    let text = format!(
        r#"
        [network]
        topology = {{ kind = "star", nodes = 16 }}
        link = {{ rate = "100Gbps", propagation = "200ns" }}
        switch = {{ buffer = "1MiB" }}
        mtu = "{mtu}B"
        [fabric]
        protocol = "ndp"
        [workload]
        kind = "flows"
        size = "4KiB"
        pattern = "{pattern}"
        load = {load}
        messages = 1000
        "#
    );
    let mut scenario =
        Scenario::parse("test.toml", &text, &Overrides::none()).unwrap().check(&known()).unwrap();
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    let work = Work::drawn(&scenario).unwrap().unwrap();
    let run = setup.run(&work, |_| {}).unwrap().run;
    assert!(run.is_complete(), "{mtu} {pattern}: {:?}", run.ending);
    run
}

fn mean_slowdown(run: &Run) -> f64 {
    let all: Vec<f64> = (0..run.messages.len()).filter_map(|index| run.slowdown(index)).collect();
    all.iter().sum::<f64>() / all.len() as f64
}

/// Returns the payload that arrived, as a share of what could have.
fn carried(mtu: u64, run: &Run) -> f64 {
    let bytes: u64 = run.messages.iter().map(|message| message.bytes).sum();
    let rate = bytes as f64 * 8e12 / run.ended.as_ps() as f64 / 16.0;
    rate / (100e9 * capacity(mtu))
}

#[test]
fn reports_leave_room_for_data_in_the_other_direction() {
    // Mean slowdowns at half of the capacity, when pulls were paced by packets alone: 132, 9.4 and 3.3.
    for (mtu, most) in [(64, 16.0), (128, 8.0), (256, 6.0)] {
        let run = at(mtu, 0.5, "all-to-all");
        let (slowdown, carried) = (mean_slowdown(&run), carried(mtu, &run));
        assert!(slowdown < most && carried > 0.4, "{mtu}: slowdown {slowdown}, carried {carried}");
        assert_eq!(run.counters.dropped_packets, 0, "{mtu}");
    }
}

#[test]
fn more_than_links_carry_does_not_make_them_carry_less() {
    // Shares of the capacity of 64 B, when pulls were paced by packets alone: 0.22 and 0.12.
    for pattern in ["all-to-all", "permutation"] {
        for (mtu, least) in [(64, 0.4), (128, 0.5), (256, 0.5)] {
            let run = at(mtu, 1.5, pattern);
            let carried = carried(mtu, &run);
            assert!(carried > least, "{mtu} {pattern}: {carried}");
        }
    }
}
