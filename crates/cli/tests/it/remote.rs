//! `unrack run --remote`: programs whose pages are at a memory node, over real connections.

use crate::common;

use common::{Lab, stderr};
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// `unrack memory serve`, ended with the test.
struct Node {
    process: Child,
    _stdout: BufReader<ChildStdout>,
    at: String,
}

impl Node {
    fn serve(arguments: &[&str]) -> Node {
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

/// Fills 12 MiB, forks, changes a half of it on each side, and prints sums of all of it.
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
    check(&Lab::new("tcp"), &Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "64MiB"]));
}

#[test]
fn pages_survive_a_node_in_shared_memory() {
    let lab = Lab::new("shm");
    let socket = lab.path("node.sock");
    check(&lab, &Node::serve(&["--shm", socket.to_str().unwrap(), "--capacity", "64MiB"]));
}

/// Runs for ever, and says when it has begun to page.
const ENDLESS: &str = r#"
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

/// Starts the endless program, lets it turn twice, calls `disturb` and returns what came of it.
fn disturbed(lab: &Lab, node: &str, disturb: impl FnOnce()) -> Output {
    let arguments = ["run", "--local", "6MiB", "--remote", node, "--", "python3", "-c", ENDLESS];
    let mut command = Command::new("timeout");
    command.args(["--foreground", "-k", "5", "40", env!("CARGO_BIN_EXE_unrack")]).args(arguments);
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
    let lab = Lab::new("death");
    let mut node = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "64MiB"]);
    let at = node.at.clone();
    let output = disturbed(&lab, &at, || node.process.kill().unwrap());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains(&format!("the memory node at {at}")), "{said}");
}

#[test]
fn a_node_without_room_ends_the_program_and_says_so() {
    let lab = Lab::new("full");
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
    let lab = Lab::new("absent");
    let output = lab.unrack(&[&"run", &"--local", &"6MiB", &"--remote", &"127.0.0.1:9", &"--", &"true"]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("127.0.0.1:9") && said.contains("unrack memory serve"), "{said}");
    let output = lab.unrack(&[&"run", &"--remote", &"somewhere", &"--", &"true"]);
    assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
}
