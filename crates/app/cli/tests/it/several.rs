//! `unrack run --remote` with several memory nodes: striped, mirrored, and with nodes that die. `UNRACK_NODE_KILLS` sets the number of
//! random deaths, `UNRACK_NODE_KILLS_SEED` their seed.

use crate::common;
use crate::remote::{ENDLESS, Node, acquainted};

use common::{LONGEST_S, Lab, stderr};
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Output, Stdio};
use std::time::Duration;

/// Program that changes a third of the pages of 16 MiB in each turn, and checks every byte of all of them.
const FINITE: &str = r#"
pages = 4096
data = bytearray(pages * 4096)
page_of = [bytes([value]) * 4096 for value in range(256)]
want = [0] * pages
for turn in range(40):
    for page in range(pages):
        at = page * 4096
        if data[at:at + 4096] != page_of[want[page]]:
            print('wrong data', flush=True)
        if (turn + page) % 3 == 0 or turn == 0:
            want[page] = (want[page] + page) % 256
            data[at:at + 4096] = page_of[want[page]]
    print('turn', turn, flush=True)
print('done', flush=True)
"#;

fn serve_tcp() -> Node {
    Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "256MiB"])
}

fn serve_shared(lab: &Lab, name: &str) -> Node {
    Node::serve(&["--shm", lab.path(name).to_str().unwrap(), "--capacity", "256MiB"])
}

fn names(nodes: &[Node]) -> String {
    nodes.iter().map(|node| node.at.as_str()).collect::<Vec<_>>().join(",")
}

fn signal(node: &Node, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), node.process.id().to_string()]).status();
    assert!(sent.unwrap().success());
}

/// Options of a mirrored run. Half of the timeout is longer than a busy machine keeps a node from running.
const MIRRORED: [&str; 3] = ["--mirror", "--page-timeout", "4s"];

/// A run whose program prints lines.
struct Run {
    process: Child,
    stdout: BufReader<ChildStdout>,
    json: PathBuf,
}

impl Run {
    fn start(lab: &Lab, options: &[&str], program: &str) -> Run {
        let json = lab.path("several.json");
        let mut command = Command::new("timeout");
        command.args(["--foreground", "-k", "5", LONGEST_S, env!("CARGO_BIN_EXE_unrack"), "run"]);
        command.args(["--local", "6MiB", "--json"]).arg(&json).args(options);
        command.args(["--", "python3", "-c", program]);
        command.env("XDG_CACHE_HOME", lab.path("cache")).env("TMPDIR", lab.path("tmp"));
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        Run { process, stdout, json }
    }

    /// Waits for lines of the program, each of which must be one about a turn.
    fn turns(&mut self, lines: usize) {
        for _ in 0..lines {
            let mut line = String::new();
            self.stdout.read_line(&mut line).unwrap();
            assert!(line.starts_with("turn"), "{line}");
        }
    }

    /// Waits for the end. Returns the output, and what the program printed last.
    fn end(mut self) -> (Output, String) {
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert!(!rest.contains("wrong"), "{rest}");
        (self.process.wait_with_output().unwrap(), rest)
    }

    /// Waits for the successful end. Returns the summary and what was printed on standard error.
    fn succeed(self) -> (serde_json::Value, String) {
        let json = self.json.clone();
        let (output, rest) = self.end();
        let said = stderr(&output);
        assert!(output.status.success() && rest.ends_with("done\n"), "{rest}{said}");
        (serde_json::from_slice(&std::fs::read(json).unwrap()).unwrap(), said)
    }
}

