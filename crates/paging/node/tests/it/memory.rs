//! Memory of a node: never more than its capacity and a stated amount beside it, whatever clients ask for.

use crate::common::{PAGE, Slot, connect, load, options, pages, refusal, settings, settle, store, tcp};
use proptest::prelude::*;
use std::collections::HashMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use unrack_keys::shares::{Peer, PeerShares};
use unrack_node::pages::{BLOCK, INDEX_BYTES, NodePages};
use unrack_node::part::SessionPages;
use unrack_node::session::Session;
use unrack_node::{Options, RunningNode, SESSION_BYTES};
use unrack_pager::node::{Client, ErrorKind, NodeSettings, PageCompletion};
use unrack_wire::{GreetingStatus, HEADER, Header, Verb};

const CLIENTS: usize = 4;

#[derive(Debug, Clone)]
enum Step {
    Store {
        client: usize,
        first: u32,
        count: u16,
    },
    Load {
        client: usize,
        first: u32,
    },
    Forget {
        client: usize,
        first: u32,
        count: u16,
    },
    /// The session ends, and another one begins.
    End {
        client: usize,
    },
}

/// Returns a strategy of steps with few ids, so that pages are stored again, and some ids far apart.
fn steps() -> impl Strategy<Value = Vec<Step>> {
    let first = || prop_oneof![6 => 0u32..400, 1 => (0u32..400).prop_map(|id| id << 16)];
    let client = || 0..CLIENTS;
    let step = prop_oneof![
        6 => (client(), first(), 1u16..65).prop_map(|(client, first, count)| Step::Store { client, first, count }),
        3 => (client(), first()).prop_map(|(client, first)| Step::Load { client, first }),
        6 => (client(), first(), 1u16..200).prop_map(|(client, first, count)| Step::Forget { client, first, count }),
        1 => client().prop_map(|client| Step::End { client }),
    ];
    prop::collection::vec(step, 1..120)
}

/// Node's sessions, and a model of the pages that each client holds.
struct Rack {
    shares: std::sync::Arc<PeerShares>,
    sessions: Vec<Session>,
    model: Vec<HashMap<u32, u64>>,
    next: u64,
}

impl Rack {
    fn new(capacity: u64, share: u64) -> Rack {
        let shares = PeerShares::new(capacity, share);
        let model = vec![HashMap::new(); CLIENTS];
        let mut rack = Rack { shares, sessions: Vec::new(), model, next: 0 };
        rack.sessions = (0..CLIENTS).map(|client| rack.session(client).unwrap()).collect();
        rack
    }

    /// Begins a session. Two sessions each belong to one client.
    fn session(&self, client: usize) -> Option<Session> {
        let part = SessionPages::new(self.shares.account(Peer::User(client as u32 / 2)), 0).ok()?;
        Some(Session::new(NodePages::new(part), Default::default()))
    }

    fn ask(&mut self, client: usize, verb: Verb, (first, count): (u32, u16), body: &[u8]) -> Vec<u8> {
        let input = [&Header::request(verb, first, count, 0).encode()[..], body].concat();
        let (mut used, mut replies) = (0, Vec::new());
        while used < input.len() {
            used += self.sessions[client].receive(&input[used..], &mut replies).unwrap();
        }
        while verb == Verb::Load && replies.len() < HEADER + PAGE {
            self.sessions[client].receive(&[], &mut replies).unwrap();
        }
        replies
    }

    fn take(&mut self, step: &Step) {
        match *step {
            Step::Store { client, first, count } => self.store(client, first, count),
            Step::Load { client, first } => self.load(client, first),
            Step::Forget { client, first, count } => {
                self.ask(client, Verb::Forget, (first, count), &[]);
                (first..first + u32::from(count)).for_each(|id| {
                    self.model[client].remove(&id);
                });
            }
            Step::End { client } => {
                // If nothing is free, no session can begin, and the old one stays.
                if let Some(session) = self.session(client) {
                    self.sessions[client] = session;
                    self.model[client].clear();
                }
            }
        }
    }

