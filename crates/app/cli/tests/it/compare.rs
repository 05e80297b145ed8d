//! `unrack compare`: from a program to the table, in one command.

use crate::common;

use common::{Lab, stderr};
use serde_json::Value;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Output;

/// Program that writes every page of 8 MiB twice over; then it sleeps, so that a busy machine has time to measure its
/// memory.
const WORK: &str = "import time\nd = bytearray(8 << 20)\nfor _ in range(2):\n for i in range(0, len(d), 4096): d[i] = 1\ntime.sleep(0.1)\n";

/// Compares on a machine where `others` other tasks run. Returns the output and the folder.
fn compare(lab: &Lab, others: u32, options: &[&str], command: &[&str]) -> (Output, PathBuf) {
    let out = lab.path("out");
    let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"compare", &"--out", &out];
    let sizes = ["--repeat=1", "--transfers=4000", "--nodes=4", "--local=40%"];
    arguments.extend(sizes.iter().chain(options).map(|option| option as &dyn AsRef<OsStr>));
    arguments.push(&"--");
    arguments.extend(command.iter().map(|word| word as &dyn AsRef<OsStr>));
    let output = lab.command(&arguments).env("UNRACK_PROC", lab.proc(others)).output().unwrap();
    (output, out)
}

fn compared(lab: &Lab, others: u32, options: &[&str]) -> (Value, PathBuf) {
    let (output, out) = compare(lab, others, &[&["--json"], options].concat(), &["python3", "-c", WORK]);
    assert!(output.status.success(), "{}", stderr(&output));
    (serde_json::from_slice(&output.stdout).unwrap(), out)
}

/// Returns whether this is a number within its interval, or a reason.
fn is_stated(number: &Value) -> bool {
    let ends = (number["low"].as_f64(), number["value"].as_f64(), number["high"].as_f64());
    match ends {
        (Some(low), Some(value), Some(high)) => low <= value && value <= high,
        (Some(_), None, None) => true,
        _ => is_reason(&number["withheld"]),
    }
}

fn is_reason(warning: &Value) -> bool {
    warning["key"].is_string() && warning["text"].is_string()
}

#[test]
fn every_fabric_is_compared_with_ideal_and_all_is_kept() {
    let Some(lab) = Lab::paging("compare") else { return };
    let (object, out) = compared(&lab, 0, &[]);
    let fabrics = object["fabrics"].as_array().unwrap();
    let names: Vec<_> = fabrics.iter().map(|fabric| fabric["fabric"].as_str().unwrap()).collect();
    assert_eq!(names, ["ideal", "edm", "cxl", "dctcp"]);
    let over_ideal = |n: usize| fabrics[n]["completion_over_ideal"]["mean"].as_f64().unwrap();
    assert!((over_ideal(0) - 1.0).abs() < 1e-9 && (1..4).all(|n| over_ideal(n) > 1.0), "{fabrics:?}");
    let replayed = |n: usize| fabrics[n]["slowdown_replay"].as_f64().unwrap();
    assert!(replayed(0) > 1.0 && (1..4).all(|n| replayed(n) > replayed(0)), "{fabrics:?}");
    let files = ["manifest.json", "summary.json", "trace.parquet", "completions-edm.parquet", "report.html"];
    assert!(files.iter().all(|name| out.join(name).is_file()));
}

/// The fit of the runs to a line depends on this machine; whether a number or a reason is given does not.
#[test]
fn every_number_has_its_interval_or_the_reason_why_there_is_none() {
    let lab = Lab::new("compare-stated");
    let (object, _) = compared(&lab, 0, &[]);
    assert_eq!(object["native"]["seconds"].as_array().unwrap().len(), 4, "{object}");
    assert_eq!(object["injection"]["points"].as_array().unwrap().len(), 5, "{object}");
    assert!((object["injection"]["page_us"].as_f64().unwrap() - 0.32768).abs() < 1e-9);
    for requirement in object["requirements"].as_array().unwrap() {
        assert!(is_stated(&requirement["max_fetch_us"]), "{requirement}");
        assert!(requirement["min_local"].is_null() || is_stated(&requirement["min_local"]), "{requirement}");
        let impossible = requirement["max_fetch_us"]["high"].as_f64().is_some_and(|high| high < 0.32768);
        assert_eq!(requirement["feasible"] == false, impossible, "{requirement}");
    }
    for fabric in object["fabrics"].as_array().unwrap() {
        let ends = (fabric["slowdown"].as_f64(), fabric["slowdown_ci95"].as_array());
        assert!(matches!(ends, (Some(_), Some(_))) || is_reason(&fabric["withheld"]), "{fabric}");
    }
    assert!(object["warnings"].as_array().unwrap().iter().all(is_reason), "{object}");
    assert_eq!(object["disturbance"]["disturbed"], serde_json::json!([]));
}

