//! Fabrics at settings beside their papers': stable where the links have room, and without waits that nothing explains.

use crate::common;
use crate::common::fabrics::*;

use common::{completion_ps, setup_on};
use unrack_rack::{Overrides, Protocol, Scenario, ValidScenario};
use unrack_sim::network::Pace;
use unrack_sim::scenario::excluded;
use unrack_sim::topology::{Link, Topology};
use unrack_sim::{Run, Setup, Work, warnings};
use unrack_units::{Rate, Time};
use unrack_workload::Message;

fn link(gbps: u64, ns: u64) -> Link {
    Link { pace: Pace::new(Rate::from_gbps(gbps)), propagation: Time::from_ns(ns) }
}

fn valid(text: &str) -> ValidScenario {
    Scenario::parse("test.toml", text, &Overrides::none()).unwrap().check(&known()).unwrap()
}

/// Runs flows of one size between any two of the nodes of a star at 40 Gb/s and 400 ns.
fn flows(protocol: Protocol, nodes: u32, buffer: &str, more: &str) -> Run {
    let mut scenario = valid(&format!(
        r#"
        [network]
        topology = {{ kind = "star", nodes = {nodes} }}
        link = {{ rate = "40Gbps", propagation = "400ns" }}
        switch = {{ buffer = "{buffer}" }}
        [fabric]
        protocol = "{protocol}"
        [workload]
        kind = "flows"
        size = "102200B"
        load = 0.5
        messages = 4_000
        {more}
        "#
    ));
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    let work = Work::drawn(&scenario).unwrap().unwrap();
    setup.run(&work, |_| {}).unwrap().run
}

fn mean_slowdown(run: &Run) -> f64 {
    assert!(run.is_complete());
    (0..run.messages.len()).map(|index| run.slowdown(index).unwrap()).sum::<f64>() / run.messages.len() as f64
}

/// Returns a flow of `bytes` from every node to every other, all at once, each node in the same order.
fn all_to_all(nodes: u32, bytes: u64) -> Vec<(Time, Message)> {
    let pairs = (0..nodes).flat_map(|src| (0..nodes).map(move |dst| (src, dst)));
    let others = pairs.filter(|(src, dst)| src != dst);
    others.map(|(src, dst)| (Time::ZERO, Message::flow(src, dst, bytes))).collect()
}

/// Returns the share of the links' capacity that the payload of a run took until its last message was complete.
fn share_of_links(run: &Run, nodes: u32, gbps: u64) -> f64 {
    let last = (0..run.messages.len()).map(|index| completion_ps(run, index)).max().unwrap();
    let bytes: u64 = run.messages.iter().map(Message::payload).sum();
    bytes as f64 * 8.0 / (f64::from(nodes) * gbps as f64 * 1e9 * last as f64 * 1e-12)
}

fn at_once(setup: &Setup, messages: Vec<(Time, Message)>) -> Run {
    let run = setup.run(&Work::listed(messages), |_| {}).unwrap().run;
    assert!(run.is_complete());
    run
}

#[test]
fn receivers_of_ird_do_not_defeat_each_other() {
    let run = flows(Ird::PROTOCOL, 144, "1MiB", "");
    let (mean, others) = (mean_slowdown(&run), mean_slowdown(&flows(Homa::PROTOCOL, 144, "1MiB", "")));
    assert_eq!(run.counters.dropped_packets, 0);
    assert!(mean < 1.1 * others, "ird {mean:.2}, homa {others:.2}");
}

/// Runs pages and a heavy tail, reads and writes, at eight tenths of the load.
fn mixed_sizes(protocol: Protocol, buffer: &str) -> Run {
    let mut scenario = valid(&format!(
        r#"
        [network]
        topology = {{ kind = "star", nodes = 48 }}
        link = {{ rate = "100Gbps", propagation = "10ns" }}
        headers = "none"
        switch = {{ buffer = "{buffer}" }}
        [fabric]
        protocol = "{protocol}"
        [workload]
        kind = "memory"
        read_fraction = 0.5
        size = {{ cdf = "hadoop" }}
        load = 0.8
        messages = 3_000
        "#
    ));
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    let work = Work::drawn(&scenario).unwrap().unwrap();
    setup.run(&work, |_| {}).unwrap().run
}

#[test]
fn credits_of_ird_for_large_transfers_do_not_keep_out_small_ones() {
    let others = mean_slowdown(&mixed_sizes(Pfabric::PROTOCOL, "1MiB"));
    for buffer in ["16KiB", "36KiB", "128KiB", "1MiB"] {
        let run = mixed_sizes(Ird::PROTOCOL, buffer);
        let mean = mean_slowdown(&run);
        assert_eq!(run.counters.dropped_packets, 0);
        assert!(mean < 2.0 * others, "{buffer}: ird {mean:.2}, pfabric {others:.2}");
    }
}

