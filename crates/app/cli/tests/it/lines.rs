//! `unrack lines` and `unrack compare --access`: counts of a run, refusals, and keys of the JSON.

use crate::common;

use common::{Lab, stderr};
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Output};
use unrack_testing::TestRequirement;

/// Lab for instrumented runs; `None`, with a message, without QEMU.
fn lab(name: &str) -> Option<Lab> {
    if Command::new("qemu-x86_64").arg("-version").output().is_err() {
        unrack_testing::skip(TestRequirement::Qemu, "qemu-x86_64 is not in PATH");
        return None;
    }
    let plugin = Path::new(env!("CARGO_BIN_EXE_unrack")).with_file_name("libunrack_lines.so");
    let built = "test with `cargo test --workspace`, or first `cargo build -p unrack-lines-plugin` with the same profile";
    assert!(plugin.is_file(), "{} is missing: {built}", plugin.display());
    let lab = Lab::new(name);
    let kept = lab.path(KEPT);
    std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
    std::fs::write(kept, calibration()).unwrap();
    Some(lab)
}

/// File that a lab keeps what was measured of this machine in.
const KEPT: &str = "cache/unrack/lines-calibration.json";

/// Returns what was measured of this machine, once for all tests: each measurement takes a quarter of a minute.
fn calibration() -> &'static [u8] {
    static MEASURED: std::sync::OnceLock<Vec<u8>> = std::sync::OnceLock::new();
    MEASURED.get_or_init(|| {
        let lab = Lab::new("lines-calibration");
        // As on a quiet machine: what is measured beside other work is measured again.
        let output = lab.command(&[&"lines", &"calibrate"]).env("UNRACK_PROC", lab.proc(0)).output().unwrap();
        assert!(output.status.success(), "{}", stderr(&output));
        std::fs::read(lab.path(KEPT)).unwrap()
    })
}

/// Records a command once: what the model says of it is not compared with a native run, whose time depends on this machine.
fn recorded(lab: &Lab, command: &[&str]) -> (Output, Value) {
    let json = lab.path("run.json");
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> =
        vec![&"lines", &"run", &"--once", &"--json", &json, &"--"];
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
                    placement placements predicted_near_s predicted_processor_s processor seen stalls threads warnings";
    assert_eq!(keys(&object["lines"]), expected);
    assert_eq!(object["access"], "lines");
    assert_eq!(object["lines"]["predicted_near_s"]["withheld"]["key"], "few-windows");
    assert_eq!(object["lines"]["curve"].as_array().unwrap().len(), 0);
    assert!(String::from_utf8_lossy(&output.stdout).contains("windows were recorded"));
}

