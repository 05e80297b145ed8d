//! `unrack swap`: predicted beside measured, and nothing is left behind.

use crate::common;

use common::{Lab, children, stderr, wait_until};
use rustix::process::{Pid, Signal};
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_testing::{TestRequirement, skip};

/// Program that writes every page of 24 MiB many times over.
const WORK: &str = "\
d = bytearray(b'some text that compresses ' * 40000)
for turn in range(8):
    for i in range(0, len(d), 4096): d[i] = turn
print(sum(d))
";

/// State of the machine that `swap` changes.
#[derive(Debug, PartialEq)]
struct Machine {
    /// Devices to swap to. How much of one is in use changes by itself.
    swaps: Vec<String>,
    page_cluster: String,
    zram: usize,
    groups: usize,
}

impl Machine {
    fn now() -> Machine {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let named = |folder: &str, name: &str| {
            let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
            entries.filter(|entry| entry.file_name().to_string_lossy().starts_with(name)).count()
        };
        let device = |line: &str| line.split_whitespace().next().unwrap_or_default().to_string();
        Machine {
            swaps: read("/proc/swaps").lines().map(device).collect(),
            page_cluster: read("/proc/sys/vm/page-cluster"),
            zram: named("/sys/block", "zram"),
            groups: named("/sys/fs/cgroup", "unrack-swap") + named("/sys/fs/cgroup/memory", "unrack-swap"),
        }
    }
}

/// One test, since only one `unrack swap` can run at a time.
#[test]
#[ignore = "half a minute of an idle machine: make soak"]
fn swap_is_measured_beside_a_prediction_and_all_is_put_back() {
    let Some(lab) = Lab::paging("swap") else { return };
    let before = Machine::now();
    let swap = |options: &[&str]| {
        let out = lab.path("out");
        let mut command = lab.command(&[&"swap", &"--repeat=1", &"--local=40%", &"--out", &out]);
        command.args(options).args(["--", "python3", "-c", WORK]).stdin(Stdio::null());
        command.env("UNRACK_PROC", lab.proc(0));
        command
    };
    let output = swap(&["--json"]).output().unwrap();
    if output.status.code() == Some(3) {
        return skip(TestRequirement::Zram, stderr(&output));
    }
    assert!(output.status.success(), "{}", stderr(&output));
    let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(Machine::now(), before);
    check(&answer);
    assert!(!lab.path("out/pages").exists(), "contents of memory are not kept");

    let output = swap(&["--device", lab.path("").to_str().unwrap()]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(0) => assert!(text.contains("measured under swap") && text.contains("on a file in"), "{text}"),
        // Not every file system takes swap files.
        status => assert_eq!(status, Some(3), "{}", stderr(&output)),
    }
    assert_eq!(Machine::now(), before);

    // Another one, and the end by a signal that nobody can catch.
    let mut first = swap(&["--replace"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    wait_until("a device to swap to", || Machine::now().swaps != before.swaps);
    let second = lab.command(&[&"swap", &"--out", &lab.path("second"), &"--", &"true"]).output().unwrap();
    assert_eq!(second.status.code(), Some(3), "{}", stderr(&second));
    assert!(stderr(&second).contains("another `unrack swap` runs"), "{}", stderr(&second));
    let guard = children(first.id());
    let workers = guard.iter().flat_map(|pid| children(*pid)).filter(|pid| is_unrack(*pid));
    for pid in workers.chain(guard.clone()) {
        rustix::process::kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL).unwrap();
    }
    first.wait().unwrap();
    wait_until("the machine to be as before", || Machine::now() == before);
}

fn is_unrack(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|name| name.trim() == "unrack")
}

fn check(answer: &serde_json::Value) {
    let number = |path: &str| answer.pointer(path).and_then(serde_json::Value::as_f64);
    let least = |path: &str, least: f64| {
        assert!(number(path).is_some_and(|value| value >= least), "{path} of {answer:#}");
    };
    least("/swapped/pages_in", 100.0);
    least("/swapped/pages_out", 100.0);
    least("/cost/alone/fault_ns", 500.0);
    // Text compresses, and the pages that were touched were of the same contents.
    least("/swapped/compression", 2.0);
    let (of_program, of_touches) =
        (number("/swapped/compression").unwrap(), number("/cost/compression").unwrap());
    assert!((0.3..3.0).contains(&(of_touches / of_program)), "{answer:#}");
    // The kernel limits all of the group's memory. What is not anonymous gets room beside `local`, which the program has until it
    // is noticed that less is needed.
    let (peak, local) = (number("/swapped/peak_local_bytes").unwrap(), number("/local_bytes").unwrap());
    let other = number("/swapped/peak_other_bytes").unwrap();
    assert!(peak < local * 1.25 + 1e6 + other, "{answer:#}");
    // Other tests run beside this one: perhaps too few runs are undisturbed.
    match answer["error"].as_f64() {
        Some(error) => assert!(error > -1.0 && number("/predicted/run_s").is_some(), "{answer:#}"),
        None => assert!(answer["withheld"]["text"].is_string(), "{answer:#}"),
    }
}

#[test]
fn what_cannot_be_is_refused() {
    let lab = Lab::new("swap-refused");
    let refused = |arguments: &[&str], status: i32, word: &str| {
        let mut command = lab.command(&[&"swap"]);
        let output = command.args(arguments).args(["--", "true"]).output().unwrap();
        assert_eq!(output.status.code(), Some(status), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(word), "{arguments:?}: {}", stderr(&output));
    };
    let missing = lab.path("missing");
    refused(&["--device", missing.to_str().unwrap()], 2, "neither zram nor a folder");
    refused(&["--local", "much"], 2, "--local");
    if rustix::process::geteuid().is_root() && Path::new("/usr/bin/setpriv").exists() {
        let binary = env!("CARGO_BIN_EXE_unrack");
        let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups", binary, "swap", "--", "true"];
        let output = Command::new("setpriv").args(nobody).current_dir("/tmp").output().unwrap();
        assert!(matches!(output.status.code(), Some(1 | 3)), "{}", stderr(&output));
    }
}
