//! Command line of `unrack-kv`, as people and scripts see it.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};
use unrack_kv::Client;
use unrack_pool::{Manager, manager};
use unrack_rpc::client;
use unrack_testing::{ClosedPort, TestFolder};

const PATIENCE: Duration = Duration::from_secs(60);

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command
        .args(["--foreground", "60", env!("CARGO_BIN_EXE_unrack-kv")])
        .args(arguments)
        .env("TMPDIR", folder);
    command
}

fn kv(folder: &Path, arguments: &[&str]) -> Output {
    command(folder, arguments).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const QUICK: [&str; 7] = ["ycsb", "--records", "50", "--time", "20ms", "--waiting", "sleep"];

#[test]
fn ycsb_prints_a_table_of_each_workload_and_leaves_nothing() {
    let folder = TestFolder::new("table");
    let output = kv(&folder, &QUICK);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    let titles: Vec<&str> = said.lines().filter(|line| line.starts_with("workload ")).collect();
    assert_eq!(titles.len(), 4, "{said}");
    for (title, name) in titles.iter().zip(["A", "B", "C", "F"]) {
        assert!(
            title.starts_with(&format!("workload {name}: ")) && title.ends_with(" operations/s"),
            "{title}"
        );
    }
    assert!(said.contains("p99.9 ns") && said.contains("ReadModifyWrite"), "{said}");
    assert!(folder.is_empty(), "the store clears away what it made");
}

#[test]
fn json_says_what_was_run_and_counts_what_was_done() {
    let folder = TestFolder::new("json");
    let output = kv(&folder, &[&QUICK[..], &["--json", "--workload", "c,a", "--value", "100B"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&json["records"], &json["value"]), (&50.into(), &"100B".into()));
    let outcomes = json["outcomes"].as_array().unwrap();
    let names: Vec<_> = outcomes.iter().map(|outcome| outcome["workload"].as_str().unwrap()).collect();
    assert_eq!(names, ["c", "a"]);
    for outcome in outcomes {
        let times = outcome["times"].as_array().unwrap();
        assert!(outcome["operations_per_s"].as_f64().unwrap() > 0.0);
        for time in times {
            let of = |key: &str| time[key].as_u64().unwrap();
            assert!(
                of("count") > 0 && of("p50_ns") <= of("p99_ns") && of("p99_ns") <= of("max_ns"),
                "{time}"
            );
        }
        let kinds: Vec<_> = times.iter().map(|time| time["operation"].as_str().unwrap()).collect();
        let expected: &[&str] = if outcome["workload"] == "c" { &["read"] } else { &["read", "update"] };
        assert_eq!(kinds, expected);
    }
}

/// Process that ends with its owner.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_store_serves_until_its_pool_is_gone() {
    let folder = TestFolder::new("serve");
    let pool = folder.join("pool");
    let socket = pool.to_str().unwrap();
    let start = || Manager::start(&manager::Options::new(&pool, "64MiB".parse().unwrap())).unwrap();
    let manager = start();
    let serve = ["serve", "--socket", socket, "--name", "mine", "--listen", "tcp://127.0.0.1:0"];
    let mut server = Command::new(env!("CARGO_BIN_EXE_unrack-kv"));
    let mut server = Running(server.args(serve).stderr(Stdio::piped()).spawn().unwrap());
    let begun = Instant::now();
    let client = loop {
        match Client::connect(&pool, "mine", client::Options::default()) {
            Ok(client) => break client,
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    let output =
        kv(&folder, &[&QUICK[..], &["--socket", socket, "--name", "mine", "--workload", "c"]].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    client.put(b"key", b"value").unwrap();
    assert_eq!(client.get(b"key").unwrap().unwrap().body().to_vec(), b"value");
    let again = kv(&folder, &serve);
    assert_eq!(again.status.code(), Some(1));
    assert!(text(&again.stderr).contains("\"mine\" is taken"), "{}", text(&again.stderr));
    // A restarted manager finds its pool, and the store goes on. A new pool is not the store's.
    drop(manager);
    let manager = start();
    assert_eq!(client.get(b"key").unwrap().unwrap().body().to_vec(), b"value");
    drop((client, manager));
    std::fs::remove_file(pool.with_extension("ledger")).unwrap();
    let _other = start();
    let begun = Instant::now();
    let status = loop {
        match server.0.try_wait().unwrap() {
            Some(status) => break status,
            None => assert!(begun.elapsed() < PATIENCE, "it still serves"),
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    assert_eq!(status.code(), Some(1));
    let mut said = String::new();
    std::io::Read::read_to_string(&mut server.0.stderr.take().unwrap(), &mut said).unwrap();
    assert_eq!(said, "unrack-kv: the manager of the pool is gone\n");
}

#[test]
fn bad_input_is_one_clear_error() {
    let folder = TestFolder::new("bad");
    let closed = ClosedPort::new();
    let far = format!("tcp://{}", closed.address());
    let cannot = format!("cannot connect to kv at {far}");
    let nowhere = folder.join("nowhere").display().to_string();
    let (nobody, first) = (
        format!("no manager serves the pool at {nowhere}"),
        format!("start one with `unrack pool serve --socket {nowhere}`"),
    );
    let cases: [(&[&str], i32, &str); 14] = [
        (&[], 2, "Usage: unrack-kv <COMMAND>"),
        (&["load"], 2, "unrecognized subcommand 'load'"),
        (&["ycsb", "--workload", "z"], 2, "possible values: a, b, c, f"),
        (&["ycsb", "--records", "0"], 2, "0 is not in 1.."),
        (&["ycsb", "--clients", "257"], 2, "257 is not in 1..=256"),
        (&["ycsb", "--value", "3"], 2, "`3` has no unit"),
        (&["ycsb", "--waiting", "spn"], 2, "did you mean `spin`?"),
        (&["ycsb", "--time", "0s"], 1, "--time 0s leaves nothing to measure"),
        (&["ycsb", "--records", "18446744073709551615"], 1, "are more than a pool can hold"),
        (&["ycsb", "--value", "3GiB", "--records", "1"], 1, "longer than the limit"),
        (&["ycsb", "--socket", &nowhere], 1, &nobody),
        (&["ycsb", "--socket", &far], 1, &cannot),
        (&["serve", "--socket", &nowhere], 1, &first),
        (&["serve", "--waiting", "never"], 2, "use `spin`, `adaptive` or `sleep`"),
    ];
    for (arguments, code, what) in cases {
        let output = kv(&folder, arguments);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
        assert!(said.contains(what), "{arguments:?}: {said}");
        assert!(output.stdout.is_empty() && !said.contains("panicked"), "{arguments:?}: {said}");
        assert!(code == 2 || said.lines().count() == 1, "{arguments:?}: {said}");
    }
    assert!(folder.is_empty());
}

#[test]
fn beyond_loopback_there_are_keys_or_somebody_says_insecure() {
    let (folder, closed) = (TestFolder::new("keys"), ClosedPort::new());
    let run = |arguments: &[&str]| {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_unrack-kv"));
        command.args(arguments).env("UNRACK_KEYS", folder.join("none"));
        String::from_utf8(command.output().unwrap().stderr).unwrap()
    };
    let ycsb = ["ycsb", "--records", "10", "--time", "1ms", "--socket"];
    // No server listens there, so the connection is refused. Without `--insecure`, missing keys may be reported
    // first.
    let plain = format!("tcp+insecure://{}", closed.address());
    let said = run(&[&ycsb[..], &[&plain, "--insecure"]].concat());
    assert!(said.contains("refused"), "{said}");
    let said = run(&[&ycsb[..], &[&format!("tls://{}", closed.address())]].concat());
    assert!(said.contains("refused") || said.contains("unrack keys make"), "{said}");
}
