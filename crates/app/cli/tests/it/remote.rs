//! `unrack run --remote`: programs whose pages are at a memory node, over real connections.

use crate::common;

use common::{LONGEST_S, Lab, stderr};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use unrack_testing::ClosedPort;

/// A running `unrack memory serve`, ended with the test.
pub(crate) struct Node {
    pub process: Child,
    _stdout: BufReader<ChildStdout>,
    pub at: String,
}

impl Node {
    pub(crate) fn serve(arguments: &[&str]) -> Node {
        let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
        command.args(["memory", "serve", "--json"]).args(arguments).stdout(Stdio::piped());
        let mut process = command.stderr(Stdio::null()).spawn().unwrap();
        let mut stdout = BufReader::new(process.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let status: serde_json::Value = serde_json::from_str(&line).expect(&line);
        Node { process, _stdout: stdout, at: status["listen"].as_str().unwrap().to_string() }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Program that fills 12 MiB, forks, changes a half of it on each side, and prints sums of all of it.
const PROGRAM: &str = r#"
import hashlib, os, sys
sys.stdout.reconfigure(line_buffering=True)
pages = 3072
data = bytearray(pages * 4096)
for page in range(pages):
    data[page * 4096:page * 4096 + 8] = page.to_bytes(8, 'little')
for turn in range(3):
    for page in range(0, pages, 2):
        data[page * 4096 + 9 + turn] = (page * 7 + turn) % 256
    print(hashlib.sha256(data).hexdigest())
child = os.fork()
for page in range(1, pages, 2):
    data[page * 4096 + 100] = 1 if child else 2
if child:
    os.waitpid(child, 0)
print(hashlib.sha256(data).hexdigest())
"#;

fn check(lab: &Lab, node: &Node) {
    let native = Command::new("python3").args(["-c", PROGRAM]).output().unwrap();
    assert!(native.status.success());
    let options = ["--local", "6MiB", "--remote", node.at.as_str()];
    let (output, summary) = lab.run(&options, &["python3", "-c", PROGRAM]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
    assert_eq!(summary["remote"], node.at.as_str());
    let count = |key: &str| summary[key].as_u64().unwrap();
    assert!(count("fetches") > 3000 && count("write_backs") > 2000, "{summary}");
}

#[test]
fn pages_survive_a_node_over_tcp() {
    let Some(lab) = Lab::paging("tcp") else { return };
    check(&lab, &Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "128MiB"]));
}

#[test]
fn pages_survive_a_node_in_shared_memory() {
    let Some(lab) = Lab::paging("shm") else { return };
    let socket = lab.path("node.sock");
    check(&lab, &Node::serve(&["--shm", socket.to_str().unwrap(), "--capacity", "128MiB"]));
}

/// Program that runs for ever, and prints a line for each turn through its memory.
pub(crate) const ENDLESS: &str = r#"
data = bytearray(16 << 20)
turn = 0
while True:
    for at in range(0, len(data), 4096):
        if data[at] != turn % 256:
            print('wrong data', flush=True)
        data[at] = (turn + 1) % 256
    turn += 1
    print('turn', turn, flush=True)
"#;

/// Starts the endless program, waits for two turns, calls `disturb` and returns the output of the run.
fn disturbed(lab: &Lab, node: &str, disturb: impl FnOnce()) -> Output {
    let arguments = ["run", "--local", "6MiB", "--remote", node, "--", "python3", "-c", ENDLESS];
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-k", "5", LONGEST_S, env!("CARGO_BIN_EXE_unrack")]).args(arguments);
    command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
    let mut running = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut stdout = BufReader::new(running.stdout.take().unwrap());
    for _ in 0..2 {
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert!(line.starts_with("turn"), "{line}");
    }
    disturb();
    let mut rest = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    assert!(!rest.contains("wrong"), "{rest}");
    running.wait_with_output().unwrap()
}

#[test]
fn a_program_ends_with_a_clear_error_when_its_node_dies() {
    let Some(lab) = Lab::paging("death") else { return };
    let mut node = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "64MiB"]);
    let at = node.at.clone();
    let output = disturbed(&lab, &at, || node.process.kill().unwrap());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("the memory node at {at}")), "{said}");
}

#[test]
fn a_node_without_room_ends_the_program_and_says_so() {
    let Some(lab) = Lab::paging("full") else { return };
    let node = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "4MiB"]);
    let options: [&dyn AsRef<std::ffi::OsStr>; 8] =
        [&"run", &"--local", &"6MiB", &"--remote", &node.at, &"--", &"python3", &"-c"];
    let output = lab.unrack(&[&options[..], &[&ENDLESS as &dyn AsRef<std::ffi::OsStr>]].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("full") && said.contains("--capacity"), "{said}");
}

