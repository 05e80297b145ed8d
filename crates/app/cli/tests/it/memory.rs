//! Memory that `unrack sim` takes beside what was estimated for it, over protocols, topologies and numbers of messages.

use crate::desk::{Desk, example};
use std::path::Path;
use std::process::{Command, Stdio};
use unrack_rack::Scenario;
use unrack_sim::Need;
use unrack_sim::memory::{CLOSE, FACTOR};

/// Cases: example, what replaces its values, and two numbers of messages.
const GRID: [(&str, &[&str], [u32; 2]); 9] = [
    ("star-edm.toml", &["fabric.protocol=edm"], [2_000, 200_000]),
    ("star-edm.toml", &["fabric.protocol=tcp"], [2_000, 100_000]),
    ("star-edm.toml", &["fabric.protocol=homa"], [2_000, 100_000]),
    ("leaf-spine-dctcp.toml", &["fabric.protocol=tcp", "workload.size=1kB"], [2_000, 200_000]),
    ("leaf-spine-dctcp.toml", &["fabric.protocol=homa", "workload.size=1kB"], [2_000, 200_000]),
    ("leaf-spine-dctcp.toml", &["fabric.protocol=pfabric", "workload.size=1kB"], [2_000, 200_000]),
    ("torus-4x4.toml", &["workload.size=10kB"], [500, 20_000]),
    ("torus-4x4.toml", &["fabric={protocol=\"pfq\"}", "workload.size=10kB"], [2_000, 200_000]),
    // At higher loads, TCP on a torus sends most packets twice.
    (
        "torus-4x4.toml",
        &["fabric={protocol=\"tcp\"}", "workload.size=1kB", "workload.load=5%"],
        [2_000, 100_000],
    ),
];

/// Least bytes between two estimates for which their difference is compared, too: of less, the allocator decides.
const LEAST: f64 = 6e6;

#[test]
fn estimates_are_what_runs_take() {
    let desk = Desk::new("memory");
    for (name, set, numbers) in GRID {
        let file = example(name);
        let [few, many] = numbers.map(|messages| {
            let mut set: Vec<String> = set.iter().map(|set| (*set).to_string()).collect();
            set.push(format!("workload.messages={messages}"));
            let scenario =
                Scenario::load(Path::new(&file), &set.iter().collect()).and_then(unrack_sim::check).unwrap();
            let need = Need::from_scenario(&scenario);
            let used = peak(&desk, &file, &set);
            let case = format!("{set:?}: {used:.2e} bytes used, estimated {need:#?}");
            assert!(need.sure_bytes() <= used * FACTOR, "{name}: {case}");
            assert!(need.bytes() <= used * FACTOR && need.bytes() * FACTOR >= used, "{name}: {case}");
            (need.bytes(), used)
        });
        let (estimated, used) = (many.0 - few.0, many.1 - few.1);
        let is_near = (estimated / FACTOR..=estimated * FACTOR).contains(&used);
        let case = format!("{name}, {set:?}: {used:.2e} more bytes used, estimated {estimated:.2e}");
        assert!(is_near || estimated.max(used) < LEAST, "{case}");
    }
}

/// Bytes by which an estimate of a large network may be off beyond the factor. The peak of a process that simulates next
/// to nothing differs by as much from machine to machine, because the C library gives each thread an arena of its own and
/// the kernel maps files in larger or smaller pieces. A network that takes 3 MB in all cannot be measured better.
const SLACK: f64 = 2e6;

const STAR: &str = r#"{ kind = "star", nodes = 2048 }"#;
const SPINE: &str = r#"{ kind = "leaf-spine", racks = 256, hosts_per_rack = 32, spines = 16 }"#;
const TREE: &str = r#"{ kind = "fat-tree", ports = 32 }"#;
const TORUS: &str = r#"{ kind = "torus", shape = [16, 16, 16] }"#;

/// Networks of thousands of nodes with each protocol, and the size of a message of each node.
const LARGE: [(&str, &[&str], &str); 6] = [
    (STAR, &["edm", "cxl"], "256B"),
    (
        SPINE,
        &["ideal", "tcp", "dctcp", "pfabric", "homa", "ndp", "phost", "ird", "fastpass", "pfc-dcqcn"],
        "1kB",
    ),
    (SPINE, &["dctcp", "homa", "ndp"], "16KiB"),
    (TREE, &["dctcp", "ndp", "fastpass"], "1kB"),
    (TORUS, &["tcp", "pfq"], "1kB"),
    (SPINE, &["cxl"], "256B"),
];

