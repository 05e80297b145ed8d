//! Valid scenarios: values, defaults, inheritance, overrides, explanations.

use crate::protocols::known;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use unrack_rack::*;
use unrack_units::{Bytes, Fraction, Rate, Time};

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../examples")
}

fn example(name: &str, sets: &[&str]) -> ValidScenario {
    let overrides: Overrides = sets.iter().copied().collect();
    Scenario::load(examples().join(name), &overrides).unwrap().check(&known()).unwrap()
}

fn parsed(text: &str, sets: &[&str]) -> ValidScenario {
    let overrides: Overrides = sets.iter().copied().collect();
    Scenario::parse("test.toml", text, &overrides).unwrap().check(&known()).unwrap()
}

const SMALL: &str = r#"
network.topology = { kind = "star", nodes = 4 }
fabric.protocol = "ideal"
workload = { kind = "flows", size = { cdf = "hadoop" }, load = "60%", messages = 10 }
"#;

#[test]
fn every_example_is_a_scenario() {
    let files = std::fs::read_dir(examples()).unwrap().map(|file| file.unwrap().path());
    let scenarios: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "toml")).collect();
    assert!(scenarios.len() >= 3, "{scenarios:?}");
    for path in scenarios {
        let scenario = Scenario::load(&path, &Overrides::none()).unwrap();
        // Virtual machines have no network.
        if !scenario.has_list("host") {
            scenario.check(&known()).unwrap();
        }
    }
}

#[test]
fn a_scenario_says_what_it_says() {
    let scenario = example("star-edm.toml", &[]);
    let link = LinkSpec { rate: Rate::from_gbps(100), propagation: Time::from_ns(10) };
    let (topology, switch) = (TopologySpec::Star { nodes: 144 }, SwitchSpec::default());
    assert_eq!(
        scenario.network,
        NetworkSpec {
            topology,
            link,
            core_link: link,
            cxl_link: LinkSpec::CXL,
            switch,
            mtu: Bytes::new(1500),
            headers: Headers::Ethernet
        }
    );
    assert_eq!((scenario.seed, scenario.protocol.name()), (1, "edm"));
    let half = Fraction::new(0.5).unwrap();
    let memory = Memory {
        read_fraction: half,
        size: Size::Fixed(Bytes::new(64)),
        rmw_fraction: Fraction::new(0.0).unwrap(),
        request_size: Bytes::new(8),
        rmw_request_size: Bytes::new(24),
        rmw_size: Bytes::new(1),
        load: Fraction::new(0.8).unwrap(),
        messages: 1_000_000,
        pattern: Pattern::AllToAll,
        arrivals: Arrivals::Poisson,
        blades: None,
        disk: None,
        warm_up: Margin::default(),
        cool_down: Margin::default(),
    };
    assert_eq!(scenario.workload, Workload::Memory(memory));
}

#[test]
fn a_trace_lies_beside_the_file_that_names_it() {
    let Workload::Trace(trace) = example("trace-replay.toml", &[]).workload else { panic!("not a trace") };
    assert_eq!(
        trace.file,
        FileRef { written: "trace.parquet".into(), path: examples().join("trace.parquet") }
    );
    assert_eq!((trace.replay, trace.time_offsets), (Replay::ClosedLoop, TimeOffsets::Run));
    assert_eq!(trace.blades, Some(Blades::new(8, 8)));
    let set = ["workload.file=here.parquet", "workload.time_offsets=10ms"];
    let Workload::Trace(trace) = example("trace-replay.toml", &set).workload else { panic!("not a trace") };
    assert_eq!(trace.file.path, Path::new("here.parquet"));
    assert_eq!(trace.time_offsets, TimeOffsets::Within(Time::from_us(10_000)));
}

#[test]
fn racks_and_trees_have_links_between_switches() {
    let text = "network.topology = { kind = \"leaf-spine\", racks = 9, hosts_per_rack = 16, spines = 4 }\n\
                fabric.protocol = \"dctcp\"\n\
                workload = { kind = \"flows\", size = \"1MB\", load = 0.5, messages = 10 }";
    let network = parsed(text, &["network.link.rate=40Gbps"]).network;
    assert_eq!(network.topology, TopologySpec::LeafSpine { racks: 9, hosts_per_rack: 16, spines: 4 });
    assert_eq!((network.topology.nodes(), network.core_link), (144, network.link));
    let network = parsed(text, &["network.core_link.rate=160Gbps"]).network;
    assert_eq!((network.core_link.rate, network.link.rate), (Rate::from_gbps(160), Rate::from_gbps(100)));
    let tree = parsed(text, &["network.topology={kind=\"fat-tree\",ports=4}"]);
    assert_eq!(
        (&tree.network.topology, tree.network.topology.nodes()),
        (&TopologySpec::FatTree { ports: 4 }, 16)
    );
    assert_eq!(parsed(&tree.explain(), &[]).hash(), tree.hash());
}