#[test]
fn a_node_that_is_not_there_is_found_out_before_the_start() {
    let Some(lab) = Lab::paging("absent") else { return };
    let nobody = ClosedPort::new();
    let address = nobody.address().to_string();
    let output = lab.unrack(&[&"run", &"--local", &"6MiB", &"--remote", &address, &"--", &"true"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&address) && said.contains("unrack memory serve"), "{said}");
    let output = lab.unrack(&[&"run", &"--remote", &"somewhere", &"--", &"true"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}

/// Makes key folders of a server and a client that trust each other.
pub(crate) fn acquainted(lab: &Lab) -> [String; 2] {
    let folders = ["server", "client"].map(|name| lab.path(name).display().to_string());
    let made = folders.each_ref().map(|folder| stdout_of(lab, &[&"keys", &"make", folder]));
    for (folder, other) in [(&folders[0], &made[1]), (&folders[1], &made[0])] {
        stdout_of(lab, &[&"keys", &"trust", &other.trim(), &"--name", &"other", &"--keys", folder]);
    }
    folders
}

fn stdout_of(lab: &Lab, arguments: &[&dyn AsRef<std::ffi::OsStr>]) -> String {
    let output = lab.unrack(arguments);
    assert!(output.status.success(), "{}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn pages_survive_an_encrypted_connection() {
    let lab = Lab::new("tls");
    let [server, client] = acquainted(&lab);
    let node = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "128MiB", "--keys", &server]);
    let native = Command::new("python3").args(["-c", PROGRAM]).output().unwrap();
    let options = ["--local", "6MiB", "--remote", node.at.as_str(), "--keys", &client];
    let (output, summary) = lab.run(&options, &["python3", "-c", PROGRAM]);
    assert_eq!(String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&native.stdout));
    assert_eq!(summary["remote"], node.at.as_str());
    assert!(summary["fetches"].as_u64().unwrap() > 3000, "{summary}");
}

#[test]
fn who_has_no_trusted_key_is_told_before_the_start() {
    let lab = Lab::new("tls-refused");
    let [server, client] = acquainted(&lab);
    let node = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "64MiB", "--keys", &server]);
    let refused = |keys: &[&str]| {
        let arguments = [&["run", "--local", "6MiB", "--remote", &node.at], keys, &["--", "true"]].concat();
        let arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = arguments.iter().map(|word| word as _).collect();
        let output = lab.unrack(&arguments);
        assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
        stderr(&output)
    };
    assert!(refused(&["--insecure"]).contains("known keys only"));
    let stranger = lab.path("stranger").display().to_string();
    let theirs = stdout_of(&lab, &[&"keys", &"make", &stranger]);
    assert!(refused(&["--keys", &stranger]).contains("is not trusted here"));
    let own: serde_json::Value =
        serde_json::from_str(&stdout_of(&lab, &[&"keys", &"show", &server, &"--json"])).unwrap();
    stdout_of(&lab, &[&"keys", &"trust", &own["key"].as_str().unwrap(), &"--keys", &stranger]);
    let said = refused(&["--keys", &stranger]);
    assert!(said.contains(&format!("unrack keys trust {}` there", theirs.trim())), "{said}");
    // A serving node reads its list anew: no restart.
    stdout_of(&lab, &[&"keys", &"trust", &theirs.trim(), &"--keys", &server]);
    let (output, _) = lab.run(&["--local", "6MiB", "--remote", &node.at, "--keys", &stranger], &["true"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let own: serde_json::Value =
        serde_json::from_str(&stdout_of(&lab, &[&"keys", &"show", &client, &"--json"])).unwrap();
    stdout_of(&lab, &[&"keys", &"distrust", &own["key"].as_str().unwrap(), &"--keys", &server]);
    assert!(refused(&["--keys", &client]).contains("does not trust this key"));
}

#[test]
fn beyond_loopback_there_are_keys_or_somebody_says_insecure() {
    let lab = Lab::new("beyond");
    let unrack = |arguments: &[&str]| {
        let arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = arguments.iter().map(|word| word as _).collect();
        let output = lab.command(&arguments).env("UNRACK_KEYS", lab.path("none")).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    let serve = ["memory", "serve", "--listen", "0.0.0.0:0", "--capacity", "4MiB"];
    for arguments in [&serve[..], &["run", "--local", "6MiB", "--remote", "192.0.2.1:7000", "--", "true"]] {
        let (status, said) = unrack(arguments);
        assert_eq!(status, Some(2), "{said}");
        assert!(said.contains("unrack keys make") && said.contains("--insecure"), "{said}");
    }
    let (status, said) = unrack(&[&serve[..], &["--insecure", "--keys", "x"]].concat());
    assert_eq!(status, Some(2), "{said}");
    drop(Node::serve(&["--listen", "0.0.0.0:0", "--capacity", "4MiB", "--insecure"]));
}

#[test]
fn a_socket_of_shared_memory_is_its_users_alone() {
    use std::os::unix::fs::MetadataExt;
    let lab = Lab::new("private");
    let socket = lab.path("node.sock");
    let _node = Node::serve(&["--shm", socket.to_str().unwrap(), "--capacity", "64MiB"]);
    assert_eq!(std::fs::metadata(&socket).unwrap().mode() & 0o777, 0o600);
}

#[test]
fn a_clients_share_is_told_when_it_ends_a_program() {
    let lab = Lab::new("share");
    let node = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "64MiB", "--per-client", "4MiB"]);
    let options: [&dyn AsRef<std::ffi::OsStr>; 8] =
        [&"run", &"--local", &"6MiB", &"--remote", &node.at, &"--", &"python3", &"-c"];
    let output = lab.unrack(&[&options[..], &[&ENDLESS as &dyn AsRef<std::ffi::OsStr>]].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("4 of 64 MiB") && said.contains("--per-client"), "{said}");
}
