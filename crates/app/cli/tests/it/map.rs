//! `unrack map`: measurements, drawings, kept runs and refusals.

use crate::common;

use common::{Lab, stderr};
use std::ffi::OsStr;
use std::process::Output;

/// Program that writes every page of 12 MiB three times over; then it sleeps, so that a busy machine has time to
/// measure its memory.
const WORK: &str = "import time\nd = bytearray(12 << 20)\nfor _ in range(3):\n for i in range(0, len(d), 4096): d[i] = 1\ntime.sleep(0.1)\n";

/// Maps one share in one round, on a machine where `others` other tasks run.
fn map(lab: &Lab, others: u32, options: &[&str]) -> Output {
    let out = lab.path("map");
    let mut arguments: Vec<&dyn AsRef<OsStr>> =
        vec![&"map", &"--repeat=1", &"--local=40%", &"--latency=10us,1us", &"--bandwidth=100Gbps,10Gbps"];
    arguments.extend([&"--out" as &dyn AsRef<OsStr>, &out]);
    arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    arguments.extend([&"--" as &dyn AsRef<OsStr>, &"python3", &"-c", &WORK]);
    lab.command(&arguments).env("UNRACK_PROC", lab.proc(others)).output().unwrap()
}

fn without_machine(text: &[u8]) -> serde_json::Value {
    let mut object: serde_json::Value =
        serde_json::from_slice(text).unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(text)));
    assert!(object.as_object_mut().unwrap().remove("machine").is_some(), "{object}");
    object
}

/// Changes the kept runs of `lab`'s map to those of another build.
fn age(lab: &Lab) {
    let path = lab.path("map/measured.json");
    let mut kept: serde_json::Value = unrack_record::read_json(&path).unwrap();
    kept["of"]["sources"] = "another".into();
    unrack_record::write_json(&path, &kept).unwrap();
}

#[test]
fn a_map_is_drawn_and_its_runs_are_kept() {
    let Some(lab) = Lab::paging("map") else { return };
    let output = map(&lab, 0, &["--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = settled(&output.stdout);
    assert_eq!(first["latencies_ns"], serde_json::json!([1000.0, 10000.0]), "sorted");
    assert!(first["locals"][0]["fetches"].as_u64().unwrap() > 1000, "{first}");
    for local in first["locals"].as_array().unwrap() {
        check_cells(local);
    }
    for name in ["map.json", "manifest.json", "report.html", "measured.json"] {
        assert!(lab.path("map").join(name).is_file(), "{name}");
    }
    // Disturbed runs are made again, until none is left.
    let is_quiet = |output: &Output| {
        let map: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        map["disturbance"]["disturbed"].as_array().unwrap().is_empty()
    };
    let mut output = output;
    for _ in 0..3 {
        if is_quiet(&output) {
            break;
        }
        output = map(&lab, 0, &["--json"]);
    }
    if is_quiet(&output) {
        // Again: nothing is run, and the same comes out.
        let again = map(&lab, 0, &["--json"]);
        assert_eq!(settled(&again.stdout), settled(&output.stdout));
        // Four native ones, one without delay and five with.
        assert!(stderr(&again).contains("continuing from 10 runs"), "{}", stderr(&again));
    }
    let output = map(&lab, 0, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("40% local"), "{text}");
    age(&lab);
    let output = map(&lab, 0, &["--local=90%"]);
    assert!(!stderr(&output).contains("continuing from"), "another build measures anew");
}

/// Returns a map without the parts that depend on other work of the machine.
fn settled(text: &[u8]) -> serde_json::Value {
    let mut map = without_machine(text);
    map.as_object_mut().unwrap().remove("disturbance").unwrap();
    map
}

/// Checks the cells of a share. Whether they can be stated depends on the load of this machine; what is stated must
/// make sense.
fn check_cells(local: &serde_json::Value) {
    if local["slowdown"].is_null() {
        assert!(local["withheld"]["key"].is_string() && local["slowdown_ci95"].is_null(), "{local}");
        return;
    }
    let cell = |latency: usize, rate: usize| local["slowdown"][latency][rate].as_f64().unwrap();
    assert!(cell(0, 0) >= cell(0, 1), "a slower link is no better: {local}");
    assert!(cell(1, 1) >= cell(0, 1) && cell(0, 1) >= 1.0, "a longer latency is no better: {local}");
    let ends = |n: usize| local["slowdown_ci95"][1][1][n].as_f64().unwrap();
    assert!(ends(0) <= cell(1, 1) && cell(1, 1) <= ends(1), "{local}");
}

#[test]
fn disturbed_runs_are_drawn_roughly_and_not_kept() {
    let Some(lab) = Lab::paging("map-busy") else { return };
    let output = map(&lab, 8, &[]);
    assert!(output.status.success(), "{}", stderr(&output));
    let text = String::from_utf8_lossy(&output.stdout);
    let read = |name: &str| -> serde_json::Value { unrack_record::read_json(lab.path(name)).unwrap() };
    let busy = read("map/map.json");
    assert!(busy["native_s"].as_f64().is_some() && busy["floor_ns"].is_null(), "{busy}");
    for local in busy["locals"].as_array().unwrap() {
        let is_rough = local["rough"]["key"] == "rough" && !local["slowdown"].is_null();
        let is_withheld = local["slowdown"].is_null() && local["withheld"]["key"] != "disturbed";
        assert!(is_rough || is_withheld, "{local}");
        assert!(!is_rough || text.contains("ROUGH: other work disturbed"), "{text}");
    }
    let kept = read("map/measured.json");
    assert!(kept["runs"].as_array().unwrap().iter().all(|run| run["is_disturbed"] == true), "{kept}");
}

#[test]
fn what_cannot_be_mapped_is_refused_with_the_reason() {
    let Some(lab) = Lab::paging("map-refused") else { return };
    let out = lab.path("out");
    let refused = |options: &[&str], status: i32, text: &str| {
        let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"map", &"--out", &out];
        arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
        let output = lab.unrack(&arguments);
        assert_eq!(output.status.code(), Some(status), "{}", stderr(&output));
        assert!(stderr(&output).contains(text), "{}", stderr(&output));
    };
    refused(&["--bandwidth=0Gbps", "--", "true"], 2, "0Gbps");
    refused(&["--latency=fast", "--", "true"], 2, "fast");
    refused(&["--", "no-program-of-this-name"], 2, "no such program");
    refused(&["--", "sh", "-c", "exit 3"], 1, "ended with status 3 when run natively");
    refused(&["--local=1%", "--", "true"], 2, "too little");
}