#[test]
fn striped_nodes_share_the_pages_of_a_run() {
    let Some(lab) = Lab::paging("striped") else { return };
    let nodes = [serve_tcp(), serve_shared(&lab, "node.sock"), serve_tcp()];
    let at = names(&nodes);
    let (summary, said) = Run::start(&lab, &["--remote", &at], FINITE).succeed();
    assert_eq!(summary["remote"], at.as_str());
    let of = |key: &str| -> Vec<u64> {
        summary["nodes"].as_array().unwrap().iter().map(|node| node[key].as_u64().unwrap()).collect()
    };
    let (loaded, stored) = (of("loaded_bytes"), of("stored_bytes"));
    assert!(loaded.iter().chain(&stored).all(|bytes| *bytes > 0), "{summary}");
    // Each fetch loads one page, except pages that had not left yet.
    let fetches = summary["fetches"].as_u64().unwrap();
    assert!(loaded.iter().sum::<u64>() <= fetches * 4096 && fetches > 3000, "{summary}");
    for node in &nodes {
        assert!(said.contains(&format!("memory node {}: ", node.at)), "{said}");
    }
    let rates = &summary["nodes"][0];
    assert!(rates["loaded_bytes_per_s"].as_f64().unwrap() > 0.0, "{summary}");
    assert!(rates["busy_bytes_per_s"].as_f64() >= rates["loaded_bytes_per_s"].as_f64(), "{summary}");
}

#[test]
fn a_dead_striped_node_ends_the_program_and_is_named() {
    let Some(lab) = Lab::paging("striped-death") else { return };
    let nodes = [serve_tcp(), serve_tcp()];
    for name in ["STOP", "KILL"] {
        let mut run = Run::start(&lab, &["--page-timeout", "1s", "--remote", &names(&nodes)], ENDLESS);
        run.turns(2);
        signal(&nodes[1], name);
        let (output, _) = run.end();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains(&format!("the memory node at {}", nodes[1].at)), "{said}");
        assert!(!said.contains(&format!("the memory node at {}", nodes[0].at)), "{said}");
        if name == "STOP" {
            signal(&nodes[1], "CONT");
        }
    }
}

/// Runs a program over a mirror, of which one node gets a signal after some turns, and checks that nothing is lost but the node.
fn goes_on(lab: &Lab, nodes: &[Node], keys: &[&str], victim: usize, name: &str) {
    let mut run = Run::start(lab, &[&MIRRORED[..], &["--remote", &names(nodes)], keys].concat(), FINITE);
    run.turns(3);
    signal(&nodes[victim], name);
    let (summary, said) = run.succeed();
    let lost = &nodes[victim].at;
    for (node, traffic) in nodes.iter().zip(summary["nodes"].as_array().unwrap()) {
        assert_eq!(traffic["node"], node.at.as_str());
        assert_eq!(traffic["lost"], node.at == *lost, "{summary}");
    }
    let warned = summary["warnings"].as_array().unwrap().iter().find(|warning| warning["key"] == "node-lost");
    assert!(warned.is_some_and(|warning| warning["text"].as_str().unwrap().contains(lost)), "{summary}");
    assert!(said.contains(lost) && said.contains("the run goes on"), "{said}");
}

#[test]
fn a_mirrored_run_goes_on_when_a_node_is_killed() {
    let Some(lab) = Lab::paging("mirror-killed") else { return };
    goes_on(&lab, &[serve_tcp(), serve_tcp()], &[], 0, "KILL");
    goes_on(&lab, &[serve_tcp(), serve_shared(&lab, "node.sock")], &[], 1, "KILL");
}

#[test]
fn a_mirrored_run_goes_on_when_a_node_is_stopped() {
    let Some(lab) = Lab::paging("mirror-stopped") else { return };
    goes_on(&lab, &[serve_tcp(), serve_tcp()], &[], 1, "STOP");
}

#[test]
fn a_mirror_may_mix_encrypted_nodes_with_shared_memory() {
    let Some(lab) = Lab::paging("mirror-mixed") else { return };
    let [server, client] = acquainted(&lab);
    let encrypted = || Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "256MiB", "--keys", &server]);
    let nodes = [serve_shared(&lab, "node.sock"), encrypted()];
    goes_on(&lab, &nodes, &["--keys", &client], 1, "KILL");
    // With a node that does not know the key, no program is started.
    let stranger = lab.path("stranger").display().to_string();
    assert!(lab.unrack(&[&"keys", &"make", &stranger]).status.success());
    let known = encrypted();
    let odd = Node::serve(&["--listen", "127.0.0.1:0", "--capacity", "256MiB", "--keys", &stranger]);
    let both = format!("{},{}", known.at, odd.at);
    let output = lab.unrack(&[
        &"run",
        &"--remote",
        &both,
        &"--mirror",
        &"--keys",
        &client,
        &"--local",
        &"6MiB",
        &"--",
        &"true",
    ]);
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains(&odd.at) && said.contains("is not trusted here"), "{said}");
}

