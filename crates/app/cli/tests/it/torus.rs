//! `unrack rack` on a torus: nodes in a process that `up` leaves behind. No privilege is needed.

use crate::desk;

use desk::{Desk, example, stderr, stdout};
use rustix::process::{Pid, WaitOptions};
use serde_json::Value;
use std::path::Path;

/// A rack that is taken down at the end of the test.
struct Torus {
    desk: Desk,
    state: String,
    scenario: String,
}

impl Torus {
    fn up(name: &str) -> Torus {
        let desk = Desk::new(name);
        let (state, scenario) = (desk.path("state"), example("torus-4x4.toml"));
        let torus = Torus { desk, state, scenario };
        assert_eq!(torus.desk.done(&torus.verb("up")), "16 nodes of a torus are up\n");
        torus
    }

    fn verb<'a>(&'a self, verb: &'a str) -> Vec<&'a str> {
        match verb {
            "down" => vec!["rack", verb, "--state", &self.state],
            _ => vec!["rack", verb, &self.scenario, "--state", &self.state],
        }
    }
}

impl Drop for Torus {
    fn drop(&mut self) {
        self.desk.unrack(&self.verb("down"));
    }
}

/// Settings for half a second of flows.
const SETS: [&str; 4] = ["--set", "workload.messages=60", "--set", "workload.size=200kB"];

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_live_rack_says_what_a_simulated_one_does() {
    let torus = Torus::up("torus-run");
    let run: Vec<&str> = torus.verb("run").into_iter().chain(SETS).collect();
    let out = torus.desk.path("out");
    let live = json(&torus.desk.done(&[&run[..], &["--json", "--out", &out]].concat()));
    let simulated = json(&torus.desk.done(&[&["sim", &torus.scenario, "--json"], &SETS[..]].concat()));
    for key in ["fabric", "nodes", "messages", "completed", "seed", "version"] {
        assert_eq!(live[key], simulated[key], "{key}");
    }
    assert_eq!(live["completed"], 60);
    assert_eq!(
        (&live["live"]["wrong_bytes"], &live["live"]["malformed"]),
        (&Value::from(0), &Value::from(0))
    );
    // Flows are at most as fast as in the simulator, apart from chance; on a busy machine they take longer.
    let mean = |figures: &Value| figures["completion_ns"]["mean"].as_f64().unwrap();
    assert!(mean(&live) > mean(&simulated) / 2.0, "{} and {}", mean(&live), mean(&simulated));
    let hops = |figures: &Value| figures["packet_hops"].as_f64().unwrap();
    assert!((0.9..1.5).contains(&(hops(&live) / hops(&simulated))), "{} {}", hops(&live), hops(&simulated));
    assert!(
        ["summary.json", "messages.parquet", "manifest.json"]
            .iter()
            .all(|file| Path::new(&out).join(file).exists())
    );
    // The same again as a table.
    let table = torus.desk.done(&run);
    assert!(table.contains("r2c2") && table.contains("\nlive "), "{table}");
}

#[test]
fn nothing_is_left_behind() {
    let torus = Torus::up("torus-down");
    let desk = &torus.desk;
    assert!(desk.refused(2, &torus.verb("up")).contains("already"));
    assert!(
        desk.refused(2, &["rack", "up", &example("drack-2x2.toml"), "--state", &torus.state])
            .contains("already")
    );
    let other = [&torus.verb("run")[..], &["--set", "network.link.rate=10Mbps"]].concat();
    assert!(desk.refused(2, &other).contains("another network, fabric or failures"));
    let reads = desk.file("reads.csv", "src,dst,bytes,start_ns,kind\n0,1,64,0,read\n");
    let set = format!("workload={{kind=\"trace\", file=\"{reads}\"}}");
    assert!(desk.refused(2, &[&torus.verb("run")[..], &["--set", &set]].concat()).contains("not a read"));
    let output = desk.unrack(&torus.verb("down"));
    assert!(output.status.success() && stderr(&output).contains("the rack is down"), "{}", stderr(&output));
    assert!(!Path::new(&torus.state).exists());
    assert!(desk.refused(2, &torus.verb("run")).contains("no torus or mesh is up"));
    assert_eq!(stdout(&desk.unrack(&torus.verb("down"))), "");
}

/// Returns the number of the process that serves the rack of a state folder.
fn serving(state: &str) -> Pid {
    let stream = std::os::unix::net::UnixStream::connect(Path::new(state).join("direct.sock")).unwrap();
    rustix::net::sockopt::socket_peercred(&stream).unwrap().pid
}

#[test]
fn a_rack_whose_process_was_killed_is_swept_by_the_next() {
    let torus = Torus::up("torus-killed");
    let refused = torus.desk.refused(2, &torus.verb("up"));
    assert!(refused.contains("take it down first"), "{refused}");
    let killed = serving(&torus.state);
    rustix::process::kill_process(killed, rustix::process::Signal::KILL).unwrap();
    let begun = std::time::Instant::now();
    loop {
        let output = torus.desk.unrack(&torus.verb("up"));
        if output.status.success() {
            break;
        }
        // The kernel may still be ending it.
        assert!(begun.elapsed().as_secs() < 20, "{}", stderr(&output));
    }
    assert_ne!(serving(&torus.state), killed);
    assert!(stderr(&torus.desk.unrack(&torus.verb("down"))).contains("the rack is down"));
    assert!(!Path::new(&torus.state).exists());
}

