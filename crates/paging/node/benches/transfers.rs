//! Measures the gains of batching, merging and asynchrony, added one after the other (DDC §5.1), over TCP on this machine and through
//! shared memory.
//!
//! The node is a separate process: this program, started a second time. The table shows the rate and the work. Work is the CPU time of both
//! ends together, which is less sensitive than the rate to other programs on the machine.

use rustix::event::{PollFd, PollFlags};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use unrack_node::{Listen, Options, RunningNode};
use unrack_pager::node::{Address, Client, NodeSettings, PageCompletion, Tuning};
use unrack_units::Bytes;
use unrack_wire::PAGE;

const PAGES: usize = 8192;
/// Number of measurements of which each figure is the median.
const REPEATS: usize = 5;
const PAGES_AT_ONCE: usize = 32;

fn main() {
    let mut arguments = std::env::args().skip(1);
    match arguments.next().as_deref() {
        Some("serve") => serve(&arguments.next().expect("an address")),
        _ => compare(),
    }
}

fn serve(address: &str) {
    let listen = match address.strip_prefix("shm:") {
        Some(path) => Listen::Shared(path.into()),
        None => Listen::Tcp(address.parse().expect("an address")),
    };
    let node = RunningNode::start(&Options::new(listen, Bytes::new(1 << 30))).expect("a free address");
    println!("{}", node.address());
    // The node ends when the process that started it closes the pipe.
    let _ = std::io::stdin().read_line(&mut String::new());
    eprint!("{}", node.stop());
}

/// A mode in which a client transfers pages: one row of the table.
struct Way {
    name: &'static str,
    tuning: Tuning,
    /// Number of pages that are queued before all of them are waited for. `None`: as many as fit are queued, and each is waited for
    /// separately.
    at_once: Option<usize>,
}

fn ways() -> [Way; 4] {
    let single = Tuning { batch: 1, merge: 1, ..Tuning::default() };
    let batch = Tuning { batch: PAGES_AT_ONCE, merge: 1, ..Tuning::default() };
    let merged = Tuning { batch: PAGES_AT_ONCE, ..Tuning::default() };
    [
        Way { name: "one at a time", tuning: single, at_once: Some(1) },
        Way { name: "batched", tuning: batch, at_once: Some(PAGES_AT_ONCE) },
        Way { name: "batched, merged", tuning: merged, at_once: Some(PAGES_AT_ONCE) },
        Way { name: "batched, merged, asynchronous", tuning: merged, at_once: None },
    ]
}

fn compare() {
    let (mut child, address) = start("127.0.0.1:0");
    let (ip, port) = ([127, 0, 0, 1], address.rsplit(':').next().unwrap().parse().unwrap());
    let tcp = Address::Tcp { ip, port };
    let head = ["pages/s", "ratio", "work us", "ratio"].map(|name| format!("{name:>9}")).concat();
    println!("{:<32}{:<38}loads", "", "stores");
    println!("{:<32}{head}  {head}", "");
    let base = measure(&tcp, child.id(), &ways()[0]);
    for way in &ways()[..] {
        print_row(way.name, &base, &measure(&tcp, child.id(), way));
    }
    latency(&tcp);
    end(&mut child);
    let path = std::env::temp_dir().join(format!("unrack-bench-{}", std::process::id()));
    let (mut child, address) = start(&format!("shm:{}", path.display()));
    let shared = measure(&Address::Shared(address), child.id(), &ways()[0]);
    print_row("shared memory, one at a time", &base, &shared);
    end(&mut child);
}

fn print_row(name: &str, base: &[TransferCost; 2], costs: &[TransferCost; 2]) {
    let columns = costs.iter().zip(base).map(|(cost, base)| {
        let TransferCost { rate, work_us } = cost;
        format!("{rate:>9.0}{:>8.1}x{work_us:>9.2}{:>8.2}x", rate / base.rate, work_us / base.work_us)
    });
    println!("{name:<32}{}", columns.collect::<Vec<_>>().join("  "));
}

fn start(address: &str) -> (Child, String) {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["serve", address])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    (child, line.trim().to_owned())
}

fn end(child: &mut Child) {
    drop(child.stdin.take());
    child.wait().unwrap();
}

/// Cost of transfers: pages per second, and CPU time of both ends per page in µs.
struct TransferCost {
    rate: f64,
    work_us: f64,
}

