//! Warnings about runs: for buffers, loads, fabrics and topologies at which there is a reason for one, and at which
//! there is none.

use unrack_rack::{Overrides, Scenario, ValidScenario};
use unrack_sim::known;
use unrack_sim::run::Outcome;
use unrack_sim::scenario::excluded;
use unrack_sim::{BusyTimes, Excluded, LinkId, Setup, Work, warnings};
use unrack_units::Time;
use unrack_units::Warning;
use unrack_workload::Message;

const RACKS: &str = "{ kind = \"leaf-spine\", racks = 4, hosts_per_rack = 8, spines = 2 }";

/// Returns flows of 20 kB between racks: equal sizes, so that short runs are steady.
fn flows(topology: &str, protocol: &str, more: &str) -> String {
    format!(
        "seed = 1\n[network]\ntopology = {topology}\nlink = {{ rate = \"100Gbps\", propagation = \"100ns\" }}\n\
         core_link = {{ rate = \"400Gbps\", propagation = \"200ns\" }}\n[fabric]\nprotocol = \"{protocol}\"\n\
         [workload]\nkind = \"flows\"\nsize = \"20kB\"\nload = 0.5\nmessages = 3000\n{more}"
    )
}

fn valid(text: &str, set: &[&str]) -> ValidScenario {
    let overrides: Overrides = set.iter().copied().collect();
    Scenario::parse("test.toml", text, &overrides).unwrap().check(&known()).unwrap()
}

fn found(text: &str, set: &[&str]) -> Vec<Warning> {
    let mut scenario = valid(text, set);
    let setup = Setup::from_scenario(&mut scenario).unwrap();
    let work = Work::drawn(&scenario).unwrap().unwrap();
    let done = setup.run(&work, |_| {}).unwrap();
    warnings(&scenario, &setup, &done, excluded(&scenario, &done.run))
}

fn keys(found: &[Warning]) -> Vec<&str> {
    found.iter().map(|warning| warning.key.as_str()).collect()
}

/// Asserts that the warning of this key contains these words.
fn assert_names(found: &[Warning], key: &str, words: &[&str]) {
    let warning = found.iter().find(|warning| warning.key == key);
    let text = &warning.unwrap_or_else(|| panic!("no {key} in {found:?}")).text;
    assert!(words.iter().all(|word| text.contains(word)) && !text.contains('\n'), "{text}");
}

#[test]
fn nothing_is_said_of_a_run_that_nothing_else_decides() {
    for protocol in ["ideal", "dctcp", "homa", "pfabric", "ndp", "phost", "fastpass", "ird", "mptcp"] {
        for load in ["0.2", "0.5"] {
            let text = flows(RACKS, protocol, "");
            let set = format!("workload.load={load}");
            let found = found(&text, &[&set, "network.switch.buffer=512KiB"]);
            assert!(found.is_empty(), "{protocol} at {load}: {found:?}");
        }
    }
    for protocol in ["edm", "cxl"] {
        let text = format!(
            "[network]\ntopology = {{ kind = \"star\", nodes = 8 }}\n[fabric]\nprotocol = \"{protocol}\"\n[workload]\n\
             kind = \"memory\"\nload = 0.4\nmessages = 20000\n"
        );
        assert!(found(&text, &[]).is_empty(), "{protocol}");
    }
}

#[test]
fn drops_that_decide_are_said_with_the_buffer() {
    for (buffer, load, fires) in
        [("36KiB", "0.8", true), ("36KiB", "0.9", true), ("1MiB", "0.8", false), ("1MiB", "0.4", false)]
    {
        let text = flows(RACKS, "homa", "");
        let (buffer_is, load_is) =
            (format!("network.switch.buffer={buffer}"), format!("workload.load={load}"));
        let found = found(&text, &[&buffer_is, &load_is]);
        assert_eq!(keys(&found).contains(&"drops"), fires, "{buffer} at {load}: {found:?}");
        if fires {
            assert_names(&found, "drops", &["`network.switch.buffer` (now 36KiB)", "mean slowdown from"]);
        }
    }
}

#[test]
fn an_incast_that_keeps_its_link_busy_is_not_slowed_by_what_it_lost() {
    // All messages lose packets, and the last of 30 MB arrives 0.2 % after the least possible time.
    for (protocol, buffer) in [("ndp", "4MiB"), ("pfabric", "128KiB")] {
        let text = flows("{ kind = \"star\", nodes = 16 }", protocol, "");
        let buffer = format!("network.switch.buffer={buffer}");
        let mut scenario = valid(&text, &["network.link.propagation=1us", &buffer]);
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let messages = (0..15).map(|src| (Time::ZERO, Message::flow(src, 15, 2_000_000))).collect();
        let done = setup.run(&Work::listed(messages), |_| {}).unwrap();
        assert!(done.run.ended < Time::from_us(2_900), "{protocol}: {}", done.run.ended);
        let harmed = |outcome: &Outcome| outcome.drops + outcome.trims > 0;
        assert!(done.run.outcomes.iter().all(harmed), "{protocol}");
        let found = warnings(&scenario, &setup, &done, Excluded::default());
        assert!(!keys(&found).contains(&"drops"), "{protocol}: {found:?}");
        // Trimmed packets are counted by themselves.
        let summary = done.summary(Excluded::default());
        let trims: u64 = done.run.outcomes.iter().map(|outcome| u64::from(outcome.trims)).sum();
        assert_eq!(summary.trimmed, trims, "{protocol}");
        assert_eq!((summary.trimmed > 0, summary.dropped > 0), (protocol == "ndp", protocol == "pfabric"));
    }
}