#[test]
fn ird_uses_the_links_of_a_synchronized_all_to_all() {
    for (nodes, bytes) in [(16, 102_200), (40, 102_200)] {
        let setup = setup_on(Topology::star(nodes, link(40, 400)), Ird::PROTOCOL, 1 << 20);
        let share = share_of_links(&at_once(&setup, all_to_all(nodes, bytes)), nodes, 40);
        assert!(share > 0.8, "{nodes} nodes, {bytes} B: {share:.2} of the links");
    }
}

#[test]
fn a_pull_of_ndp_that_overtakes_a_report_does_not_stall() {
    let nodes = 128;
    let setup = setup_on(Topology::fat_tree(8, link(100, 100), link(100, 100)), Ndp::PROTOCOL, 36 << 10);
    let half = nodes / 2;
    for turn in 0..6 {
        let to = |src: u32| (src + half + turn * 5) % nodes;
        let messages = (0..nodes).map(|src| (Time::ZERO, Message::flow(src, to(src), 2_000_000))).collect();
        let run = at_once(&setup, messages);
        let mut times: Vec<u64> = (0..nodes as usize).map(|index| completion_ps(&run, index)).collect();
        times.sort_unstable();
        let (last, before) = (times[times.len() - 1], times[times.len() * 9 / 10]);
        assert!(last < 2 * before, "the last after {last} ps, and nine in ten by {before} ps");
    }
}

#[test]
fn headers_of_ndp_have_room_whatever_the_limit_of_data() {
    let mut mean = Vec::new();
    for (data_packets, buffer) in [(12, "18kB"), (8, "36KiB"), (100, "36KiB")] {
        let mut scenario = valid(&format!(
            r#"
            [network]
            topology = {{ kind = "star", nodes = 32 }}
            link = {{ rate = "40Gbps", propagation = "400ns" }}
            switch = {{ buffer = "{buffer}" }}
            [fabric]
            protocol = "ndp"
            data_packets = {data_packets}
            [workload]
            kind = "flows"
            pattern = {{ kind = "incast", fan_in = 16 }}
            size = "30kB"
            load = 0.5
            messages = 2_000
            "#
        ));
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let run = setup.run(&Work::drawn(&scenario).unwrap().unwrap(), |_| {}).unwrap().run;
        mean.push(mean_slowdown(&run));
    }
    assert!(mean.iter().all(|one| *one < 1.3 * mean[1]), "{mean:?}");
}

#[test]
fn more_buffer_does_not_slow_phost_down() {
    let buffers = ["36KiB", "256KiB", "1MiB"];
    let means = buffers.map(|buffer| mean_slowdown(&flows(Phost::PROTOCOL, 144, buffer, "")));
    assert!(means.iter().all(|mean| *mean < 1.2 * means[0]), "{buffers:?}: {means:?}");
}

/// Returns the mean slowdown of flows, four to one, on racks of four around four spines.
fn four_to_one(protocol: Protocol, gbps: u64, ns: u64, seed: u64) -> f64 {
    let link = format!("{{ rate = \"{gbps}Gbps\", propagation = \"{ns}ns\" }}");
    let mut scenario = valid(&format!(
        r#"
        seed = {seed}
        [network]
        topology = {{ kind = "leaf-spine", racks = 4, hosts_per_rack = 4, spines = 4 }}
        link = {link}
        core_link = {link}
        switch = {{ buffer = "4MiB" }}
        [fabric]
        protocol = "{protocol}"
        [workload]
        kind = "flows"
        pattern = {{ kind = "incast", fan_in = 4 }}
        size = "30kB"
        load = 0.5
        messages = 400
        "#
    ));
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    mean_slowdown(&setup.run(&Work::drawn(&scenario).unwrap().unwrap(), |_| {}).unwrap().run)
}

#[test]
fn what_waits_before_a_receiver_of_phost_is_not_granted_again() {
    for seed in 0..5 {
        let mean = four_to_one(Phost::PROTOCOL, 40, 100, seed);
        assert!(mean < 10.0, "seed {seed}: {mean:.1}");
    }
}

#[test]
fn what_waits_under_pauses_is_not_sent_again() {
    for ns in [1_000, 10_000] {
        let mean = four_to_one(PfcDcqcn::PROTOCOL, 1, ns, 3);
        assert!(mean < 20.0, "{ns} ns: {mean:.1}");
    }
}

