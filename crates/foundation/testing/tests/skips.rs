//! A skip is reported although the test passes, and fails where the requirement is installed.

use std::process::{Command, Output};
use unrack_testing::{TestFolder, TestRequirement, skip};

/// Not a test of its own, but run as a child process by the tests below: it is skipped.
#[test]
fn a_test_that_is_skipped() {
    if std::env::var_os("UNRACK_TEST_CHILD").is_some() {
        skip(TestRequirement::Tshark, "tshark cannot be run\n(no such file)");
    }
}

fn child(settings: &[(&str, &str)]) -> Output {
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", "a_test_that_is_skipped", "-q"]).env("UNRACK_TEST_CHILD", "1");
    child.env_remove("UNRACK_SKIPS").env_remove("UNRACK_NO_SKIPS").envs(settings.iter().copied());
    child.output().unwrap()
}

const LINE: &str = "tshark: a_test_that_is_skipped: tshark cannot be run (no such file)\n";

#[test]
fn a_skip_is_seen_though_output_of_tests_is_kept_back() {
    let output = child(&[]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stderr), format!("skipped: {LINE}"));
}

#[test]
fn skips_are_gathered_in_a_file() {
    let folder = TestFolder::new("skips");
    let path = folder.join("skips");
    for _ in 0..2 {
        let output = child(&[("UNRACK_SKIPS", path.to_str().unwrap())]);
        assert!(output.status.success() && output.stderr.is_empty());
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), LINE.repeat(2));
}

#[test]
fn what_is_installed_is_not_skipped() {
    let output = child(&[("UNRACK_NO_SKIPS", "python3,tshark")]);
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("UNRACK_NO_SKIPS says that it is installed"), "{said}");
    assert!(child(&[("UNRACK_NO_SKIPS", "python3")]).status.success());
}