    fn store(&mut self, client: usize, first: u32, count: u16) {
        self.next += 1;
        let body = (0..u64::from(count)).flat_map(|at| contents(self.next + at)).collect::<Vec<u8>>();
        let reply = self.ask(client, Verb::Store, (first, count), &body);
        let stored = Header::decode(reply[..].first_chunk().unwrap()).unwrap().detail;
        for at in 0..stored {
            self.model[client].insert(first + at, self.next + u64::from(at));
        }
        self.next += u64::from(count);
        let free = self.shares.account(Peer::User(client as u32 / 2)).free();
        assert!(stored == u32::from(count) || free == 0, "refused without need");
    }

    fn load(&mut self, client: usize, first: u32) {
        if let Some(value) = self.model[client].get(&first).copied() {
            let reply = self.ask(client, Verb::Load, (first, 1), &[]);
            assert!(reply[HEADER..] == contents(value)[..], "page {first} of {client} has other contents");
        }
    }

    /// Checks that the pages taken from the node are those of its sessions, and within the limits.
    fn check(&self) {
        let of = |f: &dyn Fn(&NodePages) -> u64| {
            self.sessions.iter().map(|session| f(session.pages())).sum::<u64>()
        };
        let charged = of(&|pages| pages.charged());
        assert_eq!(self.shares.all().taken(), charged);
        let resident = of(&|pages| pages.resident_bytes() as u64);
        let most = self.shares.all().most() * (PAGE + INDEX_BYTES) as u64 + 2 * CLIENTS as u64 * PAGE as u64;
        assert!(resident <= most, "{resident} bytes of {most}");
        for (session, model) in self.sessions.iter().zip(&self.model) {
            assert_eq!(session.pages().held(), model.len() as u64);
            assert!(session.pages().charged() < session.pages().held() + BLOCK as u64);
        }
    }
}

fn contents(value: u64) -> [u8; PAGE] {
    let mut page = [0; PAGE];
    page.chunks_exact_mut(8).for_each(|word| word.copy_from_slice(&value.to_le_bytes()));
    page
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn memory_is_within_the_capacity_and_contents_are_right(
        steps in steps(), capacity in 1u64..600, share in 1u64..600,
    ) {
        let mut rack = Rack::new(capacity, share.min(capacity));
        for step in &steps {
            rack.take(step);
            rack.check();
        }
        for client in 0..CLIENTS {
            let ids: Vec<u32> = rack.model[client].keys().copied().collect();
            ids.into_iter().for_each(|id| rack.load(client, id));
        }
        let Rack { shares, sessions, .. } = rack;
        drop(sessions);
        prop_assert_eq!(shares.all().free(), capacity);
    }
}

const MIB: u64 = 1 << 20;
const FILLED: u64 = 64 * MIB;

/// Role of this program if the next test started it: the node that the test fills.
#[test]
#[ignore = "runs until it is killed"]
fn node_to_be_filled() {
    let node = RunningNode::start(&options(unrack_units::Bytes::new(FILLED))).unwrap();
    println!("listening {}", node.address());
    std::thread::sleep(std::time::Duration::from_secs(300));
}

/// Node in a process of its own, which ends with the test.
struct Other(Child, u16);

impl Other {
    fn start() -> Other {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "memory::node_to_be_filled", "--ignored", "--nocapture"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let port = lines.find_map(|line| line.split_once("listening ")?.1.rsplit(':').next()?.parse().ok());
        Other(child, port.unwrap())
    }

    fn connect(&self) -> Client {
        Client::connect(&NodeSettings::new(tcp(self.1))).unwrap()
    }

    /// Returns the bytes of memory that the process has.
    fn resident(&self) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.0.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
    }
}