/// Orphans go to the nearest subreaper, or to process 1, and stay as zombies until that one waits for them. Nothing
/// that is left behind may run any longer when `down` returns, and what failed is waited for by who started it.
#[test]
fn processes_have_ended_when_verbs_return() {
    let mut command = std::process::Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "torus::role", "--ignored", "--nocapture"]).env(SUBREAPER, "1");
    let output = command.output().unwrap();
    let said = stdout(&output) + &stderr(&output);
    assert!(output.status.success() && said.contains("1 passed"), "{said}");
}

const SUBREAPER: &str = "UNRACK_TEST_SUBREAPER";

/// Not a test by itself: a process that inherits orphans.
#[test]
#[ignore = "to be run in a process of its own"]
fn role() {
    if std::env::var_os(SUBREAPER).is_none() {
        return;
    }
    rustix::process::set_child_subreaper(Some(rustix::process::getpid())).unwrap();
    let reaped = || rustix::process::wait(WaitOptions::NOHANG);
    let torus = Torus::up("torus-orphan");
    let left = serving(&torus.state);
    assert_eq!(reaped().unwrap().map(|(pid, _)| pid), None, "it runs");
    torus.desk.done(&torus.verb("down"));
    assert_eq!(reaped().unwrap().map(|(pid, _)| pid), Some(left), "it has ended");
    assert!(reaped().is_err(), "there was one");
    // An address that is taken: the process of the rack ends at once.
    let taken = [0, 1].map(|_| std::net::UdpSocket::bind("127.0.0.1:0").unwrap());
    let taken = taken.each_ref().map(|socket| socket.local_addr().unwrap().to_string()).join(",");
    let up = [&torus.verb("up")[..], &["--machines", &taken, "--here", "0"]].concat();
    let output = torus.desk.unrack(&up);
    assert!(stderr(&output).contains("in use"), "{}", stderr(&output));
    assert!(reaped().is_err(), "`up` has waited for it");
    assert!(!Path::new(&torus.state).exists());
}

/// Cables that differ, one of which fails for a while, a slow program, a rule that takes effect later, and better
/// routings: all as in the simulator.
#[test]
fn a_graph_of_cables_that_differ_and_fail() {
    let desk = Desk::new("torus-graph");
    desk.file("cables.txt", "0 1\n1 2 50Mbps 20us\n2 3\n3 0 200Mbps\n0 2\n");
    let text = r#"
[network]
topology = { kind = "graph", file = "cables.txt" }
link = { rate = "100Mbps", propagation = "10us" }
switch = { buffer = "256KiB" }
[fabric]
protocol = "r2c2"
interval = "2.5ms"
timeout = "10ms"
selection = { period = "20ms", utility = "sum(log(rate))" }
[[fabric.rules]]
src = [1]
demand = "20Mbps"
[[fabric.rules]]
at = "50ms"
weight = 3
dst = [2]
[workload]
kind = "flows"
size = "100kB"
load = "20%"
messages = 80
[[failures]]
between = [0, 1]
from = "40ms"
until = "90ms"
detected_after = "5ms"
"#;
    let (scenario, state) = (desk.file("graph.toml", text), desk.path("state"));
    let verb = |verb| ["rack", verb, &scenario, "--state", &state];
    assert_eq!(desk.done(&verb("up")), "4 nodes of a graph are up\n");
    let other = [&verb("run")[..], &["--set", "failures=[]"]].concat();
    assert!(desk.refused(2, &other).contains("another network, fabric or failures"));
    // Twice, since times of rules and failures are relative to the start of a run.
    for _ in 0..2 {
        let live = json(&desk.done(&[&verb("run")[..], &["--json"]].concat()));
        assert_eq!((&live["completed"], &live["live"]["wrong_bytes"]), (&Value::from(80), &Value::from(0)));
        assert!(live["live"]["most_queued_bytes"].as_array().unwrap().len() == 10);
    }
    desk.unrack(&["rack", "down", "--state", &state]);
}

#[test]
fn what_only_the_simulator_does_is_refused() {
    let desk = Desk::new("torus-refused");
    let (state, scenario) = (desk.path("state"), example("torus-4x4.toml"));
    let refused = |set: &str| desk.refused(2, &["rack", "up", &scenario, "--state", &state, "--set", set]);
    assert!(refused("fabric.protocol=tcp").contains("fabric"));
    assert!(refused("network.switch.buffer=unlimited").contains("network.switch.buffer"));
    assert!(refused("network.headers=none").contains("network.headers"));
    let up = |gateway| {
        let up = ["rack", "up", &scenario, "--state", &state, "--gateway", gateway];
        desk.refused(2, &up)
    };
    assert!(up("0").contains("such as 0=tap0"));
    assert!(up("16=tap0").contains("no node 16 of 16") && up("0=lo").contains("already"));
    assert!(refused("fabric.trees=0").contains("fabric.trees"));
    assert!(!Path::new(&state).exists());
}

