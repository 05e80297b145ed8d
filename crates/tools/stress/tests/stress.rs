//! The stress on ordinary memory: it passes, prints the same every time, and finds a wrong byte.

use std::process::{Command, Output};

fn stress(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_unrack-stress")).args(arguments).output().expect("it starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const SMALL: &[&str] = &["--memory", "32MiB", "--threads", "3", "--ops-count", "250"];

#[test]
fn every_byte_is_right_and_the_output_is_the_same_every_time() {
    let first = stress(SMALL);
    assert!(first.status.success(), "{}", text(&first.stderr));
    assert!(text(&first.stdout).ends_with("every byte was right\n"));
    assert_eq!(text(&stress(SMALL).stdout), text(&first.stdout));
}

#[test]
fn another_seed_does_something_else() {
    let other = stress(&[SMALL, &["--seed", "2"]].concat());
    assert!(other.status.success(), "{}", text(&other.stderr));
    assert_ne!(text(&stress(SMALL).stdout), text(&other.stdout));
}

#[test]
fn forks_past_the_library_see_the_same_memory() {
    let output = stress(&["--memory", "16MiB", "--ops-count", "40", "--ops", "rawfork,write,map"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
}

#[test]
fn one_wrong_byte_is_found_and_told() {
    let output = stress(&["--memory", "16MiB", "--ops-count", "100", "--ops", "map,corrupt"]);
    assert_eq!(output.status.code(), Some(1));
    let told = text(&output.stderr);
    assert!(told.contains("wrong byte at 0x") && told.contains("operations, the last ones"), "{told}");
}

#[test]
fn touch_counts_every_page() {
    let output = stress(&["touch", "--memory", "4MiB", "--passes", "2", "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert!(text(&output.stdout).starts_with(r#"{"pages":1024,"passes":2,"ns_per_page_min":"#));
}
