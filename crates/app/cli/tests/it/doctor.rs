//! `unrack doctor`: what it says is what the verbs say.

use crate::desk::{Desk, stderr, stdout};
use serde_json::Value;
use std::process::Command;
use unrack_testing::{TestRequirement, skip};

fn asked(desk: &Desk, more: &[&str]) -> Vec<Value> {
    let found: Value = serde_json::from_str(&desk.done(&[&["doctor", "--json"], more].concat())).unwrap();
    assert!(found["machine"]["build"]["version"].is_string());
    found["verbs"].as_array().unwrap().clone()
}

#[test]
fn each_use_of_a_verb_is_answered() {
    let desk = Desk::new("doctor");
    let all = asked(&desk, &[]);
    for verb in ["compare", "map", "run", "lines", "swap", "rack", "rpc", "sim"] {
        assert!(all.iter().any(|one| one["verb"] == verb), "{verb}");
    }
    for one in &all {
        assert_eq!(one["can_run"].as_bool().unwrap(), one["lacks"].is_null(), "{one}");
        assert!(one["note"].is_null() || one["can_run"] == true, "{one}");
    }
    let sim = asked(&desk, &["sim"]);
    assert!(sim.len() == 1 && sim[0]["can_run"] == true);
    let text = desk.done(&["doctor", "sim"]);
    assert_eq!(text, "sim  yes\n");
    let said = desk.refused(2, &["doctor", "cook"]);
    assert!(said.contains("cook") && said.contains("compare"), "{said}");
}

#[test]
fn what_a_verb_lacks_is_what_the_doctor_says_with_status_3() {
    let desk = Desk::new("doctor-lacks");
    let unrack = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command
            .args(words)
            .env("PATH", desk.path(""))
            .env("UNRACK_PRELOAD", desk.path("absent.so"))
            .output()
            .unwrap()
    };
    for (verb, words, lacks) in [
        ("lines", &["lines", "run", "--", "/bin/true"][..], "qemu-x86_64 is not installed"),
        ("run", &["run", "--local", "50%", "--", "/bin/true"][..], "absent.so"),
    ] {
        let doctor = unrack(&["doctor", verb]);
        assert_eq!(doctor.status.code(), Some(3));
        let said = stdout(&doctor);
        // A machine may lack something that is looked for before.
        if !said.contains(lacks) {
            continue;
        }
        let run = unrack(words);
        assert_eq!(run.status.code(), Some(3), "{}", stderr(&run));
        let why = stderr(&run);
        assert!(why.contains(lacks) && why.contains("unrack doctor"), "{why}");
    }
}

/// QEMU's file may be there and run nothing, and so may `/dev/kvm`: only a trial shows it.
#[test]
fn a_program_that_runs_no_guest_is_found_by_trial() {
    if unrack_guests::check_machine().is_err() {
        return skip(TestRequirement::Guests, "QEMU, busybox or a kernel is not installed");
    }
    let desk = Desk::new("doctor-trial");
    std::os::unix::fs::symlink("/bin/false", desk.path("qemu-system-x86_64")).unwrap();
    let path = std::env::var("PATH").unwrap();
    let doctor = Command::new(env!("CARGO_BIN_EXE_unrack"))
        .args(["doctor", "rack"])
        .env("PATH", format!("{}:{path}", desk.path("")))
        .output()
        .unwrap();
    let said = stdout(&doctor);
    assert!(doctor.status.code() == Some(3) && said.contains("runs no guest here"), "{said}");
}
