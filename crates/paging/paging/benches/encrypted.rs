//! Cost of encryption per page. Measures the time of one load at a time from a memory node on loopback, first in plain text and then
//! through the process that encrypts for pagers; and the pages per second with as many requests in flight as a pager has.
//!
//! The client polls without sleeping, like a pager that waits for a fetch. The memory node runs in this process too.

use std::time::Instant;
use unrack_basis::PAGE;
use unrack_keys::folder::trust;
use unrack_keys::{EncryptionPolicy, Keys};
use unrack_node::{Listen, Options, RunningNode};
use unrack_pager::control::PagerSettings as Control;
use unrack_pager::node::{Address, Client, NodeSettings, PageCompletion};
use unrack_paging::MemoryNode;
use unrack_units::Bytes;

const PAGES: usize = 4096;
const LOADS: usize = 4000;

fn main() {
    let folder = std::env::temp_dir().join(format!("unrack-bench-pages-{}", std::process::id()));
    let own = Keys::make(&folder).expect("a folder for keys").fingerprint();
    trust(&folder, own, "self").expect("a list of keys");
    println!("pages from a node on loopback: us a load alone (p50, p99), and pages a second");
    for (name, policy) in
        [("plain", EncryptionPolicy::Never), ("encrypted", EncryptionPolicy::Always(folder.clone()))]
    {
        let [p50, p99, a_second] = measure(&policy);
        println!("{name:<12} {p50:>8.1} {p99:>8.1} {a_second:>10.0}");
    }
    let _ = std::fs::remove_dir_all(&folder);
}

fn measure(policy: &EncryptionPolicy) -> [f64; 3] {
    let listen = Listen::Tcp("127.0.0.1:0".parse().expect("an address"));
    let per_client = "100%".parse().expect("a share");
    let options = Options { policy: policy.clone(), per_client, ..Options::new(listen, Bytes::new(1 << 28)) };
    let serving = RunningNode::start(&options).expect("a free port");
    let mut place: MemoryNode = serving.address().to_string().parse().expect("an address");
    place.protect(policy).expect("keys");
    let mut client = Client::connect(&NodeSettings::new(address(&place))).expect("it serves");
    let mut memory = vec![1u8; PAGES * PAGE];
    let begun = Instant::now();
    all(&mut client, &mut memory, true);
    all(&mut client, &mut memory, false);
    let a_second = 2.0 * PAGES as f64 / begun.elapsed().as_secs_f64();
    let mut took: Vec<u64> = (0..LOADS).map(|n| one(&mut client, &mut memory, n * 7 % PAGES)).collect();
    took.sort_unstable();
    let at = |share: usize| took[took.len() * share / 100] as f64 / 1e3;
    [at(50), at(99), a_second]
}

/// Returns the address to which a pager would connect.
fn address(place: &MemoryNode) -> Address {
    let control = Control::default();
    place.tell(&control.nodes[0]);
    control.addresses().remove(0)
}

/// Stores or loads all pages.
fn all(client: &mut Client, memory: &mut [u8], store: bool) {
    let (mut queued, mut done) = (0, Vec::new());
    while done.len() < PAGES {
        while queued < PAGES && ask(client, memory, queued, store) {
            queued += 1;
        }
        client.flush();
        client.progress(&mut done).expect("a node");
    }
}

fn ask(client: &mut Client, memory: &mut [u8], page: usize, store: bool) -> bool {
    let at = memory[page * PAGE..][..PAGE].as_mut_ptr() as usize;
    // SAFETY: the memory outlives the client's use of it, because all requests complete before the memory is freed.
    unsafe { if store { client.store(page as u32, at) } else { client.load(page as u32, at) } }.is_ok()
}

/// Loads one page and returns the time that it took, in ns.
fn one(client: &mut Client, memory: &mut [u8], page: usize) -> u64 {
    let (begun, mut done) = (Instant::now(), Vec::new());
    assert!(ask(client, memory, page, false));
    while !done.contains(&PageCompletion::Loaded { id: page as u32 }) {
        client.progress(&mut done).expect("a node");
    }
    begun.elapsed().as_nanos() as u64
}
