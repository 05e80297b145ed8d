//! `unrack scenario` and `unrack completions`.

use crate::desk;

use desk::{Desk, example, stdout};
use std::process::Command;

#[test]
fn good_scenarios_pass_and_bad_ones_are_shown() {
    let desk = Desk::new("check");
    let star = example("star-edm.toml");
    let said = desk.done(&["scenario", "check", &star]);
    assert!(said.contains("144 nodes, edm, memory") && said.contains("memory: about "), "{said}");
    let text = std::fs::read_to_string(&star).unwrap();
    let file =
        desk.file("bad.toml", text.replace("load = 0.8", "load = 0.8\nlaod = 1").replace("edm", "edn"));
    let said = desk.refused(2, &["scenario", "check", &file]);
    assert!(said.contains("did you mean `edm`") && said.contains("laod"), "both problems: {said}");
    assert!(said.contains(" --> ") && said.contains("^^^^"), "{said}");
    // Errors that only the fabric detects, and errors that only the file shows.
    let said = desk.refused(2, &["scenario", "check", &star, "--set", "fabric.chunk=100B"]);
    assert!(said.contains("multiple of 64B"), "{said}");
    let said =
        desk.refused(2, &["scenario", "check", &star, "--set", "workload.size={cdf_file=\"no.toml\"}"]);
    assert!(said.contains("no.toml"), "{said}");
}

#[test]
fn an_explanation_is_the_same_scenario_with_every_value() {
    let desk = Desk::new("explain");
    let explained = desk.done(&[
        "scenario",
        "--explain",
        &example("star-dctcp.toml"),
        "--set",
        "network.link.rate=40Gbps",
    ]);
    for part in ["rate = \"40Gbps\"", "# --set network.link.rate=40Gbps", "min_rto = ", "# default", ".toml:"]
    {
        assert!(explained.contains(part), "{part} in {explained}");
    }
    let hash = |said: String| said.trim().rsplit(' ').next().unwrap().to_string();
    let file = desk.file("explained.toml", &explained);
    let original = ["scenario", "check", &example("star-dctcp.toml"), "--set", "network.link.rate=40Gbps"];
    assert_eq!(hash(desk.done(&["scenario", "check", &file])), hash(desk.done(&original)));
    // The file of a trace need not exist for its scenario to be explained.
    desk.done(&["scenario", "explain", &example("trace-replay.toml")]);
}

#[test]
fn a_network_is_drawn() {
    let desk = Desk::new("draw");
    let svg = desk.done(&["scenario", "draw", &example("drack-4x2.toml")]);
    assert!(svg.starts_with("<svg") && svg.contains("NIC 7"), "{svg}");
    let many = ["scenario", "draw", &example("drack-4x2.toml"), "--set", "network.topology.racks=1000"];
    assert!(desk.refused(2, &many).contains("at most 512"));
}

#[test]
fn one_question_at_a_time() {
    let desk = Desk::new("question");
    desk.refused(2, &["scenario"]);
    desk.refused(2, &["scenario", "check", "a", "--explain", "b"]);
}

/// Scripts that were written for version 0.2 give the verbs as flags.
#[test]
fn the_verbs_are_accepted_as_flags() {
    let desk = Desk::new("flags");
    let star = example("star-dctcp.toml");
    for verb in ["check", "explain", "draw"] {
        let set = ["--set", "network.link.rate=40Gbps"];
        let new = desk.done(&[&["scenario", verb, &star], &set[..]].concat());
        let old = desk.done(&[&["scenario", &format!("--{verb}"), &star], &set[..]].concat());
        assert_eq!(new, old);
    }
    assert!(!desk.done(&["scenario", "--help"]).contains("--check"));
}

#[test]
fn every_shell_asks_the_command_what_may_follow() {
    let desk = Desk::new("completions");
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        let script = desk.done(&["completions", shell]);
        assert!(script.contains("COMPLETE") && script.contains("unrack"), "{shell}: {script}");
    }
    desk.refused(2, &["completions", "csh"]);
    let asked = |words: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        stdout(&command.args(["--", "unrack"]).args(words).env("COMPLETE", "fish").output().unwrap())
    };
    let verbs = asked(&[""]);
    for verb in ["run", "sim", "scenario", "report"] {
        assert!(verbs.lines().any(|line| line.split('\t').next() == Some(verb)), "{verb}: {verbs}");
    }
    assert!(!verbs.contains("__touch"), "{verbs}");
    for (words, found) in [
        (&["sim", "a.toml", "--set", "fabric.prot"][..], "fabric.protocol="),
        (&["sweep", "a.toml", "--set", "fabric.protocol=ho"], "fabric.protocol=homa"),
        (&["compare", "--fabric", "edm,c"], "edm,cxl"),
        (&["study", "run", "edm/tab"], "edm/table1"),
    ] {
        assert!(asked(words).starts_with(found), "{words:?}: {}", asked(words));
    }
}
