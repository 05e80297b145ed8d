//! One client of several nodes: striped, with the sum of the capacities, or mirrored, so that nodes may die.

use crate::common::{Slot, end_of, load, options, pages, settings, settle, store, tcp, tcp_node};
use rustix::event::{PollFd, Timespec};
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unrack_node::{Listen, Options, RunningNode};
use unrack_pager::control::NodeCounts;
use unrack_pager::node::{Client, ErrorKind, NodeSettings, PageCompletion, Redundancy, Rejected};
use unrack_testing::{ClosedPort, TestFolder};

/// Pages that go to one node before the next node's turn comes.
const STRIPE: u64 = 32;
/// Mirror that gives up a node after a silence that is longer than a busy machine keeps a node from running.
const MIRROR: Redundancy = Redundancy::Mirrored { spare_patience_ns: 2_000_000_000 };

/// Returns the settings of a client, with counts.
fn counted(settings: NodeSettings) -> NodeSettings {
    NodeSettings { counts: Some(Box::leak(Box::new(NodeCounts::new()))), ..settings }
}

fn counts(node: &NodeSettings) -> &'static NodeCounts {
    node.counts.unwrap()
}

fn stored(node: &NodeSettings) -> u64 {
    counts(node).stored.load(Relaxed)
}

/// Stores pages all at once, page `id` with value `id`. Returns the completions.
fn store_all(client: &mut Client, ids: std::ops::Range<u32>) -> Vec<PageCompletion> {
    let mut slots: Vec<Slot> = ids.clone().map(|id| Slot::with(u64::from(id))).collect();
    for (id, slot) in ids.zip(&mut slots) {
        // SAFETY: the slots live until everything has settled.
        unsafe { client.store(id, slot.address()) }.unwrap();
    }
    settle(client).unwrap()
}

#[test]
fn striping_conserves_pages_over_nodes_of_every_kind() {
    let folder = TestFolder::new("striped");
    let listen = Listen::Shared(folder.join("node"));
    let shared = Options { listen, extent_pages: 16, ..options(pages(1024)) };
    let nodes = [tcp_node(pages(1024)), tcp_node(pages(1024)), RunningNode::start(&shared).unwrap()];
    let at = nodes.each_ref().map(|node| counted(settings(node)));
    let mut client = Client::connect_all(&at, Redundancy::Striped).unwrap();
    let done = store_all(&mut client, 0..600);
    assert!(done.len() == 600 && done.iter().all(|one| matches!(one, PageCompletion::Stored { .. })));
    // 18 stripes and three quarters of one: 7, 6 and 6 of them.
    let each = [6 * STRIPE + 24, 6 * STRIPE, 6 * STRIPE];
    assert_eq!(at.each_ref().map(stored), each);
    assert_eq!([&nodes[0], &nodes[1]].map(|node| node.statistics().stored_pages), [each[0], each[1]]);
    assert!((0..600).rev().step_by(7).all(|id| load(&mut client, id).holds(u64::from(id))));
    let loaded: u64 = at.iter().map(|node| counts(node).loaded.load(Relaxed)).sum();
    assert_eq!(loaded, 600u64.div_ceil(7), "each page was loaded from one node");
    assert_eq!(client.forget(&(0..600).collect::<Vec<_>>()), 600);
    settle(&mut client).unwrap();
    let mut slot = Slot::with(0);
    // SAFETY: the call fails at once.
    assert_eq!(unsafe { client.load(5, slot.address()) }, Err(Rejected::NotHeld));
    assert_eq!(store(&mut client, 5, 55), PageCompletion::Stored { id: 5 });
    assert!(load(&mut client, 5).holds(55));
    // A forget has no answer.
    while nodes[1].statistics().forgotten_pages < each[1] {
        std::thread::yield_now();
    }
}

#[test]
fn striped_capacity_is_the_sum_however_unequal() {
    let nodes = [40, 100, 20].map(|capacity| tcp_node(pages(capacity)));
    let at = nodes.each_ref().map(|node| counted(settings(node)));
    let mut client = Client::connect_all(&at, Redundancy::Striped).unwrap();
    assert_eq!((client.limits().capacity, client.limits().share), (160, 160));
    let done = store_all(&mut client, 0..160);
    assert!((0..160).all(|id| done.contains(&PageCompletion::Stored { id })), "{done:?}");
    assert_eq!(at.each_ref().map(stored), [40, 100, 20]);
    assert_eq!(store(&mut client, 160, 1), PageCompletion::Refused { id: 160 });
    assert!((0..160).all(|id| load(&mut client, id).holds(u64::from(id))));
    // A page that is stored again keeps its place although its node is full.
    assert_eq!(store(&mut client, 7, 700), PageCompletion::Stored { id: 7 });
    assert!(load(&mut client, 7).holds(700));
    assert_eq!(client.forget(&[9]), 1);
    assert_eq!(store(&mut client, 161, 161), PageCompletion::Stored { id: 161 });
    assert!(load(&mut client, 161).holds(161));
    assert_eq!(nodes.iter().map(|node| node.statistics().held_pages).sum::<u64>(), 160);
}