impl Drop for Other {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Stores pages until one is refused. Returns the ids of the stored ones.
fn fill(client: &mut Client, ids: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut slot = Slot::with(1);
    let (mut kept, mut refused) = (Vec::new(), false);
    let mut ids = ids.peekable();
    while !refused && ids.peek().is_some() {
        for id in ids.by_ref().take(512) {
            // SAFETY: the slot lives until all of these have settled, and does not change.
            unsafe { client.store(id, slot.address()) }.unwrap();
        }
        for completion in settle(client).unwrap() {
            match completion {
                PageCompletion::Stored { id } => kept.push(id),
                PageCompletion::Refused { .. } => refused = true,
                PageCompletion::Loaded { .. } => {}
            }
        }
    }
    kept
}

/// Sixteen clients, one after the other, store to the limit and forget 511 of 512 pages. With blocks of 512 pages
/// that stay while one page lives, the node took 16 times its capacity.
#[test]
fn sparse_pages_of_many_clients_do_not_fill_a_node_beyond_its_capacity() {
    let node = Other::start();
    let empty = node.resident();
    let mut clients: Vec<Client> = (0..16).map(|_| node.connect()).collect();
    let most =
        empty + FILLED + FILLED / PAGE as u64 * INDEX_BYTES as u64 + 16 * SESSION_BYTES as u64 + 16 * MIB;
    for client in &mut clients {
        let stored = fill(client, 0..1 << 20);
        assert!(node.resident() <= most, "{} MiB of {} MiB, full", node.resident() / MIB, most / MIB);
        for id in stored.into_iter().filter(|id| id % 512 != 0) {
            while client.forget(&[id]) == 0 {
                settle(client).unwrap();
            }
        }
        // A forget has no answer. Once a later load is answered, it is done.
        settle(client).unwrap();
        load(client, 0);
        assert!(node.resident() <= most, "{} MiB of {} MiB", node.resident() / MIB, most / MIB);
    }
    // Few pages are held now.
    let most = empty + 16 * (32 * PAGE + 64 * PAGE + SESSION_BYTES) as u64 + 4 * MIB;
    assert!(node.resident() <= most, "{} MiB of {} MiB at the end", node.resident() / MIB, most / MIB);
}

/// The same with ids as far apart as possible, stored and forgotten. This once left an index of 256 MiB per
/// session.
#[test]
fn ids_far_apart_do_not_fill_a_node() {
    let node = Other::start();
    let empty = node.resident();
    let mut clients: Vec<Client> = (0..4).map(|_| node.connect()).collect();
    for client in &mut clients {
        for id in (0..1u32 << 26).step_by(1 << 13) {
            assert!(matches!(store(client, id, 1), PageCompletion::Stored { .. }));
            assert_eq!(client.forget(&[id]), 1);
        }
    }
    let grown = (node.resident() - empty) as usize;
    assert!(grown <= 4 * SESSION_BYTES + (16 << 20), "{} KiB", grown >> 10);
}

#[test]
fn one_client_has_its_share_and_is_told_so() {
    let node =
        RunningNode::start(&Options { per_client: "50%".parse().unwrap(), ..options(pages(100)) }).unwrap();
    let all = refusal(&NodeSettings { reserve_pages: 100, ..settings(&node) });
    let ErrorKind::Refused { status, wanted, share, free, .. } = all.kind else { panic!("{all}") };
    assert_eq!((status, wanted, share, free), (GreetingStatus::OverShare, 100, 50, 50));
    assert!(all.to_string().contains("one client may hold 50 pages (its --per-client)"), "{all}");
    // Reservations that are too large together are refused, like one that is too large.
    let half = Client::connect(&NodeSettings { reserve_pages: 40, ..settings(&node) }).unwrap();
    refusal(&NodeSettings { reserve_pages: 11, ..settings(&node) });
    let mut other = connect(&node);
    assert_eq!((other.limits().capacity, other.limits().share), (100, 50));
    assert_eq!(fill(&mut other, 0..30), (0..10).collect::<Vec<u32>>());
    drop((half, other));
    for (share, why) in [("1B", "no page"), ("1GiB", "of 400KiB")] {
        let options = Options { per_client: share.parse().unwrap(), ..options(pages(100)) };
        let said = RunningNode::start(&options).err().unwrap().to_string();
        assert!(said.contains(why), "{said}");
    }
}