/// The hash of a scenario covers the name of its list of cables; the hash with files covers its contents.
#[test]
fn other_cables_are_another_network() {
    let folder = unrack_testing::TestFolder::new("graph");
    let text = "network.topology = { kind = \"graph\", file = \"cables\" }\n\
                fabric.protocol = \"pfq\"\n\
                workload = { kind = \"flows\", size = \"1MB\", load = 0.5, messages = 10 }";
    std::fs::write(folder.join("rack.toml"), text).unwrap();
    let of = |cables: &str| {
        std::fs::write(folder.join("cables"), cables).unwrap();
        let scenario =
            Scenario::load(folder.join("rack.toml"), &Overrides::none()).unwrap().check(&known()).unwrap();
        (scenario.network.topology.nodes(), scenario.hash(), scenario.hash_with_files().unwrap())
    };
    let [small, same, faster, large] = ["0 1", "0 1", "0 1 400Gbps", "0 1\n1 2"].map(of);
    assert_eq!([small.0, large.0], [2, 3]);
    assert!(small.1 == large.1 && small == same);
    assert!(small.2 != faster.2 && small.2 != large.2);
}

#[test]
fn half_of_the_nodes_run_a_program_unless_told() {
    let text = "network.topology = { kind = \"star\", nodes = 5 }\nfabric.protocol = \"cxl\"\n\
                workload = { kind = \"trace\", file = \"t.parquet\" }";
    let Workload::Trace(trace) = parsed(text, &[]).workload else { panic!("not a trace") };
    assert_eq!(trace.blades, Some(Blades::new(2, 3)));
}

#[test]
fn what_a_table_is_decides_what_it_inherits() {
    // star-edm.toml has a chunk; DCTCP does not.
    assert!(!example("star-dctcp.toml", &[]).explain().contains("chunk"));
    assert!(example("star-dctcp.toml", &[]).explain().contains("nodes = 144"));
    // The chunk belongs to the protocol of the same command line, in either order.
    for set in [["fabric.protocol=edm", "fabric.chunk=512B"], ["fabric.chunk=512B", "fabric.protocol=edm"]] {
        assert!(example("star-dctcp.toml", &set).explain().contains("chunk = \"512B\""));
    }
    let Workload::Flows(flows) = parsed(SMALL, &["workload.size.cdf_file=own.toml"]).workload else {
        panic!()
    };
    assert!(matches!(flows.size, Size::File { unit: SizeUnit::Bytes, .. }), "{:?}", flows.size);
}

#[test]
fn later_overrides_prevail_and_merge() {
    let sets =
        ["network.link.rate=40Gbps", "network.link={propagation=\"1us\"}", "network.link.rate=400Gbps"];
    assert_eq!(
        parsed(SMALL, &sets).network.link,
        LinkSpec { rate: Rate::from_gbps(400), propagation: Time::from_us(1) }
    );
    let sets = ["network.switch.buffer=unlimited", "network.topology.nodes=8"];
    let network = parsed(SMALL, &sets).network;
    assert_eq!(
        (network.topology, network.switch.buffer),
        (TopologySpec::Star { nodes: 8 }, BufferSize::Unlimited)
    );
}

#[test]
fn an_explanation_names_every_value_and_its_origin() {
    let explained = parsed(SMALL, &["network.link.rate=400Gbps"]).explain();
    let expected = r#"seed = 1     # default
[network]
headers = "ethernet"  # default
mtu = "1500B"         # default
[network.core_link]
propagation = "10ns"  # default
rate = "400Gbps"      # default
[network.link]
propagation = "10ns"  # default
rate = "400Gbps"      # --set network.link.rate=400Gbps
[network.switch]
buffer = "36KiB"    # default
cut_through = true  # default
latency = "0ps"     # default
[network.topology]
kind = "star"  # test.toml:2
nodes = 4      # test.toml:2
[fabric]
protocol = "ideal"  # test.toml:3
[workload]
kind = "flows"          # test.toml:4
arrivals = "poisson"    # default
cool_down = "0"         # default
load = "60%"            # test.toml:4
messages = 10           # test.toml:4
pattern = "all-to-all"  # default
warm_up = "0"           # default
[workload.size]
cdf = "hadoop"  # test.toml:4
[bit_errors]
core_link = 0.0  # default
link = 0.0       # default
"#;
    let is_set = |line: &&str| !line.is_empty() && !line.starts_with('#');
    let set: Vec<&str> = explained.lines().filter(is_set).collect();
    assert_eq!(set.join("\n") + "\n", expected);
}

