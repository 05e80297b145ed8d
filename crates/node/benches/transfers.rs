//! What batching, merging and asynchrony bring, one after the other (DDC §5.1), over TCP on this machine;
//! and the same through shared memory.
//!
//! The node is a process of its own: this program, started again.

use rustix::event::{PollFd, PollFlags};
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use unrack_node::{Listen, Node, Options};
use unrack_pager::node::{Address, Client, Completion, Settings, Tuning};
use unrack_units::Bytes;

const PAGE: usize = 4096;
const PAGES: usize = 8192;
/// Each figure is the median of so many.
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
    let node = Node::start(&Options::new(listen, Bytes::new(1 << 30))).expect("a free address");
    println!("{}", node.address());
    // Ends with the process that started it.
    let _ = std::io::stdin().read_line(&mut String::new());
    eprint!("{}", node.stop());
}

/// How a client transfers: one row of the table.
struct Way {
    name: &'static str,
    tuning: Tuning,
    /// Pages asked for before waiting for all of them; `None`: as many as fit, each waited for alone.
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
    println!("{:<32} {:>12} {:>7} {:>12} {:>7}", "TCP", "stores/s", "ratio", "loads/s", "ratio");
    let mut first = None;
    for way in ways() {
        let (stores, loads) = rates(&tcp, &way);
        let (store, load) = *first.get_or_insert((stores, loads));
        println!(
            "{:<32} {stores:>12.0} {:>6.1}x {loads:>12.0} {:>6.1}x",
            way.name,
            stores / store,
            loads / load
        );
    }
    latency(&tcp);
    end(&mut child);
    let path = std::env::temp_dir().join(format!("unrack-bench-{}", std::process::id()));
    let (mut child, address) = start(&format!("shm:{}", path.display()));
    let shared = Address::Shared(address);
    let [way, ..] = ways();
    let (stores, loads) = rates(&shared, &way);
    println!("{:<32} {stores:>12.0} {:>7} {loads:>12.0}", "shared memory, one at a time", "");
    end(&mut child);
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

/// Stores and loads a second: medians.
fn rates(address: &Address, way: &Way) -> (f64, f64) {
    let mut client =
        Client::connect(&Settings { tuning: way.tuning, ..Settings::new(address.clone()) }).unwrap();
    let mut memory = vec![1u8; PAGES * PAGE];
    let (mut stores, mut loads) = (Vec::new(), Vec::new());
    for _ in 0..=REPEATS {
        stores.push(rate(&mut client, way, &mut memory, true));
        loads.push(rate(&mut client, way, &mut memory, false));
    }
    // The first round also makes the pages.
    (median(stores.split_off(1)), median(loads.split_off(1)))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn rate(client: &mut Client, way: &Way, memory: &mut [u8], stores: bool) -> f64 {
    let begin = Instant::now();
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
    assert!(!done.iter().any(|completion| matches!(completion, Completion::Refused { .. })));
    PAGES as f64 / begin.elapsed().as_secs_f64()
}

fn queue(client: &mut Client, id: u32, slot: &mut [u8], store: bool) -> bool {
    assert!(slot.len() >= PAGE);
    let slot = slot.as_mut_ptr() as usize;
    // SAFETY: the memory outlives the round, which ends when everything completed.
    unsafe { if store { client.store(id, slot) } else { client.load(id, slot) } }.is_ok()
}

fn wait(client: &Client) {
    rustix::event::poll(&mut [PollFd::new(&client.fd(), client.interest())], None).unwrap();
}

/// How long one load takes alone, and while stores fill the window. Polls without sleeping.
fn latency(address: &Address) {
    let mut client = Client::connect(&Settings::new(address.clone())).unwrap();
    let mut memory = vec![1u8; PAGES * PAGE];
    let way = Way { name: "", tuning: Tuning::default(), at_once: None };
    rate(&mut client, &way, &mut memory, true);
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
        // Every other page: nothing to merge, the worst case.
        for at in (1..2 * PAGES_AT_ONCE).map(|page| page * 2) {
            queue(client, at as u32, &mut memory[at * PAGE..], true);
        }
        client.progress(&mut done).unwrap();
    }
    let id = (n * 7 % (PAGES / 2) * 2 + 1) as u32;
    let begin = Instant::now();
    assert!(queue(client, id, &mut memory[id as usize * PAGE..], false));
    while !done.contains(&Completion::Loaded { id }) {
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
