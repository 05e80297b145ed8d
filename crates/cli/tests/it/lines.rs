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

fn keys(value: &Value) -> String {
    value.as_object().unwrap().keys().cloned().collect::<Vec<_>>().join(" ")
}

/// Returns the slowdowns of a curve, or the key of the reason why they are withheld.
fn slowdowns(curve: &Value) -> Result<Vec<f64>, String> {
    let points = curve.as_array().unwrap().iter().map(|point| &point["slowdown"]);
    points
        .map(|slowdown| {
            let withheld = || slowdown["withheld"]["key"].as_str().unwrap().to_string();
            slowdown["value"].as_f64().ok_or_else(withheld)
        })
        .collect()
}

/// Writes a file of lines in no order, for `sort`.
fn unsorted(lab: &Lab, lines: u64) -> String {
    let path = lab.path("unsorted");
    let line = |n: u64| format!("{:010}\n", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32);
    std::fs::write(&path, (0..lines).map(line).collect::<String>()).unwrap();
    path.to_str().unwrap().into()
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
    let served = counts["served"].as_array().unwrap().iter();
    let served: u64 = served.map(|level| level["accesses"].as_u64().unwrap()).sum();
    assert_eq!(served, count("loads") + count("stores"), "each access is served somewhere");
}

#[test]
fn few_windows_have_no_slowdown() {
    let Some(lab) = lab("lines-keys") else { return };
    let (output, object) = recorded(&lab, &["/bin/true"]);
    assert_eq!(keys(&object), "access command lines machine seed version");
    let expected = "counts critical curve fabrics footprint_bytes functions kernel_s local machine_times mappings native \
                    placement placements predicted_near_s processor stalls warnings";
    assert_eq!(keys(&object["lines"]), expected);
    assert_eq!(object["access"], "lines");
    assert_eq!(object["lines"]["predicted_near_s"]["withheld"]["key"], "few-windows");
    assert_eq!(object["lines"]["curve"].as_array().unwrap().len(), 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("windows were recorded"));
}

#[test]
fn far_memory_slows_a_program_down_by_latency_and_share() {
    let Some(lab) = lab("lines-curve") else { return };
    let file = unsorted(&lab, 60_000);
    let (_, object) = recorded(&lab, &["sort", "--parallel=1", "-o", "/dev/null", &file]);
    let lines = &object["lines"];
    let asked = slowdowns(&lines["curve"]).unwrap();
    assert!(asked.len() >= 5 && asked[0] > 1.0 && asked.is_sorted(), "{asked:?}");
    let [far, most_near] = ["all far", "75 % near, interleaved"].map(|name| {
        let others = lines["placements"].as_array().unwrap();
        let other = others.iter().find(|other| other["placement"] == name).unwrap();
        slowdowns(&other["curve"]).unwrap()
    });
    let last = asked.len() - 1;
    assert!(far[last] > asked[last] && asked[last] > most_near[last], "{far:?} {asked:?} {most_near:?}");
    let stalls = lines["stalls"].as_object().unwrap();
    let sum: f64 =
        stalls.iter().filter(|(name, _)| *name != "overlap").map(|(_, part)| part.as_f64().unwrap()).sum();
    assert!((sum - 1.0).abs() < 1e-6, "{stalls:?}");
}

#[test]
fn a_share_of_an_unknown_footprint_is_bad_usage() {
    let Some(lab) = lab("lines-placement") else { return };
    let output = lab.unrack(&[&"lines", &"run", &"--placement", &"first-touch", &"--", &"/bin/true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("footprint"), "{}", stderr(&output));
}

#[test]
fn without_qemu_it_says_what_to_install() {
    let lab = Lab::new("lines-lacking");
    let output =
        lab.command(&[&"lines", &"run", &"--", &"/bin/true"]).env("UNRACK_QEMU", lab.path("none")).output();
    let output = output.unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    let mut without = Command::new(env!("CARGO_BIN_EXE_unrack"));
    let without = without.args(["compare", "--access", "lines", "--", "/bin/true"]).env("PATH", "/none");
    let without = without.output().unwrap();
    assert_eq!(without.status.code(), Some(3), "{}", stderr(&without));
    assert!(stderr(&without).contains("apt install qemu-user"), "{}", stderr(&without));
}

#[test]
fn an_unknown_unit_of_access_is_bad_usage() {
    let lab = Lab::new("lines-access");
    let output = lab.unrack(&[&"compare", &"--access", &"line", &"--", &"/bin/true"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("did you mean `lines`?"), "{}", stderr(&output));
}

#[test]
fn a_comparison_of_lines_has_both_roads_and_a_report() {
    let Some(lab) = lab("lines-compare") else { return };
    let (out, file) = (lab.path("out"), unsorted(&lab, 60_000));
    let settings =
        ["--fabric", "ideal,cxl", "--nodes", "4", "--transfers", "20000", "--placement", "all-far", "--json"];
    let command = ["--", "sort", "--parallel=1", "-o", "/dev/null", &file];
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> =
        vec![&"compare", &"--access", &"lines", &"--out", &out];
    arguments.extend(settings.iter().chain(&command).map(|word| word as &dyn AsRef<std::ffi::OsStr>));
    let output = lab.unrack(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&output.stdout).unwrap();
    let lines = &object["lines"];
    assert!(!lines["native"]["wall"]["seconds"].as_array().unwrap().is_empty());
    let fabrics = lines["fabrics"].as_array().unwrap();
    let values = |name: &str| fabrics.iter().map(|fabric| fabric[name]["value"].as_f64()).collect::<Vec<_>>();
    match slowdowns(&lines["curve"]) {
        Ok(_) => {
            let (curve, closed) = (values("slowdown"), values("slowdown_closed_loop"));
            let ratio = closed[0].unwrap() / curve[0].unwrap();
            assert!((0.95..1.05).contains(&ratio), "ideal has no queues: {closed:?} {curve:?}");
            assert!(curve[1] > curve[0] && closed[1] > closed[0], "{closed:?} {curve:?}");
        }
        // On a busy machine, or one whose core the model does not know.
        Err(why) => {
            assert_eq!(why, "native-time-missed");
            assert_eq!(values("slowdown_closed_loop"), [None, None]);
        }
    }
    let files = ["manifest.json", "summary.json", "heat.parquet", "report.html"];
    assert!(files.iter().all(|name| out.join(name).is_file()));
    let report = std::fs::read_to_string(out.join("report.html")).unwrap();
    assert!(report.contains("Misses to memory by address and time"), "the picture of heat");
}
