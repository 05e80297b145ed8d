//! Checks of the test sources: tests assume nothing of the machine that they need not, and skip in one way only.

use std::path::{Path, PathBuf};
use unrack_testing::TestRequirement;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../..")
        .canonicalize()
        .expect("this crate is in a workspace")
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

/// Ports named by number that no process of the machine can have: the end of the file's path, the line's text, and
/// the reason.
const FIXED: [(&str, &str, &str); 7] = [
    ("torus/tests/emulation.rs", "\"127.0.0.1:7\".parse()", "compared only, never bound or connected to"),
    ("cli/tests/it/torus.rs", "\"127.0.0.1:1,192.0.2.1:1\"", "refused before anything is bound"),
    (
        "cli/tests/it/silence.rs",
        "\"127.0.0.1:9\", &\"--page-timeout\"",
        "refused before anything is connected",
    ),
    (
        "cli/tests/it/silence.rs",
        "serve --listen 127.0.0.1:7000",
        "loopback of a network namespace of its own",
    ),
    ("cli/tests/it/silence.rs", "--remote 127.0.0.1:7000", "the same"),
    ("cli/tests/it/silence.rs", "contains(\"127.0.0.1:7000\")", "the same, in what is printed"),
    ("node/tests/it/silence.rs", "connect(\"127.0.0.1:9\")", "a UDP socket to which nothing is sent"),
];

/// A test that connects to a port that happens to be free fails on the day on which it is not.
#[test]
fn tests_have_ports_of_their_own() {
    let mut wrong = Vec::new();
    let mut used = [false; FIXED.len()];
    for file in tests() {
        let text = std::fs::read_to_string(&file).unwrap();
        for line in text.lines().filter(|line| names_a_port(line)) {
            let allowed = |(of, word, _): &&(&str, &str, &str)| file.ends_with(of) && line.contains(word);
            match FIXED.iter().position(|it| allowed(&it)) {
                Some(at) => used[at] = true,
                None => wrong.push(format!("{}: {line}", file.display())),
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "use unrack_testing::ClosedPort (in Python, a socket that is bound and does not listen), or port 0:\n{}",
        wrong.join("\n")
    );
    let unused: Vec<_> = FIXED.iter().zip(used).filter(|(_, used)| !used).map(|(it, _)| it).collect();
    assert!(unused.is_empty(), "no test names these ports any more: {unused:?}");
}

/// Returns whether a line has an address on the loopback whose port is not 0.
fn names_a_port(line: &str) -> bool {
    let hosts = ["127.0.0.1:", "localhost:", "[::1]:"];
    let mut after = hosts.iter().flat_map(|host| line.split(host).skip(1));
    after.any(|rest| rest.starts_with(|digit| ('1'..='9').contains(&digit)))
}

/// A misspelt name in `UNRACK_NO_SKIPS` would fail only the test that is skipped.
#[test]
fn the_makefile_names_what_tests_know() {
    let text = std::fs::read_to_string(root().join("make/test.mk")).unwrap();
    let list = text.lines().find_map(|line| line.split_once("UNRACK_NO_SKIPS :=")).unwrap().1.trim();
    let known = TestRequirement::ALL.map(TestRequirement::name);
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

/// Returns whether the documentation in this source has an example that Rust's documentation tests would run.
fn has_example(source: &str) -> bool {
    let mut is_inside = false;
    let mut fences = source.lines().filter_map(|line| {
        let comment = line.trim_start();
        let text = comment.strip_prefix("//!").or_else(|| comment.strip_prefix("///"))?;
        text.trim_start().strip_prefix("```")
    });
    fences.any(|kind| {
        is_inside = !is_inside;
        is_inside && matches!(kind.trim(), "" | "rust" | "no_run" | "should_panic" | "compile_fail")
    })
}

#[test]
fn every_example_of_the_documentation_is_compiled() {
    assert!(has_example("//! ```no_run\n//! f();\n//! ```") && has_example("    /// ```\n    /// f();"));
    assert!(!has_example("//! ```text\n//! a --> b\n//! ```\nlet text = \"```\";"));
    let mut unseen = Vec::new();
    let mut examples = 0;
    for group in std::fs::read_dir(root().join("crates")).unwrap().map(|entry| entry.unwrap().path()) {
        let Ok(crates) = std::fs::read_dir(&group) else { continue };
        for folder in crates.map(|entry| entry.unwrap().path()).filter(|path| path.join("src").is_dir()) {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let mut folders = vec![folder.join("src")];
            while let Some(inner) = folders.pop() {
                for path in std::fs::read_dir(inner).unwrap().map(|entry| entry.unwrap().path()) {
                    if path.is_dir() {
                        folders.push(path);
                    } else if path.extension().is_some_and(|end| end == "rs")
                        && has_example(&std::fs::read_to_string(&path).unwrap())
                    {
                        examples += 1;
                        unseen.extend(manifest.contains("doctest = false").then_some(path));
                    }
                }
            }
        }
    }
    assert!(examples > 3, "{examples} examples");
    assert!(unseen.is_empty(), "remove `doctest = false` from the manifest of {unseen:?}");
}
