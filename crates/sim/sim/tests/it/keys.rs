//! Keys of scenarios: the accepted keys are those that an explanation names, on every fabric, topology and workload,
//! also in nested tables; and an explanation reads back as the scenario that it explains.

use crate::common::fabrics::*;
use std::collections::{BTreeMap, BTreeSet};
use unrack_rack::{Overrides, Protocol, Scenario, ScenarioError, ValidScenario};
use unrack_sim::Setup;

/// Keys of each table, by its dotted path.
type Tables = BTreeMap<String, BTreeSet<String>>;

const STAR: &str = r#"{ kind = "star", nodes = 16 }"#;
const TORUS: &str = r#"{ kind = "torus", shape = [4, 4] }"#;
const DRACK: &str = r#"{ kind = "drack", racks = 4, hosts_per_rack = 4 }"#;
const FLOWS: &str = r#"{ kind = "flows", size = { cdf = "hadoop" }, load = 0.5, messages = 10 }"#;

fn scenario(topology: &str, protocol: Protocol, workload: &str) -> String {
    format!("network.topology = {topology}\nfabric.protocol = \"{protocol}\"\nworkload = {workload}\n")
}

/// Returns a scenario on each fabric, each topology and with each kind of workload, and some with keys that are
/// rarely set.
fn scenarios() -> Vec<String> {
    let fitting = |protocol: Protocol| match protocol {
        Mptcp::PROTOCOL => DRACK,
        _ if !protocol.profile().networks.have_switches() => TORUS,
        _ => STAR,
    };
    let fabrics = known().protocols.into_iter().map(|protocol| scenario(fitting(protocol), protocol, FLOWS));
    let switched = [
        r#"{ kind = "leaf-spine", racks = 4, hosts_per_rack = 4, spines = 2 }"#,
        r#"{ kind = "fat-tree", ports = 4 }"#,
        r#"{ kind = "torack", racks = 4, hosts_per_rack = 4 }"#,
        DRACK,
    ];
    let cables = format!(
        "{{ kind = \"graph\", file = \"{}\" }}",
        concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/ring.txt")
    );
    let direct = [r#"{ kind = "mesh", shape = [4, 4] }"#, TORUS, &cables];
    let workloads = [
        r#"{ kind = "memory", load = 0.5, messages = 10 }"#,
        r#"{ kind = "memory", load = 0.5, messages = 10, size = { pareto = 1.1, mean = "1kB" }, pattern = { kind = "incast", fan_in = 3 }, arrivals = { kind = "log-normal", sigma = 2 }, blades = { compute = 8, memory = 4, disk = 4 }, disk = { fraction = 0.1 }, warm_up = "1us" }"#,
        r#"{ kind = "trace", file = "trace.parquet" }"#,
        r#"{ kind = "collective", operation = "all-gather", size = "1MB" }"#,
        r#"{ kind = "jobs", jobs = [{ pagerank = { scale = 8 } }, { name = "a", on = [0, 1], collective = { operation = "all-to-all", size = "1MB" } }] }"#,
    ];
    let rare = [
        "host = { references = false }",
        "failures = [{ node = 1, from = \"1us\" }]\nbit_errors.link = 1e-9\nseed = 7",
        "network.switch = { buffer = \"shared 1MiB\", alpha = 2.0 }",
        "network.core_link.rate = \"40Gbps\"",
        "fabric.mark_threshold = \"30kB\"\nfabric.tail_loss_probe = true\nfabric.connections = \"kept\"",
    ];
    let selection = "fabric.rules = [{ src = [1], weight = 3 }]\nfabric.selection = { period = \"1ms\" }";
    let all = fabrics.into_iter();
    let all = all.chain(switched.iter().map(|topology| scenario(topology, Tcp::PROTOCOL, FLOWS)));
    let all = all.chain(direct.iter().map(|topology| scenario(topology, R2c2::PROTOCOL, FLOWS)));
    let all = all.chain(workloads.iter().map(|workload| scenario(STAR, Dctcp::PROTOCOL, workload)));
    let all = all.chain(rare.iter().map(|more| scenario(STAR, Dctcp::PROTOCOL, FLOWS) + more));
    all.chain([scenario(TORUS, R2c2::PROTOCOL, FLOWS) + selection]).collect()
}

fn valid(text: &str, set: Overrides) -> Result<ValidScenario, ScenarioError> {
    let mut scenario = Scenario::parse("test.toml", text, &set)?.check(&known())?;
    Setup::from_scenario(&mut scenario)?;
    Ok(scenario)
}

/// A key that is not near any other.
const STRANGE: &str = "zzzzzzzzzz";

/// Keys that lead to a table. One that holds a list of tables ends in `[]`.
type Path = Vec<String>;

/// Returns `KEY=VALUE` that puts a strange key into that table.
fn with_strange_key(path: &[String]) -> String {
    let listed = path.iter().position(|key| key.ends_with("[]")).unwrap_or(path.len());
    let (outer, inner) = path.split_at(listed.min(path.len()));
    let strange = format!("{STRANGE}=1");
    let nested = inner.iter().rev().fold(strange.clone(), |value, key| match key.strip_suffix("[]") {
        Some(key) => format!("{key}=[{{{value}}}]"),
        None => format!("{key}={{{value}}}"),
    });
    outer.iter().map(|key| format!("{key}.")).collect::<String>() + &nested
}

/// Returns the keys that the table at `path` accepts, as its refusal of a strange one lists them; `None` if it is no
/// table.
fn accepted_at(text: &str, path: &[String]) -> Option<BTreeSet<String>> {
    let set = with_strange_key(path);
    let error = valid(text, [set.as_str()].into_iter().collect()).err()?;
    let dotted = path.join(".").replace("[]", "");
    let name = if dotted.is_empty() { "the scenario" } else { &dotted };
    let before = format!("{name} has no key `{STRANGE}`; use ");
    let listed = error.messages().find_map(|message| message.strip_prefix(&before))?;
    Some(listed.split('`').skip(1).step_by(2).map(String::from).collect())
}

fn accepted(text: &str) -> Tables {
    let mut tables = Tables::new();
    let mut paths: Vec<Path> = vec![Vec::new()];
    while let Some(path) = paths.pop() {
        let Some(keys) = accepted_at(text, &path) else { continue };
        for key in &keys {
            paths.push([&path[..], std::slice::from_ref(key)].concat());
            paths.push([&path[..], &[format!("{key}[]")]].concat());
        }
        tables.insert(path.join(".").replace("[]", ""), keys);
    }
    tables
}

/// Returns the keys that an explanation names, with a value or in a comment.
fn explained(text: &str) -> Tables {
    let (mut tables, mut table) = (Tables::new(), String::new());
    let mut add = |table: &str, key: &str| tables.entry(table.into()).or_default().insert(key.to_string());
    for line in text.lines().map(|line| line.trim_start_matches("# ")) {
        if let Some(header) = line.strip_prefix('[') {
            table = header.split(']').next().unwrap().trim_start_matches('[').into();
            let parts: Vec<&str> = table.split('.').collect();
            for n in 0..parts.len() {
                add(&parts[..n].join("."), parts[n]);
            }
        } else if let Some((key, _)) = line.split_once(" =") {
            add(&table, key);
        }
    }
    tables
}

#[test]
fn every_key_that_is_accepted_is_explained() {
    for text in scenarios() {
        let scenario = valid(&text, Overrides::none()).unwrap();
        let (accepted, explained) = (accepted(&text), explained(&scenario.explain()));
        for (table, keys) in &accepted {
            assert_eq!(Some(keys), explained.get(table), "`{table}` of\n{text}");
        }
        assert_eq!(accepted.keys().collect::<Vec<_>>(), explained.keys().collect::<Vec<_>>(), "{text}");
    }
    // The search itself has found keys in nested tables.
    let found =
        |tables: Tables, table: &str, key: &str| tables.get(table).is_some_and(|keys| keys.contains(key));
    let r2c2 = accepted(&scenario(TORUS, R2c2::PROTOCOL, FLOWS));
    assert!(
        found(r2c2.clone(), "fabric.selection.search", "population") && found(r2c2, "fabric.rules", "weight")
    );
    let jobs = r#"{ kind = "jobs", jobs = [{ pagerank = { scale = 8 } }] }"#;
    assert!(found(accepted(&scenario(STAR, Tcp::PROTOCOL, jobs)), "workload.jobs.key_value", "sharding"));
    let dctcp = accepted(&scenario(STAR, Dctcp::PROTOCOL, FLOWS));
    let keys = ["mark_threshold", "connections", "tail_loss_probe", "protocol"];
    assert!(keys.iter().all(|key| found(dctcp.clone(), "fabric", key)));
}

#[test]
fn an_explanation_reads_back_as_the_scenario_that_it_explains() {
    for text in scenarios() {
        let scenario = valid(&text, Overrides::none()).unwrap();
        let explained = scenario.explain();
        let again = valid(&explained, Overrides::none()).unwrap_or_else(|why| panic!("{why}\n{explained}"));
        assert_eq!(again.hash(), scenario.hash(), "{explained}");
        let parts = |it: &ValidScenario| {
            (
                it.seed,
                it.network.clone(),
                it.protocol,
                it.workload.clone(),
                it.faults.clone(),
                it.host.clone(),
            )
        };
        assert_eq!(parts(&again), parts(&scenario), "{explained}");
        let values = |text: &str| -> Vec<String> {
            let is_set = |line: &&str| !line.starts_with('#');
            text.lines()
                .filter(is_set)
                .map(|line| line.split("  # ").next().unwrap().trim_end().into())
                .collect()
        };
        assert_eq!(values(&again.explain()), values(&explained));
    }
}