fn large(topology: &str, protocol: &str, size: &str, messages: u32) -> String {
    // `cxl` numbers up to 4096 nodes.
    let topology = if protocol == "cxl" { topology.replace("256", "128") } else { topology.into() };
    format!(
        "network = {{ topology = {topology}, link = {{ rate = \"100Gbps\", propagation = \"1us\" }}, \
         switch = {{ buffer = \"1MiB\" }} }}\nfabric.protocol = \"{protocol}\"\n\
         workload = {{ kind = \"flows\", size = \"{size}\", pattern = \"permutation\", load = 0.3, messages = {messages} }}\n"
    )
}

#[test]
fn estimates_of_large_networks_are_close() {
    let desk = Desk::new("memory-large");
    let small = desk.file("small.toml", large(r#"{ kind = "star", nodes = 2 }"#, "ideal", "64B", 1));
    let empty = peak(&desk, &small, &[]);
    let mut far = Vec::new();
    for (topology, protocols, size) in LARGE {
        for protocol in protocols {
            let file = desk.file("large.toml", large(topology, protocol, size, 8192));
            let scenario =
                Scenario::load(Path::new(&file), &Default::default()).and_then(unrack_sim::check).unwrap();
            let need = Need::from_scenario(&scenario);
            let program: f64 =
                need.parts.iter().filter(|part| part.key.is_empty()).map(|part| part.bytes).sum();
            let (used, estimated) = (peak(&desk, &file, &[]) - empty, need.bytes() - program);
            let ratio = estimated / used;
            eprintln!("{protocol:9} {topology} {size}: {used:.2e} used, estimated {ratio:.2} times as much");
            if !(used / CLOSE - SLACK..=used * CLOSE + SLACK).contains(&estimated) {
                far.push(format!("{protocol} on {topology}, {size}: {used:.2e} used, estimated {need:#?}"));
            }
        }
    }
    assert!(far.is_empty(), "{}", far.join("\n"));
}

#[test]
fn a_check_says_what_is_estimated() {
    let file = example("star-edm.toml");
    let scenario = Scenario::load(Path::new(&file), &Default::default()).and_then(unrack_sim::check).unwrap();
    let said = Desk::new("memory-check").done(&["scenario", "check", &file]);
    let about = said.lines().find_map(|line| line.strip_prefix("memory: about ")).expect(&said);
    let mut words = about.split([' ', ':']);
    let number: f64 = words.next().unwrap().parse().unwrap();
    assert_eq!(words.next(), Some("MiB"), "{said}");
    let estimated = Need::from_scenario(&scenario).bytes() / f64::from(1 << 20);
    assert!((number - estimated).abs() <= estimated / 100.0, "{said}: {estimated}");
}

/// Returns the peak resident memory of a simulation, in bytes.
fn peak(desk: &Desk, file: &str, set: &[String]) -> f64 {
    let role = ["--exact", "memory::role", "--nocapture", "--ignored"];
    let mut command = Command::new(std::env::current_exe().unwrap());
    let arguments = [&[file.to_string()], set].concat().join("\n");
    command.args(role).env(ARGUMENTS, arguments).env("TMPDIR", desk.path(""));
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let kib = said.lines().find_map(|line| line.split_once(PEAK)?.1.trim().parse::<f64>().ok());
    kib.unwrap_or_else(|| panic!("{said}{}", crate::desk::stderr(&output))) * 1024.0
}

const ARGUMENTS: &str = "UNRACK_TEST_SIMULATES";
const PEAK: &str = "peak KiB: ";

/// Not a test by itself: starts a simulation from a small process. Linux counts the memory of the process that
/// started a program as the program's own, and that of all tests is more than a simulation's.
#[test]
#[ignore = "needs a scenario in the environment"]
fn role() {
    let Ok(arguments) = std::env::var(ARGUMENTS) else { return };
    let mut arguments = arguments.lines();
    let mut command = Command::new(env!("CARGO_BIN_EXE_unrack"));
    command.args(["sim", "--json", arguments.next().unwrap()]);
    arguments.for_each(|set| _ = command.args(["--set", set]));
    // `wait4` below waits for it, and says what it used.
    #[expect(clippy::zombie_processes)]
    let child = command.stdout(Stdio::null()).spawn().unwrap();
    let mut status = 0;
    // SAFETY: `rusage` is plain data, for which zeroes are valid.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both are alive for the call, and nothing else waits for this child.
    let waited = unsafe { libc::wait4(child.id() as i32, &mut status, 0, &mut usage) };
    assert_eq!((waited, status), (child.id() as i32, 0));
    println!("\n{PEAK}{}", usage.ru_maxrss);
}
