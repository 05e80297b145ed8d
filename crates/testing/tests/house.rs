//! Checks of the test sources: tests assume nothing of the machine that they need not, and skip in one way only.

use std::path::{Path, PathBuf};
use unrack_testing::Needed;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("this crate is in a workspace")
}

/// Returns the files of tests: those below a folder `tests`, in Rust and Python.
fn tests() -> Vec<PathBuf> {
    let mut folders = vec![root().join("crates"), root().join("python/tests")];
    let mut files = Vec::new();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
            let path = entry.path();
            let is_test = path.components().any(|part| part.as_os_str() == "tests");
            let is_code = path.extension().is_some_and(|end| end == "rs" || end == "py");
            if path.is_dir() {
                folders.push(path);
            } else if is_test && is_code && !path.components().any(|part| part.as_os_str() == "testing") {
                files.push(path);
            }
        }
    }
    files
}

/// Texts that a test must not contain, and their replacements.
const INSTEAD: [(&str, &str); 7] = [
    ("\"skipped:", "unrack_testing::skip: a skip is said aloud, and fails where CI installs what is needed"),
    ("SkipTest", "skips.skip, for the same"),
    ("\"/nonexistent", "a name in unrack_testing::Folder that was not made: somebody may have made this one"),
    ("\"/no/such", "the same"),
    ("\"/nowhere", "the same"),
    ("\"/tmp/", "unrack_testing::Folder: another user may have this one"),
    ("temp_dir()", "unrack_testing::Folder: a number of a process comes again"),
];

#[test]
fn tests_take_nothing_for_granted() {
    let files = tests();
    assert!(files.len() > 100, "{} files", files.len());
    let mut wrong = Vec::new();
    for file in files.iter().filter(|file| !file.ends_with("skips.py")) {
        let text = std::fs::read_to_string(file).unwrap();
        for (n, line) in text.lines().enumerate() {
            let found = INSTEAD.iter().find(|(word, _)| line.contains(word));
            wrong.extend(
                found.map(|(word, use_this)| {
                    format!("{}:{}: not {word}, but {use_this}", file.display(), n + 1)
                }),
            );
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A test that connects to a port that happens to be free fails on the day on which it is not.
#[test]
fn tests_have_ports_of_their_own() {
    let mut wrong = Vec::new();
    for file in tests() {
        let text = std::fs::read_to_string(&file).unwrap();
        let is_fixed = |line: &&str| {
            let after = line.split("127.0.0.1:").nth(1).and_then(|rest| rest.chars().next());
            after.is_some_and(|digit| ('1'..='9').contains(&digit))
        };
        wrong.extend(text.lines().filter(is_fixed).map(|line| format!("{}: {line}", file.display())));
    }
    assert!(wrong.is_empty(), "use unrack_testing::ClosedPort, or port 0:\n{}", wrong.join("\n"));
}

/// A misspelt name in `UNRACK_NO_SKIPS` would fail only the test that is skipped.
#[test]
fn the_makefile_names_what_tests_know() {
    let text = std::fs::read_to_string(root().join("Makefile")).unwrap();
    let list = text.lines().find_map(|line| line.split_once("UNRACK_NO_SKIPS :=")).unwrap().1.trim();
    let known = Needed::ALL.map(Needed::name);
    assert!(
        list.split(',').count() >= 4 && list.split(',').all(|name| known.iter().any(|it| it == name)),
        "{list}"
    );
    let python = std::fs::read_to_string(root().join("python/tests/skips.py")).unwrap();
    assert!(
        known.iter().all(|name| python.contains(&format!("\"{name}\""))),
        "skips.py knows all of {known:?}"
    );
}