/// An explanation shows the meaning of keys without a value, and the contents of absent tables.
#[test]
fn an_explanation_names_what_is_not_set() {
    let explained = parsed(SMALL, &[]).explain();
    for part in [
        "\n# [host]  # not set: What is inside hosts. Default: nothing that takes time.\n\
         # dram_cache = true     # default\n",
        "\n# [host.nic.dma]  # not set: ",
        "\n# [network.cxl_link]  # not set: Link of each host to the CXL switch of its rack, on a `drack` or with \
         `[host]`. Default: 500 Gb/s and 55 ns (DRack §2.4, §7.1).\n\
         # propagation = \"55ns\"  # default\n\
         # rate = \"500Gbps\"      # default\n",
        "\n# alpha =           # not set: A queue in a shared buffer may grow",
        "\n# [[failures]]  # not set: Links and switches that are down for a while. Default: none.\n",
        "\n# from =            # needed: Time at which it goes down.\n",
        "\n# [workload.pattern]  # could be a table: Who talks to whom. Default all-to-all.\n",
        "\n# pareto =      # not set: Shape of a Pareto distribution",
    ] {
        assert!(explained.contains(part), "{part} in {explained}");
    }
}

#[test]
fn a_hash_is_of_values_not_of_writing() {
    let hash = parsed(SMALL, &[]).hash();
    assert_eq!(
        hash,
        parsed(&format!("# a comment\n{SMALL}seed = 1\n").replace("seed = 1\n", ""), &[]).hash()
    );
    assert_eq!(hash, parsed(SMALL, &["workload.load=0.6", "seed=1"]).hash());
    assert_ne!(hash, parsed(SMALL, &["seed=2"]).hash());
    assert_ne!(hash, parsed(SMALL, &["fabric.protocol=edm"]).hash());
    assert_eq!(hash, "aabf2bf3b5fd7e86", "the hash of a scenario stays the same from version to version");
}

#[derive(Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(default)]
struct Params {
    chunk: Bytes,
    notifications: u8,
    order: Order,
    gain: Fraction,
    threshold: Option<Bytes>,
}

#[derive(Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
enum Order {
    Fcfs,
    Srpt,
}

impl Default for Params {
    fn default() -> Params {
        let gain = Fraction::new(0.0625).unwrap();
        Params { chunk: Bytes::new(128), notifications: 3, order: Order::Srpt, gain, threshold: None }
    }
}

#[test]
fn a_protocol_reads_its_own_parameters() {
    let mut scenario = example("star-edm.toml", &["fabric.gain=0.25", "fabric.order=fcfs"]);
    let before = scenario.hash();
    let params: Params = scenario.fabric_params().unwrap();
    let gain = Fraction::new(0.25).unwrap();
    let expected = Params { chunk: Bytes::new(256), order: Order::Fcfs, gain, ..Params::default() };
    assert_eq!(params, expected);
    assert_ne!(scenario.hash(), before, "defaults of the protocol count");
    let explained = scenario.explain();
    for line in ["notifications = 3  # default", "order = \"fcfs\"     # --set fabric.order=fcfs"] {
        assert!(explained.contains(line), "{explained}");
    }
}

#[test]
fn problems_of_parameters_are_shown_like_all_others() {
    let set = ["fabric.chonk=1KiB", "fabric.notifications=300", "fabric.order=lifo"];
    let error = example("star-edm.toml", &set).fabric_params::<Params>().unwrap_err();
    let messages: Vec<_> = error.messages().collect();
    assert_eq!(
        messages,
        [
            "fabric has no key `chonk`; did you mean `chunk`?",
            "fabric.notifications: expected a whole number from 0 to 255, found `300`",
            "fabric.order: no such choice: `lifo`; use `fcfs` or `srpt`",
        ]
    );
    let error =
        example("star-edm.toml", &[]).error_at("fabric.chunk", "must be a multiple of 64B").to_string();
    assert!(error.starts_with("error: fabric.chunk: must be a multiple of 64B\n  --> "), "{error}");
    assert!(error.ends_with("\n   |\n11 | chunk = \"256B\"\n   |         ^^^^^^"), "{error}");
}

