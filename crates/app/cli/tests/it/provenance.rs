//! Provenance: the build that made a result is found by `build.rs`, stated by every manifest, and kept apart from
//! results.

use crate::desk;

use desk::{Desk, example, stderr};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use unrack_testing::{TestRequirement, skip};

#[path = "../../../../foundation/build/build.rs"]
#[allow(dead_code, reason = "its `main` is cargo's")]
mod build_script;

use build_script::{Commit, hash, measuring, parts};

fn root() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").canonicalize().unwrap()
}

fn git(folder: &Path, arguments: &[&str]) -> bool {
    let identity = ["-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "commit.gpgsign=false"];
    let output = Command::new("git").current_dir(folder).args(identity).args(arguments).output();
    output.is_ok_and(|output| output.status.success())
}

/// Makes a workspace of one crate, with a test.
fn workspace(at: &Path) {
    for folder in ["crates/app/cli/src/inner", "crates/app/cli/tests", "studies/edm"] {
        std::fs::create_dir_all(at.join(folder)).unwrap();
    }
    for (file, text) in [
        ("Cargo.toml", "[workspace]"),
        ("Cargo.lock", "version = 4"),
        ("crates/app/cli/Cargo.toml", "[package]"),
        ("crates/app/cli/src/main.rs", "fn main() {}"),
        ("crates/app/cli/src/inner/page.css", "a {}"),
        ("crates/app/cli/tests/it.rs", "#[test] fn a() {}"),
        ("studies/edm/table1.toml", "title = \"t\""),
        ("README.md", "# A"),
    ] {
        std::fs::write(at.join(file), text).unwrap();
    }
}

fn sources(root: &Path) -> String {
    hash(root, &parts(root))
}

/// Texts and pictures of studies are sources, but change no measurement: none is made again for them.
#[test]
fn texts_and_pictures_of_studies_change_no_measurement() {
    let desk = Desk::new("provenance-measuring");
    let root = std::path::PathBuf::from(desk.path("root"));
    workspace(&root);
    let hashes = || (sources(&root), hash(&root, &measuring(&root, &parts(&root))));
    let first = hashes();
    for file in ["studies/edm/table1.toml", "crates/app/study/src/page.rs", "crates/app/report/src/chart.rs"]
    {
        std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        std::fs::write(root.join(file), "other").unwrap();
    }
    let texts = hashes();
    assert!(texts.0 != first.0 && texts.1 == first.1);
    for file in ["crates/app/cli/src/main.rs", "studies/edm/programs/sort.py"] {
        let before = hashes();
        std::fs::create_dir_all(root.join(file).parent().unwrap()).unwrap();
        std::fs::write(root.join(file), "other").unwrap();
        let after = hashes();
        assert!(before.0 != after.0 && before.1 != after.1, "{file}");
    }
}

#[test]
fn every_manifest_has_the_commit_and_the_sources_of_a_plain_build() {
    let desk = Desk::new("provenance");
    let star = example("star-edm.toml");
    let sets = ["--set", "workload.messages=500"];
    desk.done(&[&["sim", &star, "--out", "sim"], &sets[..]].concat());
    desk.done(&[&["sweep", &star, "--out", "sweep"], &sets[..]].concat());
    desk.done(&["study", "run", "edm/scheduler", "--quick", "--out", "study"]);
    let commit = Commit::read(&root());
    for folder in ["sim", "sweep", "study"] {
        let manifest: Value =
            serde_json::from_slice(&desk.bytes(&format!("{folder}/manifest.json"))).unwrap();
        assert_eq!(manifest["commit"].as_str(), commit.as_ref().map(|commit| commit.id.as_str()), "{folder}");
        assert_eq!(manifest["tree_changed"].as_bool(), commit.as_ref().map(|commit| commit.is_changed));
        assert_eq!(manifest["sources"].as_str(), Some(sources(&root()).as_str()));
        assert_eq!(manifest["version"].as_str(), Some(env!("CARGO_PKG_VERSION")));
    }
    let version = desk.done(&["--version"]);
    assert!(version.contains(&sources(&root())), "{version}");
}

#[test]
fn sources_are_what_is_compiled_wherever_it_lies() {
    let desk = Desk::new("sources");
    let [one, two] = ["one", "deep/two"].map(|name| Path::new(&desk.path(name)).to_path_buf());
    [&one, &two].into_iter().for_each(|at| workspace(at));
    let before = sources(&one);
    assert!(before.len() == 16 && before.bytes().all(|b| b.is_ascii_hexdigit()), "{before}");
    assert_eq!(before, sources(&two));
    for same in ["README.md", "crates/app/cli/tests/it.rs", "crates/app/cli/src/.main.rs.swp"] {
        std::fs::write(two.join(same), "other").unwrap();
        assert_eq!(sources(&two), before, "{same}");
    }
    for other in [
        "Cargo.lock",
        "crates/app/cli/src/main.rs",
        "crates/app/cli/src/inner/page.css",
        "studies/edm/table1.toml",
    ] {
        let (path, text) = (two.join(other), std::fs::read(two.join(other)).unwrap());
        std::fs::write(&path, "other").unwrap();
        assert_ne!(sources(&two), before, "{other}");
        std::fs::remove_file(&path).unwrap();
        assert_ne!(sources(&two), before, "{other}");
        std::fs::write(&path, text).unwrap();
        assert_eq!(sources(&two), before, "{other}");
    }
    std::fs::rename(two.join("crates/app/cli/src/main.rs"), two.join("crates/app/cli/src/niam.rs")).unwrap();
    assert_ne!(sources(&two), before, "renamed");
}

#[test]
fn a_commit_is_found_in_a_repository_that_holds_the_tree() {
    let desk = Desk::new("commit");
    let root = Path::new(&desk.path("")).canonicalize().unwrap();
    workspace(&root);
    assert!(Commit::read(&root).is_none(), "an unpacked archive");
    if !git(&root, &["init", "-q"]) {
        return skip(TestRequirement::Git, "git is not installed");
    }
    assert!(Commit::read(&root).is_none(), "an unpacked archive in another's repository");
    assert!(git(&root, &["add", "."]) && git(&root, &["commit", "-qm", "first"]));
    let first = Commit::read(&root).unwrap();
    assert!(first.id.len() == 40 && !first.is_changed, "{}", first.id);
    std::fs::write(root.join("README.md"), "other").unwrap();
    assert!(!Commit::read(&root).unwrap().is_changed, "only what is compiled counts");
    std::fs::write(root.join("crates/app/cli/src/new.rs"), "").unwrap();
    assert!(Commit::read(&root).unwrap().is_changed);
    assert!(git(&root, &["add", "."]) && git(&root, &["commit", "-qm", "second"]));
    let second = Commit::read(&root).unwrap();
    assert!(second.id != first.id && !second.is_changed);
}

/// Texts that crates include from elsewhere are sources too.
#[test]
fn whatever_is_included_is_among_the_sources() {
    let root = root();
    let parts = parts(&root);
    let mut found = 0;
    for part in parts.iter().filter(|part| part.starts_with("crates")) {
        found += included(&root, part, &parts);
    }
    assert!(found > 20, "{found} files are included");
}

/// Returns the number of files that the files in `part` include; each of them has to be among the `parts`.
fn included(root: &Path, part: &Path, parts: &[std::path::PathBuf]) -> usize {
    let path = root.join(part);
    if path.is_dir() {
        let entries = std::fs::read_dir(&path).unwrap().map(|entry| entry.unwrap().file_name());
        return entries.map(|name| included(root, &part.join(name), parts)).sum();
    }
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    let names = text.split("include_str!(\"").skip(1).filter_map(|rest| rest.split('"').next());
    let check = |name: &str| {
        let included = path.parent().unwrap().join(name).canonicalize().unwrap();
        let relative = included.strip_prefix(root).unwrap();
        assert!(parts.iter().any(|part| relative.starts_with(part)), "{} includes {name}", part.display());
    };
    names.map(check).count()
}

fn without_machine(text: &str) -> Value {
    let mut object: Value = serde_json::from_str(text).unwrap();
    let machine =
        object.as_object_mut().unwrap().remove("machine").unwrap_or_else(|| panic!("no machine: {text}"));
    assert!(machine["wall_s"].as_f64().unwrap() > 0.0, "{machine}");
    assert!(machine["build"]["sources"].is_string() && machine["host"]["cores"].is_number(), "{machine}");
    object
}

#[test]
fn two_runs_print_the_same_but_for_the_machine() {
    let desk = Desk::new("machine");
    let star = example("star-edm.toml");
    let few = ["--set", "workload.messages=2000", "--json"];
    for (n, words) in [
        vec!["sim", &star],
        vec!["sim", &star, "--explain", "3"],
        vec!["sweep", &star, "--seeds", "1..2"],
        vec!["study", "run", "ddc/table4", "--quick", "--json"],
    ]
    .into_iter()
    .enumerate()
    {
        let is_study = words[0] == "study";
        let run = |out: &str| {
            let out = format!("{n}-{out}");
            let more: &[&str] = if is_study { &[] } else { &few };
            without_machine(&desk.done(&[&words[..], more, &["--out", &out]].concat()))
        };
        assert_eq!(run("one"), run("two"), "{words:?}");
    }
    // The written results are the same, too.
    let read = |folder: &str| {
        without_machine(&String::from_utf8(desk.bytes(&format!("{folder}/summary.json"))).unwrap())
    };
    assert_eq!(read("0-one"), read("0-two"));
    for (file, folder) in [("sweep.json", "2"), ("results.json", "3")] {
        let of = |run: &str| desk.bytes(&format!("{folder}-{run}/{file}"));
        assert_eq!(of("one"), of("two"), "{file}");
    }
}

#[test]
fn a_sweep_runs_points_of_another_build_again() {
    let desk = Desk::new("stale");
    let star = example("star-edm.toml");
    let sweep = ["sweep", &star, "--set", "workload.messages=500", "--seeds", "1..2", "--out", "out"];
    let first = desk.done(&sweep);
    let files = || std::fs::read_dir(desk.path("out/points")).unwrap().map(|entry| entry.unwrap().path());
    let change = |key: &str, value: &str| {
        for path in files() {
            let mut point: Value = unrack_record::read_json(&path).unwrap();
            point["result"]["slowdown"]["mean"] = 99.0.into();
            point["key"][key] = value.into();
            unrack_record::write_json(&path, &point).unwrap();
        }
    };
    let sources = sources(&root());
    change("sources", &sources);
    assert!(desk.done(&sweep).contains("99.0"), "what this build has kept is believed");
    change("sources", "another");
    let output = desk.unrack(&sweep);
    assert_eq!(desk::stdout(&output), first);
    assert!(!stderr(&output).contains("already"), "{}", stderr(&output));
    assert_eq!(files().count(), 2, "a point of another build is replaced");
}