#[test]
fn far_memory_slows_a_program_down_by_latency_and_share() {
    let Some(lab) = lab("lines-curve") else { return };
    let file = unsorted(&lab, 15_000);
    let (_, object) = recorded(&lab, &["sort", "--parallel=1", "-o", "/dev/null", &file]);
    let lines = &object["lines"];
    let asked = slowdowns(&lines["curve"]).unwrap();
    assert!(asked.len() >= 5 && asked[0] > 1.0 && asked.is_sorted(), "{asked:?}");
    let [far, most_near] = ["all remote", "75 % local, interleaved"].map(|name| {
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

/// Returns the slowdowns at the largest latency, by placement.
fn worst(lines: &Value) -> std::collections::BTreeMap<String, f64> {
    let others = lines["placements"].as_array().unwrap().iter();
    others
        .map(|other| {
            (
                other["placement"].as_str().unwrap().into(),
                *slowdowns(&other["curve"]).unwrap().last().unwrap(),
            )
        })
        .collect()
}

#[test]
#[ignore = "long: make soak runs it"]
fn a_map_has_every_rule_at_every_share() {
    let Some(lab) = lab("lines-map") else { return };
    let (json, file) = (lab.path("map.json"), unsorted(&lab, 16_000));
    let words = ["--", "sort", "--parallel=1", "-o", "/dev/null", &file];
    let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"lines", &"map", &"--json", &json];
    arguments.extend(words.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
    let output = lab.unrack(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let object: Value = serde_json::from_slice(&std::fs::read(&json).unwrap()).unwrap();
    let lines = &object["lines"];
    assert!(
        !lines["native"]["wall"]["seconds"].as_array().unwrap().is_empty(),
        "a map is checked by a native run"
    );
    let all_far = match slowdowns(&lines["curve"]) {
        Ok(slowdowns) => *slowdowns.last().unwrap(),
        // On a busy machine, or one whose core the model does not know.
        Err(why) => return assert_eq!(why, "native-time-missed"),
    };
    let worst = worst(lines);
    assert_eq!(worst.len(), 15, "{worst:?}");
    // Windows are a sample of the misses: what a few pages do may by chance be out of order. Where pages move by use, more near
    // memory may be used less well.
    let margin = (all_far - 1.0) * 0.15;
    assert!(worst.values().all(|slowdown| (1.0..all_far + margin).contains(slowdown)), "{all_far} {worst:?}");
    for rule in ["interleaved", "first touch", "DRAM cache", "hottest"] {
        let shares = [25, 50, 75].map(|share| worst[&format!("{share} % local, {rule}")]);
        assert!(
            shares.is_sorted_by(|less, more| less + margin >= *more),
            "{rule}: more local memory, less delay: {shares:?}"
        );
    }
    assert!(
        worst["25 % local, hottest"] <= worst["25 % local, interleaved"] + margin,
        "the oracle knows better: {worst:?}"
    );
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("75 % local, DRAM cache"), "{said}");
}

#[test]
#[ignore = "long: make soak runs it"]
fn memory_of_a_name_is_far() {
    let Some(lab) = lab("lines-far") else { return };
    let file = unsorted(&lab, 15_000);
    let run = |placement: &str| {
        let json = lab.path("far.json");
        let words =
            ["--once", "--placement", placement, "--", "sort", "--parallel=1", "-o", "/dev/null", &file];
        let mut arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![&"lines", &"run", &"--json", &json];
        arguments.extend(words.iter().map(|word| word as &dyn AsRef<std::ffi::OsStr>));
        let output = lab.unrack(&arguments);
        let object = || serde_json::from_slice::<Value>(&std::fs::read(&json).unwrap()).unwrap();
        output.status.success().then(object).ok_or_else(|| stderr(&output))
    };
    let last = |object: &Value| *slowdowns(&object["lines"]["curve"]).unwrap().last().unwrap();
    let all = run("all-remote").unwrap();
    let mappings = all["lines"]["mappings"].as_array().unwrap();
    let named = mappings[0]["name"].as_str().unwrap();
    let one = run(&format!("remote:{named}")).unwrap();
    assert!(1.0 < last(&one) && last(&one) < last(&all), "{named}: {} of {}", last(&one), last(&all));
    let arguments = [
        &"lines" as &dyn AsRef<std::ffi::OsStr>,
        &"run",
        &"--placement",
        &"remote:nothing",
        &"--",
        &"expr",
        &"1",
    ];
    let unknown = stderr(&lab.unrack(&arguments));
    assert!(unknown.contains("names are:") && unknown.contains("libc.so.6"), "{unknown}");
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
fn racks_that_pool_nics_have_whole_racks_on_both_sides() {
    let lab = Lab::new("lines-rack");
    for access in ["pages", "lines", "cxl"] {
        let arguments =
            [&"compare" as &dyn AsRef<std::ffi::OsStr>, &"--access", &access, &"--rack", &"drack"];
        let output = lab.unrack(&[&arguments[..], &[&"--nodes", &"12", &"--", &"/bin/true"]].concat());
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stderr(&output).contains("multiple of 8, not 12"), "{}", stderr(&output));
    }
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
    let (out, file) = (lab.path("out"), unsorted(&lab, 15_000));
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
    assert!(report.contains(": misses to memory by address and time"), "the picture of heat");
}

/// A budget ends the instrumented run, and the answer says of how much of the program it is.
#[test]
fn a_budget_ends_a_run_and_all_its_processes() {
    let Some(lab) = lab("lines-budget") else { return };
    let script = lab.path("count.py");
    std::fs::write(&script, "n = 0\nfor i in range(5_000_000): n += i").unwrap();
    let both = format!("(python3 {0} & python3 {0}; wait)", script.display());
    let run = lab.path("run");
    let arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = vec![
        &"compare",
        &"--access",
        &"lines",
        &"--budget",
        &"8s",
        &"--repeat",
        &"1",
        &"--fabric",
        &"ideal",
        &"--out",
        &run,
        &"--",
        &"sh",
        &"-c",
        &both,
    ];
    let output = lab.unrack(&arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    let summary: Value = serde_json::from_slice(&std::fs::read(run.join("summary.json")).unwrap()).unwrap();
    let lines = &summary["lines"];
    let warnings = lines["warnings"].as_array().unwrap();
    let said = warnings.iter().find(|warning| warning["key"] == "budget").expect("a warning");
    let text = said["text"].as_str().unwrap();
    assert!(text.contains("the budget ended the recorded run after") && text.contains("--budget"), "{text}");
    // An answer about a part of a program is not one about the program.
    assert!(lines["seen"].as_f64().unwrap() < 1.0, "{lines}");
    assert!(
        lines["curve"].as_array().unwrap().is_empty() && lines["threads"].as_array().unwrap().is_empty(),
        "{lines}"
    );
    for number in [
        &lines["predicted_near_s"],
        &lines["fabrics"][0]["slowdown"],
        &lines["fabrics"][0]["slowdown_closed_loop"],
    ] {
        assert_eq!(number["withheld"]["key"], "budget", "{number}");
    }
    assert!(
        lines["fabrics"][0]["unloaded_ns"].as_f64().is_some(),
        "what does not depend on it is stated: {lines}"
    );
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(told.contains("of the first ") && told.contains("withheld"), "{told}");
    let report = std::fs::read_to_string(run.join("report.html")).unwrap();
    assert!(
        report.contains("of the first ") && report.contains("the budget ended the recorded run"),
        "in the page, too"
    );
    let script = script.to_str().unwrap();
    let remains = std::fs::read_dir("/proc").unwrap().flatten().filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        line.split(|byte| *byte == 0).any(|word| word == script.as_bytes())
    });
    assert_eq!(remains.count(), 0);
}

/// Program with a thread that only computes, and one that waits for memory and executes few instructions.
const HIDDEN: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
enum { LINES = 1 << 21 };
static size_t *lines;
static void *chase(void *x) {
    size_t at = 0;
    for (long i = 0; i < 400000; i++) at = lines[at];
    return (void *)at;
}
static void *add(void *x) {
    unsigned long sum = 0;
    for (unsigned long i = 0; i < 12000000; i++) { sum += i * i; __asm__("" : "+r"(sum)); }
    return (void *)sum;
}
int main(void) {
    pthread_t waits, computes;
    void *result;
    lines = malloc(LINES * 64UL);
    for (size_t i = 0; i < LINES; i++) lines[i * 8] = (i * 1000003UL + 7) % LINES * 8;
    pthread_create(&waits, 0, chase, 0);
    pthread_create(&computes, 0, add, 0);
    pthread_join(waits, &result);
    printf("%zu\n", (size_t)result);
    pthread_join(computes, &result);
    return 0;
}"#;

#[test]
#[ignore = "long: make soak runs it"]
fn a_thread_that_waits_is_not_hidden_by_one_that_computes() {
    let Some(lab) = lab("lines-hidden") else { return };
    let program = lab.path("hidden");
    common::compile(HIDDEN, &program, &["-O2", "-pthread"]);
    let (output, object) = recorded(&lab, &[program.to_str().unwrap()]);
    let lines = &object["lines"];
    let threads = lines["threads"].as_array().unwrap();
    let waits = threads.iter().max_by_key(|thread| {
        thread["misses"].as_u64().unwrap() * 1000 / thread["instructions"].as_u64().unwrap()
    });
    let waits = waits.unwrap();
    assert!(waits["windows"].as_u64().unwrap() >= 8, "{waits}");
    if waits["misses"].as_u64().unwrap() < 200_000 {
        // The last level of this machine holds most of the 128 MiB.
        return;
    }
    let last = |curve: &Value| *slowdowns(curve).unwrap().last().unwrap();
    // Each of its loads waits for memory: 0.1 us near and 2.1 us far, three quarters of the pages being far.
    assert!(last(&waits["curve"]) > 3.0, "{waits}");
    assert!(last(&lines["curve"]) > 1.5, "400,000 loads of 2 us: {lines}");
    assert_eq!(
        lines["warnings"].as_array().unwrap().iter().filter(|warning| warning["key"] == "unchecked").count(),
        1
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("all local"), "the table of threads");
}

/// Returns the number of processes that sleep for so long, natively or under QEMU.
fn sleepers(marked: &common::Marked) -> usize {
    let line = |pid: &str| std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    let sleeps = |process: &&String| {
        let line = line(process.split(' ').next().unwrap_or_default());
        line.split(|byte| *byte == 0).any(|word| word == b"300")
    };
    marked.left().iter().filter(sleeps).count()
}

/// Starts two processes, of which one has a session of its own and no parent.
const LASTING: &str = "(setsid sh -c 'sleep 300' &); sleep 300";

#[test]
#[ignore = "long: make soak runs it"]
fn all_ends_with_the_command_however_it_is_ended() {
    let Some(lab) = lab("lines-ended") else { return };
    let verbs: [&[&str]; 3] = [
        &["lines", "run", "--once"],
        &["lines", "run"],
        &["compare", "--access", "lines", "--replace", "--out", "out"],
    ];
    for (verb, signal) in verbs.iter().flat_map(|verb| ["TERM", "INT", "KILL"].map(|signal| (verb, signal))) {
        let marked = common::Marked::new(&lab);
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(*verb).args(["--", "sh", "-c", LASTING]);
        command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
        let null = std::process::Stdio::null;
        marked.mark(&mut command).stdin(null()).stdout(null()).stderr(null());
        let mut process = command.spawn().unwrap();
        common::wait_until("both sleep", || sleepers(&marked) == 2);
        let sent = Command::new("kill").args([&format!("-{signal}"), &process.id().to_string()]).status();
        assert!(sent.unwrap().success());
        process.wait().unwrap();
        common::wait_until(&format!("all has ended after {signal} to {verb:?}"), || marked.left().is_empty());
        let left = std::fs::read_dir(lab.path("tmp")).unwrap().flatten().map(|entry| entry.file_name());
        let left: Vec<_> = left.collect();
        assert!(left.is_empty(), "{signal} to {verb:?} left {left:?}");
    }
}
