//! `unrack compare`: from a program to the table, in one command.

use crate::common;

use common::{Lab, stderr};

/// 8 MiB, and every page of it twice over; then it stays, so that a busy machine has time to weigh it.
const WORK: &str = "import time\nd = bytearray(8 << 20)\nfor _ in range(2):\n for i in range(0, len(d), 4096): d[i] = 1\ntime.sleep(0.1)\n";

#[test]
fn every_fabric_is_compared_with_ideal_and_all_is_kept() {
    let lab = Lab::new("compare");
    let out = lab.path("out");
    let sizes = ["--repeat=1", "--transfers=4000", "--nodes=4", "--local=40%"];
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"compare", &"--json", &"--out", &out];
    arguments.extend(sizes.iter().map(|option| option as &dyn AsRef<std::ffi::OsStr>));
    arguments.extend([&"--" as &dyn AsRef<std::ffi::OsStr>, &"python3", &"-c", &WORK]);
    let output = lab.unrack(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let fabrics = object["fabrics"].as_array().unwrap();
    let names: Vec<_> = fabrics.iter().map(|fabric| fabric["fabric"].as_str().unwrap()).collect();
    assert_eq!(names, ["ideal", "edm", "cxl", "dctcp"]);
    let over_ideal = |n: usize| fabrics[n]["completion_over_ideal"]["mean"].as_f64().unwrap();
    assert!((over_ideal(0) - 1.0).abs() < 1e-9 && (1..4).all(|n| over_ideal(n) > 1.0), "{fabrics:?}");
    let replayed = |n: usize| fabrics[n]["slowdown_replay"].as_f64().unwrap();
    assert!(replayed(0) > 1.0 && (1..4).all(|n| replayed(n) > replayed(0)), "{fabrics:?}");
    assert!(object["requirements"].as_array().is_some_and(|all| !all.is_empty()));
    let files = ["manifest.json", "summary.json", "trace.parquet", "completions-edm.parquet", "report.html"];
    assert!(files.iter().all(|name| out.join(name).is_file()));
}