#[test]
fn eight_flows_of_dcqcn_recover_if_their_targets_are_kept() {
    let share = |keep_target| {
        let mut setup = setup_on(Topology::star(9, link(100, 400)), PfcDcqcn::PROTOCOL, 1 << 20);
        let change = |params: &mut unrack_protocol::dcqcn::Params| params.keep_target = keep_target;
        common::change::<PfcDcqcn>(&mut setup.fabric, change);
        let flows = (1..9).map(|src| (Time::ZERO, Message::flow(src, 0, 1_000_000))).collect();
        8.0 * share_of_links(&at_once(&setup, flows), 8, 100)
    };
    let (lowered, kept) = (share(false), share(true));
    assert!(kept > 0.55 && lowered < 0.3, "{lowered:.2} by eq. 1, {kept:.2} with targets that are kept");
}

#[test]
fn small_messages_for_one_node_share_slots_of_fastpass() {
    let last = |packing| {
        let mut setup = setup_on(Topology::star(4, link(40, 400)), Fastpass::PROTOCOL, 36 << 10);
        let change = |params: &mut unrack_protocol::fastpass::Params| params.packing = packing;
        common::change::<Fastpass>(&mut setup.fabric, change);
        let flows = (0..200).map(|_| (Time::ZERO, Message::flow(0, 1, 64))).collect();
        let run = at_once(&setup, flows);
        (0..200).map(|index| completion_ps(&run, index)).max().unwrap()
    };
    let (shared, alone) = (last(true), last(false));
    assert!(4 * shared < alone, "{shared} ps with shared slots, {alone} ps with slots of their own");
}

/// An acknowledgement ends a backed-off time-out while the node's link is busy with others (found by the grid).
#[test]
fn a_time_out_that_comes_sooner_is_set_while_the_link_is_busy() {
    for load in [0.3, 0.5, 0.7, 0.9] {
        let mut scenario = valid(&format!(
            r#"
            seed = 816318
            [network]
            topology = {{ kind = "fat-tree", ports = 4 }}
            link = {{ rate = "1Gbps", propagation = "100ns" }}
            core_link = {{ rate = "1Gbps", propagation = "100ns" }}
            switch = {{ buffer = "8KiB" }}
            [fabric]
            protocol = "tcp"
            [workload]
            kind = "flows"
            size = "4KiB"
            load = {load}
            messages = 400
            "#
        ));
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let run = setup.run(&Work::drawn(&scenario).unwrap().unwrap(), |_| {}).unwrap().run;
        assert!(run.is_complete() && run.counters.dropped_packets > 0, "{load}");
    }
}

#[test]
fn a_buffer_below_what_homa_counts_on_is_said() {
    for (buffer, is_said) in [("36KiB", true), ("1MiB", false)] {
        let mut scenario = valid(&format!(
            "[network]\ntopology = {{ kind = \"star\", nodes = 40 }}\n\
             link = {{ rate = \"100Gbps\", propagation = \"400ns\" }}\nswitch = {{ buffer = \"{buffer}\" }}\n\
             [fabric]\nprotocol = \"homa\"\n[workload]\nkind = \"flows\"\nsize = \"102200B\"\nload = 0.5\n\
             messages = 2_000\n"
        ));
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let done = setup.run(&Work::drawn(&scenario).unwrap().unwrap(), |_| {}).unwrap();
        let found = warnings(&scenario, &setup, &done, excluded(&scenario, &done.run));
        assert_eq!(found.iter().any(|warning| warning.key == "buffer"), is_said, "{buffer}: {found:?}");
    }
}

#[test]
fn synchronized_nodes_of_cxl_do_not_all_wait_for_one() {
    let setup = setup_on(Topology::star(16, link(40, 400)), Cxl::PROTOCOL, 1 << 20);
    let share = share_of_links(&at_once(&setup, all_to_all(16, 102_400)), 16, 40);
    assert!(share > 0.4, "{share:.2} of the links");
}

#[test]
fn an_arbiter_that_serves_the_shortest_first_finishes_flows_sooner() {
    use unrack_protocol::fastpass::{Params, Policy};
    let mean = |policy| {
        let mut setup = setup_on(Topology::star(16, link(40, 400)), Fastpass::PROTOCOL, 36 << 10);
        common::change::<Fastpass>(&mut setup.fabric, |params: &mut Params| params.policy = policy);
        let sizes = [14_600, 102_200, 1_022_000];
        let messages = (0..240u32).map(|n| {
            let (src, dst) = (n % 16, (n % 16 + 1 + n / 16) % 16);
            (Time::from_us(u64::from(n)), Message::flow(src, dst, sizes[n as usize % 3]))
        });
        mean_slowdown(&at_once(&setup, messages.filter(|(_, flow)| flow.src != flow.dst).collect()))
    };
    let [fair, first, shortest] = [Policy::MaxMin, Policy::Fcfs, Policy::Shortest].map(mean);
    assert!(shortest < 0.8 * fair && shortest < 0.8 * first, "{fair:.2}, {first:.2}, {shortest:.2}");
}
