//! `unrack lines` and `unrack compare --access`: counts of a run, refusals, and keys of the JSON.

use crate::common;

use common::{Lab, stderr};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use unrack_testing::Needed;

/// Lab for instrumented runs; `None`, with a message, without QEMU.
fn lab(name: &str) -> Option<Lab> {
    if Command::new("qemu-x86_64").arg("-version").output().is_err() {
        unrack_testing::skip(Needed::Qemu, "qemu-x86_64 is not in PATH");
        return None;
    }
    let plugin = Path::new(env!("CARGO_BIN_EXE_unrack")).with_file_name("libunrack_lines.so");
    let built = "test with `cargo test --workspace`, or first `cargo build -p unrack-lines-plugin` with the same profile";
    assert!(plugin.is_file(), "{} is missing: {built}", plugin.display());
    Some(Lab::new(name))
}

fn recorded(lab: &Lab, command: &[&str]) -> (Output, Value) {
    let json = lab.path("run.json");
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"lines", &"run", &"--json", &json, &"--"];
    arguments.extend(command.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
    let output = lab.unrack(&arguments);
    let text = std::fs::read(&json).unwrap_or_else(|_| panic!("no summary: {}", stderr(&output)));
    (output, serde_json::from_slice(&text).unwrap())
}

#[test]
fn a_run_counts_what_its_processes_do() {
    let Some(lab) = lab("lines-run") else { return };
    let (output, object) = recorded(&lab, &["sh", "-c", "/bin/true; /bin/echo done"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.starts_with("done\n") && said.contains("instructions"), "{said}");
    let counts = &object["lines"]["counts"];
    assert!(counts["processes"].as_u64().unwrap() >= 3, "{counts}");
    let count = |name: &str| counts[name].as_u64().unwrap();
    assert!(count("instructions") > count("loads") && count("loads") > count("stores"), "{counts}");
    let warnings = object["lines"]["warnings"].as_array().unwrap();
    assert!(warnings.iter().any(|warning| warning["key"] == "few-windows"), "{warnings:?}");
}

#[test]
fn keys_of_the_json_stay() {
    let Some(lab) = lab("lines-keys") else { return };
    let (_, object) = recorded(&lab, &["/bin/true"]);
    let keys = |value: &Value| value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ");
    assert_eq!(keys(&object), "access command lines machine seed version");
    let expected = "counts critical curve fabrics footprint_bytes functions local machine_times mappings native \
                    placement predicted_near_s processor stalls warnings";
    assert_eq!(keys(&object["lines"]), expected);
    assert_eq!(object["access"], "lines");
    for point in object["lines"]["curve"].as_array().unwrap() {
        let slowdown = &point["slowdown"];
        assert!(slowdown["low"].is_number() || slowdown["withheld"]["text"].is_string(), "{slowdown}");
    }
}

#[test]
fn without_qemu_it_says_what_to_install() {
    let lab = Lab::new("lines-lacking");
    let output =
        lab.command(&[&"lines", &"run", &"--", &"/bin/true"]).env("UNRACK_QEMU", lab.path("none")).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
}

#[test]
fn an_unknown_unit_of_access_is_bad_usage() {
    let lab = Lab::new("lines-access");
    let output = lab.unrack(&[&"compare", &"--access", &"line", &"--", &"/bin/true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean `lines`?"), "{}", stderr(&output));
}

#[test]
fn a_comparison_of_lines_leaves_a_folder_with_a_report() {
    let Some(lab) = lab("lines-compare") else { return };
    let out = lab.path("out");
    let work = "d = bytearray(4 << 20)\nfor i in range(0, len(d), 64): d[i] = 1\n";
    let output = lab.unrack(&[
        &"compare",
        &"--access",
        &"lines",
        &"--out",
        &out,
        &"--json",
        &"--",
        &"python3",
        &"-c",
        &work,
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(object["lines"]["native"]["wall"]["seconds"].as_array().unwrap().len(), 3);
    assert!(
        ["manifest.json", "summary.json", "heat.parquet", "report.html"]
            .iter()
            .all(|name| out.join(name).is_file())
    );
}