#[test]
fn drops_that_a_scenario_asks_for_name_what_asks_for_them() {
    let fails = "[[failures]]\nnode = 3\nfrom = \"20us\"\nuntil = \"120us\"\n";
    let found = found(&flows(RACKS, "homa", fails), &["network.switch.buffer=512KiB"]);
    assert_names(&found, "drops", &["`failures`", "`network.switch.buffer` (now 512KiB)"]);
}

#[test]
fn what_does_not_finish_is_said() {
    let fails = "[[failures]]\nnode = 3\nfrom = \"20us\"\n";
    for protocol in ["edm", "cxl"] {
        let text = flows("{ kind = \"star\", nodes = 8 }", protocol, fails);
        assert_names(&found(&text, &[]), "unfinished", &["of 3000 messages did not finish", "`failures`"]);
    }
}

#[test]
fn more_than_links_carry_is_said_with_the_load_and_the_rate() {
    // Headers more than double 64 B.
    let small = ["workload.size=64B", "workload.load=0.8", "network.switch.buffer=512KiB"];
    for (topology, protocol) in [("{ kind = \"star\", nodes = 16 }", "dctcp"), (RACKS, "homa")] {
        let found = found(&flows(topology, protocol, ""), &small);
        assert_names(&found, "overload", &["`workload.load` (now 80%)", "`network.link.rate` (now 100Gbps)"]);
    }
    // Three quarters of the messages go to other racks, over links with half of the rate that they would need.
    let narrow = ["network.core_link.rate=100Gbps", "network.switch.buffer=512KiB", "workload.load=0.8"];
    let found = found(&flows(RACKS, "dctcp", ""), &narrow);
    assert_names(&found, "overload", &["between switches", "`network.core_link.rate` (now 100Gbps)"]);
}

#[test]
fn one_link_that_most_messages_cross_is_enough_to_saturate() {
    for protocol in ["dctcp", "homa", "pfabric"] {
        let incast = ["workload.pattern=incast", "workload.load=0.96", "network.switch.buffer=16MiB"];
        let found = found(&flows(RACKS, protocol, ""), &incast);
        let said = keys(&found);
        assert!(said.contains(&"saturated") || said.contains(&"overload"), "{protocol}: {found:?}");
    }
}

#[test]
fn queues_that_grow_to_the_end_are_said_where_messages_come_by_themselves() {
    let text = flows("{ kind = \"star\", nodes = 16 }", "dctcp", "");
    let full = ["workload.load=1.0", "workload.size=64B", "network.switch.buffer=16MiB"];
    assert_names(
        &found(&text, &full),
        "unsteady",
        &["`workload.load` (now 100%)", "`workload.messages` (now 3000)"],
    );
    // A collective waits for itself: its links are as busy as they can be.
    let text = "[network]\ntopology = { kind = \"star\", nodes = 16 }\n[fabric]\nprotocol = \"dctcp\"\n[workload]\n\
                kind = \"collective\"\noperation = \"ring-all-reduce\"\nsize = \"1MB\"\n";
    assert!(found(text, &["network.switch.buffer=16MiB"]).is_empty());
}

#[test]
fn links_are_busy_as_long_as_those_who_look_on_see_them() {
    use unrack_sim::observe::{LinkSamples, Views};
    for protocol in ["edm", "cxl", "dctcp", "homa", "ndp", "pfc-dcqcn", "mptcp", "r2c2", "pfq", "fastpass"] {
        let topology = match protocol {
            "r2c2" | "pfq" => "{ kind = \"torus\", shape = [3, 2] }",
            "mptcp" => "{ kind = \"drack\", racks = 2, hosts_per_rack = 3 }",
            _ => "{ kind = \"star\", nodes = 6 }",
        };
        let mut scenario = valid(&flows(topology, protocol, ""), &["workload.messages=300"]);
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let work = Work::drawn(&scenario).unwrap().unwrap();
        let every = Time::from_us(1_000_000);
        let mut watch = Views { links: Some(LinkSamples::new(every)), ..Views::default() };
        let busy: BusyTimes = setup.watched(&work, &mut watch, |_| {}).unwrap().run.busy;
        let seen: Vec<(LinkId, Time)> = watch.links.unwrap().samples().map(|s| (s.link, s.busy)).collect();
        assert_eq!(busy.iter().count(), seen.len(), "{protocol}");
        for (link, time) in seen {
            let ours = busy.busy(link);
            // A flit is counted whole for the link, and by its slots for each line.
            let about =
                if protocol == "cxl" { Time::from_ps(time.as_ps() / 2)..=time * 2 } else { time..=time };
            assert!(about.contains(&ours), "{protocol}, {link:?}: {ours} for {time}");
        }
    }
}