/// Two processes that are one rack: each with half of the nodes, as if they were on two machines.
#[test]
fn machines_carry_each_others_flows() {
    let desk = Desk::new("torus-machines");
    let free = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let (machines, scenario) = (format!("{},{}", free[0], free[1]), example("torus-4x4.toml"));
    let (set, link) = (["--set", "fabric.timeout=50ms"], ["--set", "network.link.rate=200Mbps"]);
    let verb = |verb: &str, here: usize, more: &[&str]| {
        let state = desk.path(&format!("state{here}"));
        desk.unrack(&[&["rack", verb, &scenario, "--state", &state], &set[..], &link, more].concat())
    };
    let here = |n: usize| ["--machines".to_string(), machines.clone(), "--here".into(), n.to_string()];
    for n in [0, 1] {
        let here = here(n);
        let output = verb("up", n, &here.each_ref().map(String::as_str));
        assert_eq!(stdout(&output), "8 nodes of a torus are up\n", "{}", stderr(&output));
    }
    let run = &|n| verb("run", n, &[&SETS[..], &["--json"]].concat());
    let outputs = std::thread::scope(|scope| {
        let runs = [0, 1].map(|n| scope.spawn(move || run(n)));
        runs.map(|run| run.join().unwrap())
    });
    let down = |n| desk.unrack(&["rack", "down", "--state", &desk.path(&format!("state{n}"))]);
    let gone = [0, 1].map(down);
    let completed = outputs.iter().map(|output| {
        assert!(output.status.success(), "{}", stderr(output));
        assert!(stderr(output).contains("of 60 messages"), "{}", stderr(output));
        let figures = json(&stdout(output));
        assert_eq!(figures["completed"], figures["messages"]);
        figures["completed"].as_u64().unwrap()
    });
    assert_eq!(completed.sum::<u64>(), 60);
    assert!(gone.iter().all(|output| output.status.success()));
    let refused = |more: &[&str]| {
        desk.refused(2, &[&["rack", "up", &scenario, "--state", &desk.path("s")], more].concat())
    };
    let one = unrack_testing::ClosedPort::new().address().to_string();
    assert!(refused(&["--machines", &one, "--here", "1"]).contains("no machine 1"));
    assert!(refused(&["--here", "1"]).contains("--machines"));
    let beyond = ["--machines", "127.0.0.1:1,192.0.2.1:1", "--here", "0"];
    let said = refused(&beyond);
    assert!(said.contains("unrack keys shared") && said.contains("--insecure"), "{said}");
    assert!(refused(&[&beyond[..], &["--key", "none"]].concat()).contains("none"));
}

/// A state folder in a shared place such as /tmp, which others may have created first.
#[test]
fn a_state_folder_that_others_may_write_to_is_refused() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt};
    let desk = Desk::new("torus-foreign");
    let (state, scenario) = (desk.path("state"), example("torus-4x4.toml"));
    std::fs::create_dir(&state).unwrap();
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o777)).unwrap();
    for verb in [&["rack", "up", &scenario][..], &["rack", "run", &scenario], &["rack", "down"]] {
        let said = desk.refused(2, &[verb, &["--state", &state]].concat());
        assert!(said.contains("others may not write"), "{said}");
    }
    std::fs::remove_dir(&state).unwrap();
    desk.done(&["rack", "up", &scenario, "--state", &state]);
    assert_eq!(std::fs::metadata(&state).unwrap().mode() & 0o777, 0o700);
    desk.unrack(&["rack", "down", "--state", &state]);
}

/// Sealed links between machines; otherwise as [`machines_carry_each_others_flows`].
#[test]
fn machines_with_a_key_carry_each_others_flows() {
    let desk = Desk::new("torus-sealed");
    let free = [(); 2].map(|()| std::net::UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let (machines, scenario) = (format!("{},{}", free[0], free[1]), example("torus-4x4.toml"));
    desk.done(&["keys", "shared", &desk.path("rack.key")]);
    let state = |n: usize| desk.path(&format!("state{n}"));
    let set = ["--set", "fabric.timeout=50ms", "--set", "network.link.rate=200Mbps"];
    for n in [0, 1] {
        let here = ["--machines", &machines, "--here", &n.to_string(), "--key", "rack.key"];
        desk.done(&[&["rack", "up", &scenario, "--state", &state(n)], &set[..], &here].concat());
    }
    let run = |n| {
        desk.done(&[&["rack", "run", &scenario, "--state", &state(n), "--json"], &set[..], &SETS].concat())
    };
    let run = &run;
    let done = std::thread::scope(|scope| {
        [0, 1].map(|n| scope.spawn(move || run(n))).map(|run| run.join().unwrap())
    });
    (0..2).for_each(|n| drop(desk.unrack(&["rack", "down", "--state", &state(n)])));
    let completed = done.iter().map(|text| json(text)["completed"].as_u64().unwrap());
    assert_eq!(completed.sum::<u64>(), 60);
}