#[test]
fn traffic_in_all_its_shapes_reads_back_as_it_was_written() {
    let base = "network.topology = { kind = \"leaf-spine\", racks = 3, hosts_per_rack = 4, spines = 2 }\n\
                fabric.protocol = \"ideal\"\n\
                workload = { kind = \"memory\", load = 0.5, messages = 100 }";
    let sets = [
        "workload.pattern={kind=\"rack-local\",fraction=\"80%\"}",
        "workload.pattern={kind=\"hot-spots\",exponent=1.2}",
        "workload.pattern={kind=\"incast\"}",
        "workload.pattern={kind=\"incast\",fan_in=4}",
        "workload.arrivals={kind=\"log-normal\",sigma=2}",
        "workload.arrivals={kind=\"fixed\"}",
        "workload.rmw_fraction=10%",
        "workload.warm_up=10us",
        "workload.cool_down=5",
        "workload.blades={compute=4,memory=4,disk=2,scope=\"rack\",organization=\"segregated\"}",
        "workload.disk={fraction=0.1}",
    ];
    let plain = parsed(base, &[]).hash();
    for set in &sets {
        let scenario = parsed(base, &[set]);
        assert_eq!(parsed(&scenario.explain(), &[]).hash(), scenario.hash(), "{}", scenario.explain());
        assert!(scenario.hash() != plain, "{set} changes nothing");
    }
    let Workload::Memory(memory) = parsed(base, &sets).workload else { panic!("not memory") };
    assert_eq!(memory.pattern, Pattern::Incast { fan_in: Some(4) });
    assert_eq!((memory.warm_up, memory.cool_down), (Margin::Time(Time::from_us(10)), Margin::Messages(5)));
    assert_eq!(memory.disk.unwrap().size, Size::Fixed(Bytes::new(512)));
    let blades = memory.blades.unwrap();
    assert_eq!((blades.scope, blades.organization), (Scope::Rack, Organization::Segregated));
}

#[test]
fn faults_are_explained_and_read_back() {
    let faults = "failures = [{ between = [0, 2], from = \"1us\", until = \"2us\", every = \"10us\" }, \
                  { node = 3, from = \"5us\", detected_after = \"50us\" }]\nbit_errors.link = 1e-9\n";
    let text = "network.topology = { kind = \"leaf-spine\", racks = 2, hosts_per_rack = 2, spines = 1 }\n\
                fabric.protocol = \"dctcp\"\n\
                workload = { kind = \"flows\", size = \"1MB\", load = 0.5, messages = 10 }\n";
    let scenario = parsed(&format!("{faults}{text}"), &[]);
    assert_eq!(scenario.faults.failures[0].between, Some((0, 2)));
    assert_eq!(scenario.faults.bit_errors.link, 1e-9);
    let again = parsed(&scenario.explain(), &[]);
    assert_eq!((&again.faults, again.hash()), (&scenario.faults, scenario.hash()));
    assert_ne!(parsed(text, &[]).hash(), scenario.hash());
}

#[test]
fn racks_with_pooled_nics() {
    let text = SMALL.replace(r#""star", nodes = 4"#, r#""drack", racks = 4, hosts_per_rack = 2"#);
    let scenario = parsed(&text, &[]);
    // Two pods of 4 racks of 2 hosts, with as many uplinks as NICs.
    assert_eq!(scenario.network.topology, TopologySpec::Drack { racks: 4, hosts_per_rack: 2, cores: 2 });
    assert_eq!((scenario.network.topology.nodes(), scenario.network.cxl_link), (8, LinkSpec::CXL));
    let sets = ["network.topology.cores=1", "network.cxl_link.rate=1000Gbps"];
    let set = parsed(&text, &sets);
    assert_eq!(set.network.topology.wiring().unwrap().oversubscription(), Some(2.0));
    let again =
        Scenario::parse("again.toml", &set.explain(), &Overrides::none()).unwrap().check(&known()).unwrap();
    assert_eq!(again.network, set.network);
    let torack = text.replace("drack", "torack").replace("hosts_per_rack = 2", "hosts_per_rack = 3");
    let uplinks = |sets: &[&str]| parsed(&torack, sets).network.topology;
    let expected = |uplinks| TopologySpec::Torack { racks: 4, hosts_per_rack: 3, uplinks };
    assert_eq!(uplinks(&[]), expected(3));
    assert_eq!(uplinks(&["network.topology.uplinks=1"]), expected(1));
}

#[test]
fn hosts_read_back_as_they_are() {
    let text = SMALL.replace(r#""star", nodes = 4"#, r#""torack", racks = 4, hosts_per_rack = 2"#);
    assert_eq!(parsed(&text, &[]).host, None);
    let sets = [
        "fabric.protocol=tcp",
        "host.memory_pool=false",
        "host.cache.lines=[\"256B\"]",
        "network.cxl_link.rate=1Gbps",
    ];
    let set = parsed(&text, &sets);
    let host = set.host.as_ref().unwrap();
    assert_eq!((host.memory_pool, host.references(), host.cpu.cores), (false, false, 4));
    let again =
        Scenario::parse("again.toml", &set.explain(), &Overrides::none()).unwrap().check(&known()).unwrap();
    assert_eq!(
        (&again.host, again.network.cxl_link, again.hash()),
        (&set.host, set.network.cxl_link, set.hash())
    );
    assert_ne!(set.hash(), parsed(&text, &sets[..3]).hash());
}
