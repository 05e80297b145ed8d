//! Errors point at the key at fault: each names a key that scenarios have, and the line where it is written.

use crate::common::fabrics::*;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use unrack_rack::{Overrides, Scenario, ScenarioError};
use unrack_sim::{Setup, Work, schema};
use unrack_units::Time;

/// Returns the keys of a JSON Schema, as dotted paths. Those in lists are below the key of the list.
fn keys_of(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (key, inner) in schema.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let path = if path.is_empty() { key.clone() } else { format!("{path}.{key}") };
        keys_of(inner, &path, found);
        found.insert(path);
    }
    for word in ["oneOf", "anyOf", "allOf"] {
        let choices = schema.get(word).and_then(Value::as_array).into_iter().flatten();
        choices.for_each(|choice| keys_of(choice, path, found));
    }
    if let Some(items) = schema.get("items") {
        keys_of(items, path, found);
    }
}

/// Returns the texts that calls of these names begin with, in a source of Rust.
fn first_texts<'a>(source: &'a str, calls: &[&'a str]) -> Vec<&'a str> {
    let mut found = Vec::new();
    for call in calls {
        for rest in source.split(*call).skip(1) {
            let text = rest.trim_start().strip_prefix('"').and_then(|text| text.split('"').next());
            found.extend(text);
        }
    }
    found
}

/// Name of the loads and stores of a program, which no scenario has.
const PROGRAM: &str = "workload.lines";

/// An error whose key is not one of a scenario points at no line, or at the wrong one.
#[test]
fn every_error_names_a_key_that_scenarios_have() {
    let mut known = BTreeSet::new();
    keys_of(&schema(), "", &mut known);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut folders: Vec<PathBuf> =
        ["engine", "grid", "rack", "sim", "workload"].map(|it| root.join(it)).into();
    let mut checked = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() && !path.ends_with("tests") {
                folders.push(path);
                continue;
            }
            let is_source = path.extension().is_some_and(|it| it == "rs") && !path.ends_with("tests.rs");
            let source = if is_source { std::fs::read_to_string(&path).unwrap() } else { String::new() };
            for key in
                first_texts(&source, &["SetupError::new(", "self.complain(", "self.within(", "error_at("])
            {
                checked += 1;
                assert!(known.contains(key) || key.starts_with("--"), "`{key}` in {}", path.display());
            }
            for key in first_texts(&source, &["WorkloadError::new("]) {
                checked += 1;
                // Those of an application are completed where its table is known.
                let is_inside =
                    |known: &String| known.starts_with("workload.") && known.ends_with(&format!(".{key}"));
                assert!(
                    known.contains(key) || known.iter().any(is_inside) || key == PROGRAM,
                    "`{key}` in {}",
                    path.display()
                );
            }
        }
    }
    assert!(checked > 100, "{checked}");
}

/// Returns why a scenario cannot be run, as users see it.
fn refusal(text: &str) -> String {
    let refused = || -> Result<(), ScenarioError> {
        let mut scenario = Scenario::parse("test.toml", text, &Overrides::none())?.check(&known())?;
        let setup = Setup::from_scenario(&mut scenario)?;
        let work = Work::drawn(&scenario)?.expect("traffic that is drawn");
        let over = Setup { time_limit: Time::ZERO, ..setup };
        over.run(&work, |_| {}).map(drop).map_err(|why| why.in_scenario(&scenario))
    };
    refused().expect_err(text).to_string()
}

/// Asserts that the scenario is refused, and that the error points at the line with the mark `#!`.
fn assert_points_at_mark(text: &str) {
    let line = text.lines().position(|line| line.contains("#!")).expect("a mark") + 1;
    let said = refusal(text);
    assert!(said.contains(&format!("--> test.toml:{line}:")), "not line {line}: {said}\n{text}");
}