#[test]
fn on_a_machine_that_is_busy_throughout_answers_are_rough_and_simulations_are_stated() {
    let lab = Lab::new("compare-busy");
    let (output, out) = compare(&lab, 8, &[], &["python3", "-c", WORK]);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&std::fs::read(out.join("summary.json")).unwrap()).unwrap();
    assert_eq!(object["rough"]["key"], "rough", "{object}");
    assert!(object["rough"]["text"].as_str().unwrap().contains("8 other tasks"), "{object}");
    assert_eq!(
        object["native"]["seconds"].as_array().unwrap().len(),
        4,
        "all native runs are used: {object}"
    );
    let keys: Vec<_> = object["warnings"].as_array().unwrap().iter().map(|warning| &warning["key"]).collect();
    assert!(keys.contains(&&Value::from("rough")) && !keys.contains(&&Value::from("disturbed")), "{keys:?}");
    for requirement in object["requirements"].as_array().unwrap() {
        assert!(is_stated(&requirement["max_fetch_us"]), "{requirement}");
    }
    for fabric in object["fabrics"].as_array().unwrap() {
        // What was simulated does not depend on this machine, but for the pace of the program.
        let simulated = ["completion_over_ideal", "fetch_us", "slowdown_replay", "simulation"];
        assert!(simulated.iter().all(|name| !fabric[name].is_null()), "{fabric}");
        match fabric["slowdown"].as_f64() {
            // Two of ten turns were the program's: the interval reaches five times as far.
            Some(value) => {
                assert!(fabric["slowdown_ci95"][1].as_f64().unwrap() >= 1.0 + 4.9 * (value - 1.0), "{fabric}")
            }
            None => assert!(
                is_reason(&fabric["withheld"]) && fabric["withheld"]["key"] != "disturbed",
                "{fabric}"
            ),
        }
    }
    let disturbance = &object["disturbance"];
    assert_eq!(
        disturbance["runs"].as_u64().unwrap() as usize,
        disturbance["disturbed"].as_array().unwrap().len()
    );
    assert_eq!(disturbance["disturbed"][0]["why"]["key"], "run-queue");
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("ROUGH: other work disturbed"), "{text}");
    assert!(
        std::fs::read_to_string(out.join("report.html")).unwrap().contains("ROUGH: other work disturbed")
    );
    assert!(stderr(&output).contains("this machine is busy (8 other tasks"), "{}", stderr(&output));
}

/// A machine that is busy at first, and quiet after some seconds.
#[test]
#[ignore = "long: make soak runs it"]
fn within_a_budget_it_waits_for_other_work_to_end() {
    let lab = Lab::new("compare-waits");
    let proc = lab.proc(8);
    let becomes_quiet = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_secs(2));
        let (aside, loadavg) = (proc.join("aside"), proc.join("loadavg"));
        std::fs::write(&aside, "0.00 0.00 0.00 1/99 7\n").unwrap();
        std::fs::rename(aside, loadavg).unwrap();
    });
    let out = lab.path("out");
    let words = [
        "--json",
        "--repeat=1",
        "--transfers=4000",
        "--nodes=4",
        "--local=40%",
        "--budget=2m",
        "--fabric=ideal",
    ];
    let mut arguments: Vec<&dyn AsRef<OsStr>> = vec![&"compare", &"--out", &out];
    arguments.extend(words.iter().map(|word| word as &dyn AsRef<OsStr>));
    arguments.extend([&"--" as &dyn AsRef<OsStr>, &"python3", &"-c", &WORK]);
    let output = lab.command(&arguments).env("UNRACK_PROC", lab.path("proc")).output().unwrap();
    becomes_quiet.join().unwrap();
    assert!(
        stderr(&output).contains("waiting for other work to end, for up to 30 s of the budget"),
        "{}",
        stderr(&output)
    );
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(object["disturbance"]["waited_s"].as_f64().unwrap() > 1.0, "{object}");
    assert!(
        object["disturbance"]["disturbed"].as_array().unwrap().is_empty() && object["rough"].is_null(),
        "{object}"
    );
}

#[test]
fn a_budget_that_is_too_short_withholds_instead_of_overrunning() {
    let lab = Lab::new("compare-budget");
    let sleeper = ["python3", "-c", "import time\nd = bytearray(8 << 20)\ntime.sleep(4)\n"];
    // One native run fits into the budget, however busy this machine is, and one with remote memory never does.
    let (output, _) = compare(&lab, 0, &["--json", "--budget=10s"], &sleeper);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["requirements"][0]["max_fetch_us"]["withheld"]["key"], "budget", "{object}");
    assert!(
        object["warnings"].as_array().unwrap().iter().any(|warning| warning["key"] == "budget"),
        "{object}"
    );
    let (output, _) = compare(&lab, 0, &["--budget=1s", "--replace"], &["sleep", "50"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("give a larger --budget"), "{}", stderr(&output));
}

#[test]
fn nothing_is_concluded_from_memory_that_stayed_local() {
    let lab = Lab::new("compare-stayed");
    // Locked pages cannot be taken.
    let locked = "import ctypes, time\nd = (ctypes.c_char * (8 << 20))()\n\
                  assert ctypes.CDLL(None).mlock(d, len(d)) == 0\ntime.sleep(0.4)";
    let (output, _) = compare(&lab, 0, &["--json", "--budget=8s"], &["python3", "-c", locked]);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["injection"]["withheld"]["key"], "not-away", "{object}");
    assert!(object["injection"]["fit"].is_null(), "{object}");
    assert!(object["fabrics"][0]["slowdown"].is_null(), "{object}");
}

#[test]
fn a_budget_that_is_no_time_is_refused() {
    let lab = Lab::new("compare-no-budget");
    for budget in ["--budget=0s", "--budget=soon", "--budget=2"] {
        let (output, _) = compare(&lab, 0, &[budget], &["true"]);
        assert_eq!(output.status.code(), Some(2), "{budget}");
        assert!(stderr(&output).contains("90s, 2m or 1h"), "{}", stderr(&output));
    }
}
