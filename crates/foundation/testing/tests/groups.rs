//! Dependencies between the groups of crates, which are the folders below `crates`: foundation depends on nothing, the
//! products on foundation, and the program on all. Dependencies for tests are free, except that no test of the lower
//! groups needs the program.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Groups that the crates of a group may depend on, beside their own.
const ALLOWED: &[(&str, &[&str])] = &[
    ("app", &["foundation", "lines", "live", "paging", "pool", "sim"]),
    ("foundation", &[]),
    ("lines", &["foundation"]),
    // The live rack runs the protocols of the simulator on scenarios of the simulator.
    ("live", &["foundation", "sim"]),
    ("paging", &["foundation"]),
    ("pool", &["foundation"]),
    ("sim", &["foundation"]),
    // Mutations and long runs are of all crates, the reports among them.
    ("tools", &["app", "foundation", "lines", "live", "paging", "pool", "sim"]),
];

/// Dependencies beside those, with the reason for each.
const EXCEPTIONS: &[(&str, &str, &str)] =
    &[("pool/kv", "sim/workload", "the load of the key-value store is drawn as in the simulator")];

/// Groups that tests of other groups do not use.
const TOP: [&str; 2] = ["app", "tools"];

#[derive(Debug)]
struct Crate {
    /// Group and folder: `sim/engine`.
    place: String,
    /// Names of the crates that it depends on.
    needs: Vec<String>,
    /// Those that only its tests need.
    tests_need: Vec<String>,
}

impl Crate {
    fn read(folder: &Path) -> (String, Crate) {
        let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
        let (mut section, mut name, mut needs, mut tests_need) = ("", None, Vec::new(), Vec::new());
        for line in manifest.lines() {
            if line.starts_with('[') {
                section = line;
            }
            let end =
                line.find(|letter: char| !letter.is_alphanumeric() && letter != '-').unwrap_or(line.len());
            match &line[..end] {
                "name" if section == "[package]" => name = line.split('"').nth(1),
                used if !used.starts_with("unrack-") => {}
                used if section.ends_with("dev-dependencies]") => tests_need.push(used.to_string()),
                used if section.ends_with("dependencies]") => needs.push(used.to_string()),
                _ => {}
            }
        }
        let names: Vec<_> = folder.iter().rev().take(2).map(|name| name.to_str().unwrap()).collect();
        let place = format!("{}/{}", names[1], names[0]);
        (name.unwrap().to_string(), Crate { place, needs, tests_need })
    }

    fn group(&self) -> &str {
        self.place.split('/').next().unwrap()
    }
}

fn folders(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.is_dir()).collect()
}

/// Returns all crates by name.
fn crates() -> BTreeMap<String, Crate> {
    let all = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().unwrap();
    let folders = folders(&all).into_iter().flat_map(|group| folders(&group));
    folders.filter(|folder| folder.join("Cargo.toml").exists()).map(|folder| Crate::read(&folder)).collect()
}

#[test]
fn groups_depend_on_those_below() {
    let crates = crates();
    let allowed: BTreeMap<_, _> = ALLOWED.iter().copied().collect();
    let mut exceptions = Vec::new();
    for own in crates.values() {
        for used in own.needs.iter().map(|name| &crates[name]) {
            if own.group() != used.group() && !allowed[own.group()].contains(&used.group()) {
                exceptions.push((own.place.as_str(), used.place.as_str()));
            }
        }
    }
    exceptions.sort_unstable();
    let known: Vec<_> = EXCEPTIONS.iter().map(|&(own, used, _)| (own, used)).collect();
    assert_eq!(exceptions, known, "dependencies that are neither allowed nor among the exceptions");
}

#[test]
fn tests_of_lower_groups_do_not_need_the_program() {
    let crates = crates();
    for own in crates.values().filter(|own| !TOP.contains(&own.group())) {
        for used in own.tests_need.iter().map(|name| &crates[name]) {
            assert!(!TOP.contains(&used.group()), "tests of {} need {}", own.place, used.place);
        }
    }
}

#[test]
fn manifests_are_read() {
    let crates = crates();
    assert!(crates.len() > 40, "{} crates", crates.len());
    let engine = &crates["unrack-engine"];
    assert!(engine.place == "sim/engine" && engine.needs.contains(&"unrack-rack".into()), "{engine:?}");
    assert!(crates["unrack-hosts"].tests_need.contains(&"unrack-testing".into()));
}