#[test]
fn an_error_points_at_the_key_at_fault() {
    let flows = "[workload]\nkind = \"flows\"\nsize = \"64B\"\nload = 0.5\nmessages = 10\n";
    let spine = "topology = { kind = \"leaf-spine\", racks = 2, hosts_per_rack = 4, spines = 2 }\n";
    let on = |network: &str, fabric: &str, rest: &str| {
        format!("seed = 1\n[network]\n{network}[fabric]\nprotocol = {fabric}\n{rest}")
    };
    // Checks between keys of different tables.
    let long = "core_link = { rate = \"100Gbps\", propagation = \"10ms\" }\n";
    let small = |buffer: &str| format!("{spine}{long}switch = {{ buffer = \"{buffer}\" }} #!\n");
    assert_points_at_mark(&on(&small("1MiB"), "\"pfc-dcqcn\"", flows));
    assert_points_at_mark(&on(&small("shared 1MiB"), "\"pfc-dcqcn\"", flows));
    assert_points_at_mark(&on(&small("1500B"), "\"tcp\"", flows));
    let narrow = format!("{spine}link = {{ rate = \"100Gbps\" }}\ncore_link = {{ rate = \"10Gbps\" }} #!\n");
    assert_points_at_mark(&on(&narrow, "\"tcp\"", flows));
    assert_points_at_mark(&on(&format!("{spine}{long}"), "\"ndp\"\nrto = \"1us\" #!", flows));
    // One of several failures, rules and jobs, and the key in it.
    let failure = |what: &str| format!("[[failures]]\nnode = 1\nfrom = \"1us\"\n[[failures]]\n{what}\n");
    for what in [
        "node = 99 #!\nfrom = \"1us\"",
        "switch = 99 #!\nfrom = \"1us\"",
        "node = 1\nfrom = \"2us\"\nuntil = \"1us\" #!",
        "node = 1\nfrom = \"2us\"\nevery = \"1us\" #!",
        "node = 1\nfrom = \"2us\"\nuntil = \"9us\"\nevery = \"1us\" #!",
        "node = 1\nfrom = \"2000000s\" #!",
    ] {
        assert_points_at_mark(&on(spine, "\"tcp\"", &(flows.to_string() + &failure(what))));
    }
    let unlinked = failure("between = [0, 1]\nfrom = \"1us\"").replacen(
        "[[failures]]\nbetween",
        "[[failures]] #!\nbetween",
        1,
    );
    assert_points_at_mark(&on(spine, "\"tcp\"", &(flows.to_string() + &unlinked)));
    let torus = "topology = { kind = \"torus\", shape = [4, 4] }\n";
    let rules = "[[fabric.rules]]\nsrc = [0]\n[[fabric.rules]]\ndst = [99] #!\n";
    assert_points_at_mark(&on(torus, "\"r2c2\"", &format!("{rules}{flows}")));
    for job in [
        "pagerank = { scale = 40 } #!",
        "components = { scale = 8, degree = 900 } #!",
        "word_count = { words = 10, reducers = 99 } #!",
        "word_count = { words = 10, exponent = 99 } #!",
        "key_value = { servers = 1, requests = 10, exponent = 99 } #!",
        "key_value = { servers = 8, requests = 10 } #!",
        "training = { model = \"resnet-18\", operation = \"all-gather\" } #!",
        "training = { model = \"resnet-18\", operation = \"parameter-server\", servers = 99 } #!",
        "collective = { operation = \"ring-all-reduce\", size = \"1MB\", servers = 2 } #!",
        "collective = { operation = \"ring-all-reduce\", size = \"1B\" } #!",
        "embedding = { batches = 1000000000 } #!",
        "pagerank = { scale = 8 }\nname = \"one\" #!",
        "pagerank = { scale = 8 }\non = [0, 99] #!",
        "pagerank = { scale = 8 }\nhosts = 99 #!",
    ] {
        let jobs = format!(
            "[workload]\nkind = \"jobs\"\n[[workload.jobs]]\nname = \"one\"\npagerank = {{ scale = 8 }}\n\
             [[workload.jobs]]\n{job}\n"
        );
        assert_points_at_mark(&on(spine, "\"tcp\"", &jobs));
    }
    // What no line is at fault for has none.
    let text = on(spine, "\"tcp\"", flows);
    let scenario = Scenario::parse("test.toml", &text, &Overrides::none()).unwrap().check(&known()).unwrap();
    let shown = scenario.error_at("--threads", "is 1").to_string();
    assert_eq!(shown, "error: --threads: is 1");
}
