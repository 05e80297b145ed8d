//! Run folders: written again by the same run, never lost to another one in silence.

use crate::{common, desk};

use common::Lab;
use desk::{Desk, example};
use std::ffi::OsStr;

const FEW: [&str; 2] = ["--set", "workload.messages=500"];

#[test]
fn a_simulation_replaces_its_own_scenario_and_no_other() {
    let desk = Desk::new("replace-sim");
    let star = example("star-edm.toml");
    let run = |more: &[&'static str]| [&["sim", &star, "--out", "run"], &FEW[..], more].concat();
    desk.done(&run(&[]));
    let before = desk.bytes("run/messages.parquet");
    desk.done(&run(&[]));
    // The same scenario by other words.
    desk.done(&run(&["--set", "seed=1", "--json"]));
    assert!(desk.bytes("run/messages.parquet") == before);
    for other in [&["--set", "seed=2"][..], &["--set", "fabric={protocol=\"cxl\"}"]] {
        let said = desk.refused(2, &run(other));
        assert!(said.contains("run holds a run of `unrack sim` of") && said.contains("--replace"), "{said}");
        assert!(desk.bytes("run/messages.parquet") == before && said.lines().count() == 1, "{said}");
    }
    let said = desk.refused(2, &["sweep", &star, FEW[0], FEW[1], "--out", "run"]);
    assert!(said.contains("`unrack sim`"), "{said}");
    desk.done(&run(&["--set", "seed=2", "--replace"]));
    assert!(desk.bytes("run/messages.parquet") != before);
    desk.refused(2, &run(&[]));
}

#[test]
fn a_trace_that_has_changed_is_another_scenario() {
    let desk = Desk::new("replace-trace");
    let scenario = desk.file("replay.toml", std::fs::read_to_string(example("trace-replay.toml")).unwrap());
    let run = |rows: &str| {
        desk.file("flows.csv", format!("src,dst,bytes,start_ns,kind\n{rows}"));
        desk.unrack(&["sim", &scenario, "--set", "workload.file=flows.csv", "--out", "run"]).status.code()
    };
    assert_eq!(run("0,1,64,0,read\n"), Some(0));
    assert_eq!(run("0,1,64,0,read\n"), Some(0));
    assert_eq!(run("0,1,64,5,read\n"), Some(2));
}

#[test]
fn a_sweep_grows_in_its_folder_and_loses_no_point_in_silence() {
    let desk = Desk::new("replace-sweep");
    let star = example("star-edm.toml");
    let run = |loads: &'static str, more: &[&'static str]| {
        [&["sweep", &star, "--out", "run", "--set", loads], &FEW[..], more].concat()
    };
    desk.done(&run("workload.load=0.2,0.4", &[]));
    desk.done(&run("workload.load=0.2,0.4,0.6", &[]));
    desk.done(&run("workload.load=0.2,0.4,0.6", &[]));
    let before = desk.bytes("run/sweep.json");
    let said = desk.refused(2, &run("workload.load=0.2,0.4", &[]));
    assert!(said.contains("1 points that are not in this grid") && said.contains("--replace"), "{said}");
    assert_eq!(desk.bytes("run/sweep.json"), before);
    let output = desk.unrack(&run("workload.load=0.2,0.4", &["--replace"]));
    assert!(
        output.status.success() && desk::stderr(&output).contains("2 of 2 points are in"),
        "points were kept"
    );
}

#[test]
fn a_page_of_studies_loses_no_study_in_silence() {
    let desk = Desk::new("replace-study");
    let run = |names: &[&'static str]| [&["study", "run", "--out", "run"], names].concat();
    desk.done(&run(&["edm/scheduler", "--quick"]));
    desk.done(&run(&["edm/scheduler", "ddc/table4", "--quick"]));
    let before = desk.bytes("run/results.json");
    for (names, why) in [
        (&["ddc/table4", "--quick"][..], "edm/scheduler, which this run lacks"),
        (&["edm/scheduler", "ddc/table4"], "a quick run"),
    ] {
        let said = desk.refused(2, &run(names));
        assert!(said.contains(why) && said.contains("--replace"), "{said}");
    }
    assert_eq!(desk.bytes("run/results.json"), before);
    desk.done(&run(&["ddc/table4", "--quick", "--replace"]));
}

#[test]
fn a_program_is_not_run_for_a_folder_of_another_run() {
    let lab = Lab::new("replace-program");
    let (out, mark) = (lab.path("out"), lab.path("mark"));
    let scenario = example("star-edm.toml");
    let done = lab.unrack(&[&"sim", &scenario, &FEW[0], &FEW[1], &"--out", &out]);
    assert!(done.status.success(), "{}", common::stderr(&done));
    for verb in ["compare", "map"] {
        let arguments: [&dyn AsRef<OsStr>; 6] = [&verb, &"--out", &out, &"--", &"touch", &mark];
        let output = lab.unrack(&arguments);
        let said = common::stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("`unrack sim` of") && said.contains("--replace") && !mark.exists(), "{said}");
    }
}