/// Eight flows of DCQCN recover slowly (eq. 1): a fifth of the line, of which no other warning speaks.
#[test]
fn rates_that_leave_links_idle_are_said() {
    let text = |more: &str, size: &str| {
        format!(
            "[network]\ntopology = {{ kind = \"star\", nodes = 9 }}\nlink = {{ rate = \"100Gbps\", propagation = \"100ns\" }}\n\
             switch = {{ buffer = \"1MiB\" }}\n[fabric]\nprotocol = \"pfc-dcqcn\"\n{more}[workload]\nkind = \"flows\"\n\
             pattern = {{ kind = \"incast\", fan_in = 8 }}\nsize = \"{size}\"\nload = 0.1\nmessages = 8\n"
        )
    };
    let incast = |more: &str| {
        let mut scenario = valid(&text(more, "1MB"), &[]);
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let flows = (1..9).map(|src| (Time::ZERO, Message::flow(src, 0, 1_000_000))).collect();
        let done = setup.run(&Work::listed(flows), |_| {}).unwrap();
        warnings(&scenario, &setup, &done, excluded(&scenario, &done.run))
    };
    let eq_1 = incast("");
    assert_names(&eq_1, "paced", &["eq. 1", "`fabric.keep_target`", "100 % of the bytes"]);
    assert!(!keys(&incast("keep_target = true\n")).contains(&"paced"));
    // One flow after the other needs no cut.
    let spread = found(&text("", "10kB"), &["workload.pattern=permutation", "workload.messages=400"]);
    assert!(!keys(&spread).contains(&"paced"), "{spread:?}");
}

/// The default is what the protocol counts on, whatever its parameters; a buffer in the scenario stays.
#[test]
fn r2c2_has_the_buffer_that_it_counts_on() {
    let text = "[network]\ntopology = { kind = \"torus\", shape = [8, 8] }\n\
                link = { rate = \"10Gbps\", propagation = \"100ns\" }\nheaders = \"none\"\n[fabric]\nprotocol = \"r2c2\"\n\
                routing = \"vlb\"\ninterval = \"50us\"\n[workload]\nkind = \"flows\"\nsize = \"1MB\"\nload = 0.1\nmessages = 64\n";
    let buffer = |set: &[&str]| {
        let mut scenario = valid(text, set);
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let said = scenario.explain();
        let buffer = setup.ethernet.buffer.of_port();
        assert!(said.contains(&format!("buffer = \"{buffer}\"")), "{said}");
        buffer.get()
    };
    assert_eq!(buffer(&[]), 198_000);
    assert_eq!(
        buffer(&["fabric.headroom=0.02", "network.mtu=9000B"]),
        (1e6f64.ln() * 0.98 / 0.04).ceil() as u64 * 9_000
    );
    assert_eq!(buffer(&["network.switch.buffer=36KiB"]), 36 << 10);
    let other = text.replace("r2c2", "pfq").replace("routing = \"vlb\"\ninterval = \"50us\"\n", "");
    let setup = Setup::from_scenario(&mut valid(&other, &[])).unwrap();
    assert_eq!(setup.ethernet.buffer.of_port().get(), 36 << 10);
}

/// Bit complement over an 8 by 8 torus by VLB: the share of the exact load that the slowest flow gets.
#[test]
fn r2c2_gets_its_rates_with_the_default_buffer() {
    let text = "[network]\ntopology = { kind = \"torus\", shape = [8, 8] }\n\
                link = { rate = \"10Gbps\", propagation = \"100ns\" }\nheaders = \"none\"\n[fabric]\nprotocol = \"r2c2\"\n\
                routing = \"vlb\"\ninterval = \"50us\"\n[workload]\nkind = \"flows\"\nsize = \"1MB\"\nload = 0.1\nmessages = 64\n";
    let run = |set: &[&str]| {
        let mut scenario = valid(text, set);
        let setup = Setup::from_scenario(&mut scenario).unwrap();
        let flows = (0..64).map(|src| (Time::ZERO, Message::flow(src, 63 - src, 1_000_000))).collect();
        let run = setup.run(&Work::listed(flows), |_| {}).unwrap().run;
        let slowest = run.outcomes.iter().filter_map(|outcome| outcome.completion()).max().unwrap();
        (slowest.as_ps() as f64, run.counters.dropped_packets)
    };
    let ((usual, dropped), (large, _)) = (run(&[]), run(&["network.switch.buffer=4MiB"]));
    assert!(usual < 1.15 * large, "{usual} ps with {dropped} dropped; {large} ps with 4 MiB");
}