#[test]
fn each_node_of_a_mirror_has_all_pages_and_the_least_capacity_counts() {
    let nodes = [50, 30].map(|capacity| tcp_node(pages(capacity)));
    let at = nodes.each_ref().map(|node| counted(settings(node)));
    let mut client = Client::connect_all(&at, MIRROR).unwrap();
    assert_eq!((client.limits().capacity, client.limits().share), (30, 30));
    let done = store_all(&mut client, 0..30);
    assert!(done.len() == 30 && done.iter().all(|one| matches!(one, PageCompletion::Stored { .. })));
    assert_eq!(at.each_ref().map(stored), [30, 30]);
    assert_eq!(store(&mut client, 30, 30), PageCompletion::Refused { id: 30 });
    assert!((0..30).all(|id| load(&mut client, id).holds(u64::from(id))));
    assert_eq!(client.forget(&[1, 2]), 2);
    settle(&mut client).unwrap();
    assert_eq!(store(&mut client, 31, 31), PageCompletion::Stored { id: 31 });
    assert_eq!(nodes.each_ref().map(|node| node.statistics().forgotten_pages), [2, 2]);
}

#[test]
fn a_store_is_withdrawn_from_all_nodes_or_from_none() {
    let nodes = [tcp_node(pages(50)), tcp_node(pages(50))];
    for redundancy in [MIRROR, Redundancy::Striped] {
        let at = nodes.each_ref().map(settings);
        let mut client = Client::connect_all(&at, redundancy).unwrap();
        let mut slot = Slot::with(1);
        // SAFETY: the slot lives as long as the client.
        unsafe { client.store(3, slot.address()) }.unwrap();
        assert!(client.withdraw(3) && !client.withdraw(3));
        assert_eq!(settle(&mut client).unwrap(), []);
        // SAFETY: the slot lives as long as the client; the load fails at once.
        assert_eq!(unsafe { client.load(3, slot.address()) }, Err(Rejected::NotHeld));
        store(&mut client, 3, 4);
        assert!(!client.withdraw(3) && load(&mut client, 3).holds(4));
    }
}

/// Role of this program if a test started it: a node of a set.
#[test]
#[ignore = "runs until it is killed"]
fn node_of_a_set() {
    let node = tcp_node(pages(1 << 16));
    println!("listening {}", node.address());
    std::thread::sleep(Duration::from_secs(300));
}

/// Node in a process of its own, which ends with the test.
struct Other {
    process: Child,
    at: NodeSettings,
}