/// Returns the median costs of stores and of loads.
fn measure(address: &Address, node: u32, way: &Way) -> [TransferCost; 2] {
    let settings = NodeSettings { tuning: way.tuning, ..NodeSettings::new(address.clone()) };
    let mut client = Client::connect(&settings).unwrap();
    let mut memory = vec![1u8; PAGES * PAGE];
    // The first round creates the pages in the node, and is not measured.
    transfer(&mut client, way, &mut memory, true);
    [true, false].map(|stores| {
        let round = |_| {
            let (begin, work) = (Instant::now(), work_ns(node));
            transfer(&mut client, way, &mut memory, stores);
            let work_us = (work_ns(node) - work) as f64 / 1e3 / PAGES as f64;
            (PAGES as f64 / begin.elapsed().as_secs_f64(), work_us)
        };
        let (rates, works): (Vec<f64>, Vec<f64>) = (0..REPEATS).map(round).unzip();
        TransferCost { rate: median(rates), work_us: median(works) }
    })
}

/// Returns the CPU time in ns of all threads of the node and of this process.
fn work_ns(node: u32) -> u64 {
    let of = |process: u32| -> u64 {
        let tasks = std::fs::read_dir(format!("/proc/{process}/task")).unwrap();
        let files = tasks.map(|task| std::fs::read_to_string(task.unwrap().path().join("schedstat")));
        files.filter_map(|text| text.ok()?.split(' ').next()?.parse::<u64>().ok()).sum()
    };
    of(node) + of(std::process::id())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn transfer(client: &mut Client, way: &Way, memory: &mut [u8], stores: bool) {
    let (mut queued, mut done) = (0, Vec::new());
    while done.len() < PAGES {
        let goal = way.at_once.map_or(PAGES, |at_once| done.len() / at_once * at_once + at_once).min(PAGES);
        while queued < goal && queue(client, queued as u32, &mut memory[queued * PAGE..], stores) {
            queued += 1;
        }
        client.flush();
        let before = done.len();
        client.progress(&mut done).unwrap();
        if done.len() == before {
            wait(client);
        }
    }
    assert!(!done.iter().any(|completion| matches!(completion, PageCompletion::Refused { .. })));
}

fn queue(client: &mut Client, id: u32, slot: &mut [u8], store: bool) -> bool {
    assert!(slot.len() >= PAGE);
    let slot = slot.as_mut_ptr() as usize;
    // SAFETY: the memory outlives the round, which ends only when all requests have completed.
    unsafe { if store { client.store(id, slot) } else { client.load(id, slot) } }.is_ok()
}

fn wait(client: &Client) {
    rustix::event::poll(&mut [PollFd::new(&client.fd(), client.interest())], None).unwrap();
}

/// Measures the latency of one load, alone and while stores fill the window. Polls without sleeping.
fn latency(address: &Address) {
    let mut client = Client::connect(&NodeSettings::new(address.clone())).unwrap();
    let mut memory = vec![1u8; PAGES * PAGE];
    let way = Way { name: "", tuning: Tuning::default(), at_once: None };
    transfer(&mut client, &way, &mut memory, true);
    for busy in [false, true] {
        let mut times: Vec<Duration> =
            (0..2000).map(|n| load_once(&mut client, n, &mut memory, busy)).collect();
        times.sort();
        let [median, p99] =
            [times.len() / 2, times.len() * 99 / 100].map(|at| times[at].as_nanos() as f64 / 1e3);
        let name = if busy { "a load among stores" } else { "a load alone" };
        println!("{name:<32} median {median:.1} us, p99 {p99:.1} us");
    }
}

fn load_once(client: &mut Client, n: usize, memory: &mut [u8], busy: bool) -> Duration {
    let mut done = Vec::new();
    if busy {
        // Every second page is stored, so that no requests can be merged, which is the worst case.
        for at in (1..2 * PAGES_AT_ONCE).map(|page| page * 2) {
            queue(client, at as u32, &mut memory[at * PAGE..], true);
        }
        client.progress(&mut done).unwrap();
    }
    let id = (n * 7 % (PAGES / 2) * 2 + 1) as u32;
    let begin = Instant::now();
    assert!(queue(client, id, &mut memory[id as usize * PAGE..], false));
    while !done.contains(&PageCompletion::Loaded { id }) {
        client.progress(&mut done).unwrap();
    }
    let took = begin.elapsed();
    client.flush();
    while !client.is_idle() {
        client.progress(&mut done).unwrap();
        rustix::event::poll(&mut [PollFd::new(&client.fd(), PollFlags::IN)], Some(&Default::default()))
            .unwrap();
    }
    took
}
