//! `unrack map`: what is measured, drawn, kept and refused.

use crate::common;

use common::{Lab, stderr};
use std::ffi::OsStr;
use std::process::Output;

/// 12 MiB, and every page of it three times over; then it stays, so that a busy machine has time to weigh it.
const WORK: &str = "import time\nd = bytearray(12 << 20)\nfor _ in range(3):\n for i in range(0, len(d), 4096): d[i] = 1\ntime.sleep(0.1)\n";

/// A map of two shares at one run each.
fn map(lab: &Lab, options: &[&str]) -> Output {
    let out = lab.path("map");
    let mut arguments: Vec<&dyn AsRef<OsStr>> =
        vec![&"map", &"--repeat=1", &"--local=40%,90%", &"--latency=10us,1us", &"--bandwidth=100Gbps,10Gbps"];
    arguments.extend([&"--out" as &dyn AsRef<OsStr>, &out]);
    arguments.extend(options.iter().map(|option| option as &dyn AsRef<OsStr>));
    arguments.extend([&"--" as &dyn AsRef<OsStr>, &"python3", &"-c", &WORK]);
    lab.unrack(&arguments)
}

fn json(text: &[u8]) -> serde_json::Value {
    serde_json::from_slice(text).unwrap_or_else(|why| panic!("{why}: {}", String::from_utf8_lossy(text)))
}

#[test]
fn a_map_is_drawn_and_its_runs_are_kept() {
    let lab = Lab::new("map");
    let output = map(&lab, &["--json"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let first = json(&output.stdout);
    assert_eq!(first["latencies_ns"], serde_json::json!([1000.0, 10000.0]), "sorted");
    assert!(first["locals"][0]["fetches"].as_u64().unwrap() > 1000, "{first}");
    let cell = |latency: usize, rate: usize| first["locals"][0]["slowdown"][latency][rate].as_f64().unwrap();
    assert!(cell(0, 0) >= cell(0, 1), "a slower link is no better: {first}");
    assert!(cell(1, 1) > cell(0, 1) && cell(0, 1) > 1.0, "a longer latency is worse: {first}");
    for name in ["map.json", "manifest.json", "report.html", "measured.json"] {
        assert!(lab.path("map").join(name).is_file(), "{name}");
    }
    // Again: nothing is run, and the same comes out.
    let output = map(&lab, &["--json"]);
    assert_eq!(json(&output.stdout), first);
    assert!(stderr(&output).contains("going on from 9 runs"), "{}", stderr(&output));
    let output = map(&lab, &[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("40% local") && text.contains("10 Gb/s") && text.contains("10 us"), "{text}");
}

#[test]
fn what_cannot_be_mapped_is_refused_with_the_reason() {
    let lab = Lab::new("map-refused");
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