impl Other {
    fn start() -> Other {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "several::node_of_a_set", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| line.split_once("listening ")?.1.rsplit(':').next()?.parse().ok());
        Other { process, at: counted(NodeSettings::new(tcp(port.unwrap()))) }
    }

    fn kill(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
    }

    fn signal(&self, name: &str) {
        let sent = Command::new("kill").args([format!("-{name}"), self.process.id().to_string()]).status();
        assert!(sent.unwrap().success());
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Client that stores, loads and forgets random pages, and checks every byte of each.
struct Checked {
    client: Client,
    /// State of the generator of random numbers (Knuth's MMIX).
    state: u64,
    /// Contents of each page that is stored.
    model: HashMap<u32, u64>,
    storing: HashMap<u32, (Slot, u64)>,
    loading: HashMap<u32, Slot>,
    loaded: usize,
}

impl Checked {
    fn new(client: Client, seed: u64) -> Checked {
        let (model, storing, loading) = Default::default();
        Checked { client, state: seed, model, storing, loading, loaded: 0 }
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % below
    }

    fn step(&mut self) {
        let id = self.random(500) as u32;
        let is_under_way = self.storing.contains_key(&id) || self.loading.contains_key(&id);
        match self.random(8) {
            _ if is_under_way => self.progress(),
            0..=3 => {
                let value = self.state;
                let mut slot = Slot::with(value);
                // SAFETY: the slot lives in `storing` until the store completes.
                if unsafe { self.client.store(id, slot.address()) }.is_ok() {
                    self.storing.insert(id, (slot, value));
                }
            }
            4..=6 if self.model.contains_key(&id) => {
                let mut slot = Slot::with(u64::MAX);
                // SAFETY: the slot lives in `loading` until the load completes.
                if unsafe { self.client.load(id, slot.address()) }.is_ok() {
                    self.loading.insert(id, slot);
                }
            }
            7 if self.client.forget(&[id]) == 1 => _ = self.model.remove(&id),
            _ => self.progress(),
        }
        if self.storing.len() + self.loading.len() > 100 {
            self.progress();
        }
    }

    fn progress(&mut self) {
        let mut done = Vec::new();
        self.client.flush();
        self.client.progress(&mut done).unwrap();
        for completion in &done {
            match completion {
                PageCompletion::Stored { id } => {
                    _ = self.model.insert(*id, self.storing.remove(id).unwrap().1)
                }
                PageCompletion::Loaded { id } => {
                    assert!(
                        self.loading.remove(id).unwrap().holds(self.model[id]),
                        "page {id} has other contents"
                    );
                    self.loaded += 1;
                }
                PageCompletion::Refused { .. } => panic!("{completion:?}"),
            }
        }
        if done.is_empty() {
            let moment = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            let (socket, interest) = (self.client.fd(), self.client.interest());
            rustix::event::poll(&mut [PollFd::new(&socket, interest)], Some(&moment)).unwrap();
        }
    }

    /// Waits for everything under way, and loads every page.
    fn check_all(&mut self) {
        self.finish();
        let ids: Vec<u32> = self.model.keys().copied().collect();
        for id in ids {
            let mut slot = Slot::with(u64::MAX);
            // SAFETY: the slot lives in `loading` until the load completes.
            unsafe { self.client.load(id, slot.address()) }.unwrap();
            self.loading.insert(id, slot);
        }
        self.finish();
    }

    fn finish(&mut self) {
        let begun = Instant::now();
        while !self.storing.is_empty() || !self.loading.is_empty() {
            assert!(begun.elapsed() < Duration::from_secs(60), "nothing more comes");
            self.progress();
        }
    }
}

#[test]
fn a_mirror_loses_nothing_when_a_node_is_killed_or_stopped_at_any_time() {
    for (round, signal) in ["KILL", "STOP", "KILL", "STOP"].into_iter().enumerate() {
        let nodes: Vec<Other> = (0..2 + round / 2).map(|_| Other::start()).collect();
        let at: Vec<NodeSettings> = nodes.iter().map(|node| node.at.clone()).collect();
        let mut checked = Checked::new(Client::connect_all(&at, MIRROR).unwrap(), 7 + round as u64);
        let (when, who) = (500 + checked.random(2000), checked.random(nodes.len() as u64) as usize);
        for step in 0..5000 {
            if step == when {
                nodes[who].signal(signal);
            }
            checked.step();
        }
        checked.check_all();
        assert!(checked.loaded > 300, "{}", checked.loaded);
        for (node, at) in at.iter().enumerate() {
            let lost = counts(at).lost();
            assert_eq!(lost.is_some(), node == who, "{signal}: {lost:?}");
            assert!(lost.is_none_or(|why| why.contains(&at.address.to_string())));
        }
    }
}

#[test]
fn the_end_of_all_nodes_and_of_a_striped_one_is_an_error_that_names_it() {
    let mut nodes = [Other::start(), Other::start()];
    let at = nodes.each_ref().map(|node| node.at.clone());
    let mut client = Client::connect_all(&at, MIRROR).unwrap();
    store_all(&mut client, 0..100);
    nodes[1].kill();
    // Wherever the loads go, one of them meets the end of the session.
    assert!((0..100).all(|id| load(&mut client, id).holds(u64::from(id))));
    nodes[0].kill();
    let error = end_of(&mut client);
    assert_eq!(error.address, at[0].address);
    assert!(matches!(error.kind, ErrorKind::Closed | ErrorKind::Broken(_)), "{error}");
    assert!(counts(&at[1]).is_lost() && !counts(&at[0]).is_lost());

    let mut nodes = [Other::start(), Other::start()];
    let at = nodes.each_ref().map(|node| node.at.clone());
    let mut client = Client::connect_all(&at, Redundancy::Striped).unwrap();
    store_all(&mut client, 0..100);
    nodes[1].kill();
    assert_eq!(end_of(&mut client).address, at[1].address);
}

#[test]
fn a_lost_node_is_not_asked_again_and_one_that_is_not_there_is_lost() {
    let (node, nobody) = (tcp_node(pages(10)), ClosedPort::new());
    let absent = || counted(NodeSettings::new(tcp(nobody.address().port())));
    let at = [absent(), counted(settings(&node))];
    let mut client = Client::connect_all(&at, MIRROR).unwrap();
    assert!(counts(&at[0]).lost().unwrap().contains("cannot reach"), "{:?}", counts(&at[0]).lost());
    assert_eq!(store(&mut client, 1, 1), PageCompletion::Stored { id: 1 });
    // Another session leaves it out: it is not given a second reason, and would accept none anyway.
    let mut other = Client::connect_all(&at, MIRROR).unwrap();
    assert_eq!(store(&mut other, 1, 2), PageCompletion::Stored { id: 1 });
    assert!(load(&mut other, 1).holds(2) && load(&mut client, 1).holds(1));
    let none = [absent(), absent()];
    let error = Client::connect_all(&none, MIRROR).err().unwrap();
    assert!(matches!(error.kind, ErrorKind::Connect(_)), "{error}");
    assert!(Client::connect_all(&[absent(), at[1].clone()], Redundancy::Striped).is_err());
}
