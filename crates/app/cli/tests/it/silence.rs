//! `unrack run --remote` when the memory node is silent: it reports that, ends at last, and can be ended at any time.

use crate::common;
use crate::remote::{ENDLESS, Node};

use common::{Lab, Marked, stderr, wait_until};
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;
use unrack_testing::{TestRequirement, skip};

/// A run with remote memory whose program prints lines.
struct Run {
    process: Child,
    stdout: BufReader<ChildStdout>,
    marked: Marked,
}

impl Run {
    fn start(lab: &Lab, node: &str, program: &str) -> Run {
        Run::with_local("6MiB", lab, node, program)
    }

    fn with_local(local: &str, lab: &Lab, node: &str, program: &str) -> Run {
        let marked = Marked::new(lab);
        // Tests may run in the background, where shells have interrupts ignored.
        let mut command = Command::new("env");
        command.args(["--default-signal=INT,TERM", env!("CARGO_BIN_EXE_unrack"), "run", "--local", local]);
        command.args(["--remote", node, "--page-timeout", "1s", "--", "python3", "-c", program]);
        command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
        marked.mark(&mut command).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Run { process, stdout, marked }
    }

    /// Returns the next line of the program.
    fn line(&mut self) -> String {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        line
    }

    fn send(&self, signal: &str) {
        send(signal, self.process.id());
    }

    /// Waits for the end, checks that nothing is left, and returns the output.
    fn end(mut self) -> Output {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("wrong"), "{rest}");
        let output = self.process.wait_with_output().unwrap();
        assert_eq!(self.marked.left(), Vec::<String>::new());
        output
    }
}

fn send(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

fn serve_tcp() -> Node {
    Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "256MiB"])
}

fn serve_shared(lab: &Lab) -> Node {
    Node::serve(&["--shm", lab.path("node.sock").to_str().unwrap(), "--capacity", "256MiB"])
}

/// Returns a program that ignores requests to end, has a child that does so in a session of its own, and then turns
/// for ever.
fn stubborn() -> String {
    let ignore = "import os, signal, time\nfor s in (2, 15): signal.signal(s, signal.SIG_IGN)";
    format!("{ignore}\nif os.fork() == 0:\n    os.setsid()\n    while True: time.sleep(1)\n{ENDLESS}")
}

/// Program that needs ever more memory; it prints a line once the first 40 MiB are there.
const GROWING: &str = "
data = []
while True:
    data.append(bytearray(b'x' * (1 << 20)))
    if len(data) == 40: print('grown', flush=True)
";

/// Program that needs little memory itself; its child needs more and more, two seconds after a line was printed.
const FORKING: &str = "
import os, time
if os.fork() == 0:
    print('forked', flush=True)
    time.sleep(2)
    data = []
    while True: data.append(bytearray(b'x' * (1 << 20)))
time.sleep(1000)
";

/// Checks the messages about a node that is stopped for good, and the end of the run.
fn told(mut run: Run, node: &Node, waits_for: &str) {
    run.line();
    send("-STOP", node.process.id());
    let output = run.end();
    send("-CONT", node.process.id());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    let (reason, warnings) = lines.split_last().unwrap();
    assert!(warnings.len() >= 3, "a line each second: {said}");
    for line in warnings {
        assert!(
            line.contains(waits_for) && line.contains("does not answer; the program is ended after 6 s"),
            "{said}"
        );
        assert!(line.contains(&node.at) && line.contains("python3 (process "), "{said}");
    }
    let end = reason.contains("was ended") || reason.contains("did not answer in time");
    assert!(end && reason.contains(&node.at), "{said}");
}

#[test]
fn a_stopped_node_is_told_and_ends_the_run() {
    let (lab, node) = (Lab::new("stopped-tcp"), serve_tcp());
    let mut run = Run::start(&lab, &node.at, ENDLESS);
    // By its third turn it pages.
    [run.line(), run.line(), run.line()].iter().for_each(|line| assert!(line.starts_with("turn"), "{line}"));
    told(run, &node, "s for a page: ");
}

#[test]
fn a_stopped_node_in_shared_memory_is_told_and_ends_the_run() {
    let lab = Lab::new("stopped-shm");
    let node = serve_shared(&lab);
    told(Run::start(&lab, &node.at, GROWING), &node, "s for room for its pages: ");
}

#[test]
fn a_node_that_stops_before_a_child_is_greeted_is_told_and_ends_the_run() {
    let lab = Lab::new("stopped-greeting");
    for node in [serve_tcp(), serve_shared(&lab)] {
        // The parent never gets to page.
        told(Run::with_local("40MiB", &lab, &node.at, FORKING), &node, "s for the node's greeting: ");
    }
}

#[test]
fn a_run_goes_on_when_its_node_does() {
    let (lab, node) = (Lab::new("continued"), serve_tcp());
    let mut run = Run::start(&lab, &node.at, ENDLESS);
    run.line();
    send("-STOP", node.process.id());
    std::thread::sleep(Duration::from_millis(3500));
    send("-CONT", node.process.id());
    // The lines that were in the pipe before the stop have been read by then.
    for _ in 0..20 {
        assert!(run.line().starts_with("turn"));
    }
    run.send("-TERM");
    let said = stderr(&run.end());
    assert!(said.contains("does not answer") && said.contains("answers again"), "{said}");
}

