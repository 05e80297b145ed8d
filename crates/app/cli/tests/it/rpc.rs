//! `unrack rpc bench`: its visible behaviour.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use unrack_testing::{TestFolder, TestRequirement, skip};

fn bench(folder: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
    command.args(["rpc", "bench"]).args(more).env("TMPDIR", folder);
    command
}

const FEW: [&str; 12] = [
    "--sizes",
    "64B,4KiB",
    "--windows",
    "0,16",
    "--connections",
    "1,3",
    "--rates",
    "0,500",
    "--time",
    "5ms",
    "--rounds",
    "1",
];

fn has_two_cores() -> bool {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    if cores < 2 {
        skip(TestRequirement::Cores, "client and server have a core each");
    }
    cores >= 2
}

#[test]
fn measures_what_was_asked_for() {
    if !has_two_cores() {
        return;
    }
    let folder = TestFolder::new("json");
    let output = bench(&folder, &FEW).args(["--json", "--memory", "model"]).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["memory"], &json["waiting"]), (&"model".into(), &"spin".into()));
    let calls = json["calls"].as_array().unwrap();
    // Sizes by windows, sizes that are not touched, windows by queues of their own or shared.
    assert_eq!(calls.len(), 4 + 2 + 4);
    for row in calls {
        let [p50, p99, p999] = ["p50_ns", "p99_ns", "p999_ns"].map(|name| row[name].as_u64().unwrap());
        assert!(0 < p50 && p50 <= p99 && p99 <= p999, "{row}");
        assert!(row["calls_per_s"].as_f64().unwrap() > 0.0 && row["calls"].as_u64() > Some(0), "{row}");
    }
    assert_eq!(calls.iter().filter(|row| row["connections"] == 3 && row["shared"] == false).count(), 2);
    let used = json["processor"].as_array().unwrap();
    assert_eq!(used.len(), 2);
    assert_eq!((&used[0]["calls"], &used[1]["calls"]), (&0.into(), &25.into()));
    assert!(folder.is_empty(), "the pool is gone with the server");
}

#[test]
fn prints_tables() {
    if !has_two_cores() {
        return;
    }
    let folder = TestFolder::new("tables");
    let output = bench(&folder, &FEW).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["coherent memory, waiting: spin", "p99.9 ns", "not touched", "shared", "server's processor"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(folder.is_empty());
}

/// The server notices that its parent is gone, and cleans up.
#[test]
fn killed_it_leaves_nothing() {
    if !has_two_cores() {
        return;
    }
    let folder = TestFolder::new("killed");
    let mut command = bench(&folder, &["--time", "10s"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let patience = Duration::from_secs(60);
    while folder.is_empty() {
        assert!(start.elapsed() < patience, "it starts a pool");
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    while !folder.is_empty() {
        assert!(start.elapsed() < patience, "the server ends");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Both at once: what they leave is removed by the next verb, whichever it is.
#[test]
fn what_is_left_when_its_server_is_killed_too_is_swept() {
    if !has_two_cores() {
        return;
    }
    let folder = TestFolder::new("swept");
    let mut command = bench(&folder, &["--time", "10s"]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let start = Instant::now();
    let parents = || {
        let status = |pid: u32| std::fs::read_to_string(format!("/proc/{pid}/stat")).ok();
        let of = move |pid: u32| status(pid)?.rsplit_once(") ")?.1.split(' ').nth(1)?.parse::<u32>().ok();
        let pids = std::fs::read_dir("/proc").unwrap().flatten();
        pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .filter_map(move |pid| Some((pid, of(pid)?)))
    };
    let server = loop {
        assert!(start.elapsed() < Duration::from_secs(60), "it starts a server with a pool");
        let found = parents().find(|(_, parent)| *parent == child.id());
        if let Some((server, _)) = found.filter(|_| !folder.is_empty()) {
            break server;
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    // The parent would report that its server was killed, so it is stopped before. The server is not: if its parent ended, the
    // kernel would let it go on (SIGHUP and SIGCONT to an orphaned process group), and it would clean up.
    let kill = |signal: &str, pid: u32| {
        Command::new("kill").args([signal, &pid.to_string()]).status().unwrap();
    };
    kill("-STOP", child.id());
    // A stop takes effect when each of its threads is interrupted.
    while !is_stopped(child.id()) {
        assert!(start.elapsed() < Duration::from_secs(60), "the parent stops");
        std::thread::sleep(Duration::from_millis(1));
    }
    kill("-KILL", server);
    kill("-KILL", child.id());
    child.wait().unwrap();
    assert!(!folder.is_empty(), "neither could clean up");
    while !folder.is_empty() {
        assert!(start.elapsed() < Duration::from_secs(60), "the next verb cleans up");
        let mut next = Command::new(env!("CARGO_BIN_EXE_unrack"));
        next.args(["completions", "bash"]).env("TMPDIR", &folder).stdout(Stdio::null());
        assert!(next.status().unwrap().success());
    }
}

/// Returns whether all threads of a process are stopped (`T` in proc(5), `/proc/pid/stat`).
fn is_stopped(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let stat =
        |thread: std::fs::DirEntry| std::fs::read_to_string(thread.path().join("stat")).unwrap_or_default();
    threads.map(stat).all(|stat| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T')))
}

#[test]
fn says_what_is_wrong() {
    let folder = TestFolder::new("wrong");
    let wrong = [
        (["--sizes", "4B"], "--sizes 4B: give 8B to"),
        (["--windows", "300"], "300 is not in 0..=255"),
        (["--rates", "often"], "give calls a second, up to 1000000, or `none`"),
        (["--memory", "fast"], "fast"),
        (["--capacity", "3MiB"], "whole number of 2 MiB sections"),
    ];
    for (more, text) in wrong {
        let output = bench(&folder, &more).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(2) && said.contains(text), "{more:?}: {said}");
    }
    assert!(folder.is_empty());
}