#[test]
fn a_run_ends_when_the_last_node_of_its_mirror_dies() {
    let Some(lab) = Lab::paging("mirror-death") else { return };
    let nodes = [serve_tcp(), serve_tcp()];
    let mut run = Run::start(&lab, &[&MIRRORED[..], &["--remote", &names(&nodes)]].concat(), ENDLESS);
    run.turns(2);
    nodes.iter().for_each(|node| signal(node, "KILL"));
    let (output, _) = run.end();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(nodes.iter().any(|node| said.contains(&format!("the memory node at {}", node.at))), "{said}");
}

#[test]
fn nodes_that_make_no_set_are_refused() {
    let lab = Lab::new("no-set");
    let refused = |status: i32, options: &[&str], why: &str| {
        let arguments = [&["run", "--local", "6MiB"], options, &["--", "true"]].concat();
        let arguments: Vec<&dyn AsRef<std::ffi::OsStr>> = arguments.iter().map(|word| word as _).collect();
        let output = lab.unrack(&arguments);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(status), "{options:?}: {said}");
        assert!(said.contains(why), "{options:?}: {said}");
    };
    let twice = "192.0.2.1:7000,192.0.2.1:7000";
    refused(2, &["--remote", twice], "is given twice");
    refused(2, &["--remote", "192.0.2.1:7000", "--remote", "192.0.2.1:7000"], "is given twice");
    refused(2, &["--remote", "192.0.2.1:7000", "--mirror"], "at least two");
    refused(2, &["--mirror"], "--remote");
    refused(2, &["--remote", "192.0.2.1:7000,"], "expected an IPv4 address");
    let everywhere = Node::serve(&["--listen", "0.0.0.0:0", "--capacity", "64MiB", "--insecure"]);
    let port = everywhere.at.rsplit(':').next().unwrap();
    let two = format!("127.0.0.1:{port},127.0.0.2:{port}");
    refused(2, &["--remote", &two, "--mirror"], "two addresses of one memory node");
    let nobody = unrack_testing::ClosedPort::new();
    let absent = format!("127.0.0.1:{port},{}", nobody.address());
    refused(3, &["--remote", &absent, "--mirror"], &nobody.address().to_string());
}

#[test]
fn random_deaths_of_nodes_lose_nothing() {
    let Some(lab) = Lab::paging("node-kills") else { return };
    let number = |name: &str, usual: u64| std::env::var(name).map_or(usual, |text| text.parse().expect(name));
    let (kills, mut seed) = (number("UNRACK_NODE_KILLS", 1), number("UNRACK_NODE_KILLS_SEED", 21));
    for n in 0..kills {
        // Knuth's generator: the next seed is the last number drawn.
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let draw = |shift: u64, below: u64| (seed >> shift) % below;
        let count = 2 + draw(33, 2) as usize;
        let is_shared = |node: usize| draw(36 + node as u64, 3) == 0;
        let nodes: Vec<Node> = (0..count)
            .map(|at| if is_shared(at) { serve_shared(&lab, &format!("{n}-{at}.sock")) } else { serve_tcp() })
            .collect();
        let mut run = Run::start(&lab, &[&MIRRORED[..], &["--remote", &names(&nodes)]].concat(), FINITE);
        // The first line may take the calibration of the pager.
        run.turns(1);
        // All nodes but one may die.
        let deaths = 1 + draw(40, count as u64 - 1) as usize;
        for (at, node) in nodes.iter().enumerate().take(deaths) {
            std::thread::sleep(Duration::from_millis(draw(42 + 7 * at as u64, 600)));
            signal(node, if draw(60 + at as u64, 2) == 0 { "KILL" } else { "STOP" });
        }
        let (summary, _) = run.succeed();
        let lost = summary["nodes"].as_array().unwrap().iter().filter(|node| node["lost"] == true).count();
        assert!(lost < count, "kill {n}, seed {seed}: {summary}");
    }
}