#[test]
fn a_program_that_is_stopped_waits_for_nobody() {
    let (lab, node) = (Lab::new("paused"), serve_tcp());
    let mut run = Run::start(&lab, &node.at, ENDLESS);
    run.line();
    let programs = run.marked.named("python3");
    programs.iter().for_each(|pid| send("-STOP", *pid));
    std::thread::sleep(Duration::from_secs(8));
    programs.iter().for_each(|pid| send("-CONT", *pid));
    for _ in 0..20 {
        assert!(run.line().starts_with("turn"));
    }
    run.send("-TERM");
    let said = stderr(&run.end());
    assert!(!said.contains("answer"), "{said}");
}

/// Sends a request to end to a program that ignores it and waits for a page of a stopped node; it ends nevertheless.
fn ended_by(signal: &str, status: i32, lab: &Lab, node: &Node) {
    let mut run = Run::start(lab, &node.at, &stubborn());
    run.line();
    send("-STOP", node.process.id());
    run.send(signal);
    let output = run.end();
    send("-CONT", node.process.id());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(status), "{said}");
    assert!(said.contains("interrupted"), "{said}");
}

#[test]
fn requests_end_what_waits_for_a_stopped_node() {
    ended_by("-INT", 130, &Lab::new("stuck-int"), &serve_tcp());
    ended_by("-TERM", 143, &Lab::new("stuck-term"), &serve_tcp());
}

#[test]
fn a_second_request_does_not_wait_for_a_stopped_node() {
    let (lab, node) = (Lab::new("second"), serve_tcp());
    let mut run = Run::start(&lab, &node.at, &stubborn());
    run.line();
    run.send("-INT");
    std::thread::sleep(Duration::from_secs(7));
    assert!(run.line().starts_with("turn"), "what it ignores is its own matter");
    send("-STOP", node.process.id());
    std::thread::sleep(Duration::from_secs(2));
    run.send("-INT");
    std::thread::sleep(Duration::from_secs(2));
    run.send("-INT");
    let output = run.end();
    send("-CONT", node.process.id());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
}

/// Runs a program over a link that goes down once it has printed its first line. `None`: not possible on this machine.
fn without_link(lab: &Lab, program: &str) -> Option<Output> {
    let may = Command::new("unshare").args(["-n", "ip", "link", "set", "lo", "up"]).output();
    if !may.is_ok_and(|output| output.status.success()) {
        skip(TestRequirement::Namespaces, "needs root, `unshare` and `ip` for a network of its own");
        return None;
    }
    let script = r#"
        unrack=$1; printed=$2; program=$3
        ip link set lo up
        "$unrack" memory serve --listen 127.0.0.1:7000 --capacity 64MiB 2> /dev/null & node=$!
        until (exec 3<> /dev/tcp/127.0.0.1/7000) 2> /dev/null; do sleep 0.1; done
        "$unrack" run --local 6MiB --remote 127.0.0.1:7000 --page-timeout 1s -- python3 -c "$program" > "$printed" & run=$!
        until grep -q . "$printed"; do sleep 0.1; done
        ip link set lo down
        wait $run; status=$?
        kill -9 $node
        exit $status
    "#;
    let mut command = Command::new("unshare");
    command.args(["-n", "bash", "-c", script, "bash", env!("CARGO_BIN_EXE_unrack")]);
    command.arg(lab.path("printed")).arg(program);
    command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
    let marked = Marked::new(lab);
    let output = marked.mark(&mut command).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", stderr(&output));
    wait_until("nothing is left", || marked.left().is_empty());
    Some(output)
}

#[test]
fn a_link_that_goes_down_is_told_and_ends_the_run() {
    let Some(output) = without_link(&Lab::new("link"), ENDLESS) else { return };
    let said = stderr(&output);
    let warnings = said.lines().filter(|line| line.contains("does not answer")).count();
    assert!(warnings >= 3 && said.contains("127.0.0.1:7000") && said.contains("was ended"), "{said}");
}

#[test]
fn a_link_that_goes_down_under_an_idle_program_ends_the_run() {
    let idle =
        "import time\ndata = bytearray(16 << 20)\ntime.sleep(1)\nprint('idle', flush=True)\ntime.sleep(1000)";
    let Some(output) = without_link(&Lab::new("idle-link"), idle) else { return };
    let said = stderr(&output);
    assert!(
        said.contains("127.0.0.1:7000")
            && (said.contains("it does not answer") || said.contains("has not answered")),
        "{said}"
    );
}

#[test]
fn time_outs_have_bounds() {
    let lab = Lab::new("bounds");
    for time in ["0s", "999ms", "61m", "soon"] {
        let output =
            lab.unrack(&[&"run", &"--remote", &"127.0.0.1:9", &"--page-timeout", &time, &"--", &"true"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains("--page-timeout"), "{said}");
    }
}
