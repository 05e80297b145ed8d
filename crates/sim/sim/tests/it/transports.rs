//! Transports compared with each other, on the cluster and traffic on which their papers compare them.

use unrack_rack::{Overrides, Scenario};
use unrack_sim::known;
use unrack_sim::{Run, Setup, Work};

/// Runs web search flows at load 0.6 between any two of 32 hosts, without oversubscription (pFabric, SIGCOMM 2013,
/// §5.1, smaller).
fn web_search(protocol: &str, buffer: &str) -> Run {
    let text = format!(
        r#"
        [network]
        topology = {{ kind = "leaf-spine", racks = 4, hosts_per_rack = 8, spines = 2 }}
        link = {{ rate = "40Gbps", propagation = "200ns" }}
        core_link = {{ rate = "160Gbps", propagation = "200ns" }}
        switch = {{ buffer = "{buffer}" }}
        [fabric]
        protocol = "{protocol}"
        [workload]
        kind = "flows"
        size = {{ cdf = "websearch" }}
        load = 0.6
        messages = 1_500
        "#
    );
    let mut scenario =
        Scenario::parse("test.toml", &text, &Overrides::none()).unwrap().check(&known()).unwrap();
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    let work = Work::drawn(&scenario).unwrap().unwrap();
    let run = setup.run(&work, |_| {}).unwrap().run;
    assert!(run.is_complete(), "{protocol}");
    run
}

/// Returns the slowdowns of flows of these sizes, sorted.
fn slowdowns(run: &Run, sizes: std::ops::Range<u64>) -> Vec<f64> {
    let of_size = run.messages.iter().enumerate().filter(|(_, message)| sizes.contains(&message.bytes));
    let mut slowdowns: Vec<_> = of_size.map(|(index, _)| run.slowdown(index).unwrap()).collect();
    slowdowns.sort_by(f64::total_cmp);
    slowdowns
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

const SMALL: std::ops::Range<u64> = 0..100_000;
const ALL: std::ops::Range<u64> = 0..u64::MAX;

#[test]
fn small_flows_are_near_ideal_where_the_smallest_go_first() {
    // pFabric §5.3: flows up to 100 KB come within a few tens of per cent of ideal, also at the 99th percentile.
    // Homa §5.2: 99th percentile of small messages within 2.2 of unloaded, given buffers for its overcommitment.
    for (protocol, buffer) in [("pfabric", "36KiB"), ("homa", "512KiB")] {
        let small = slowdowns(&web_search(protocol, buffer), SMALL);
        let p99 = small[small.len() * 99 / 100];
        assert!(
            mean(&small) < 1.3 && p99 < 2.2,
            "{protocol}: mean {:.2}, 99th percentile {p99:.2}",
            mean(&small)
        );
    }
}

#[test]
fn the_order_of_transports_is_that_of_their_papers() {
    // pFabric and pHost before DCTCP (pHost §4.2; here also in this order), DCTCP before TCP, all after ideal.
    let order = ["ideal", "pfabric", "phost", "dctcp", "tcp"];
    let means = order.map(|protocol| mean(&slowdowns(&web_search(protocol, "36KiB"), ALL)));
    assert!(means.is_sorted() && means[0] == 1.0 && means[1] > 1.0, "{order:?}: {means:?}");
}

#[test]
fn an_arbiter_leaves_no_queue_to_overflow() {
    // Fastpass §1: "zero-queue". A few packets meet where nodes are at different distances; none is dropped.
    let run = web_search("fastpass", "36KiB");
    assert_eq!(run.counters.dropped_packets, 0);
    assert!(
        run.queue_bytes.value_at_quantile(0.99) < 8 * 1538,
        "{}",
        run.queue_bytes.value_at_quantile(0.99)
    );
}
