//! Pages, clients and nodes for the tests.

use rustix::event::{PollFd, Timespec};
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_keys::shares::{Peer, PeerShares};
use unrack_node::pages::NodePages;
use unrack_node::part::SessionPages;
use unrack_node::{Listen, Options, RunningNode};
use unrack_pager::node::{Address, Client, Error, NodeSettings, PageCompletion};
use unrack_units::Bytes;

pub(crate) use unrack_wire::PAGE;

/// Page at an address that does not change.
pub(crate) struct Slot(Box<[u8; PAGE]>);

impl Slot {
    /// Makes a page whose every word depends on `value` and the word's index.
    pub(crate) fn with(value: u64) -> Slot {
        let mut slot = Slot(Box::new([0; PAGE]));
        slot.fill(value);
        slot
    }

    pub(crate) fn fill(&mut self, value: u64) {
        for (word, at) in self.0.chunks_exact_mut(8).zip(0u64..) {
            word.copy_from_slice(&value.wrapping_mul(0x9E37_79B9_7F4A_7C15).wrapping_add(at).to_le_bytes());
        }
    }

    pub(crate) fn holds(&self, value: u64) -> bool {
        self.0 == Slot::with(value).0
    }

    pub(crate) fn address(&mut self) -> usize {
        self.0.as_mut_ptr() as usize
    }
}

pub(crate) fn pages(count: u64) -> Bytes {
    Bytes::new(count * PAGE as u64)
}

/// Returns options of a node at a free port of loopback, whose clients may each have all of its capacity.
pub(crate) fn options(capacity: Bytes) -> Options {
    let listen = Listen::Tcp("127.0.0.1:0".parse().unwrap());
    Options { per_client: "100%".parse().unwrap(), ..Options::new(listen, capacity) }
}

pub(crate) fn tcp_node(capacity: Bytes) -> RunningNode {
    RunningNode::start(&options(capacity)).unwrap()
}

/// Returns the pages of a session, and the shares of a node with `capacity` pages.
pub(crate) fn session_pages(capacity: u64) -> (Arc<PeerShares>, NodePages) {
    let shares = PeerShares::new(capacity, capacity);
    let part = SessionPages::new(shares.account(Peer::User(0)), 0).unwrap();
    (shares, NodePages::new(part))
}

/// Returns the settings of a client that reaches the node.
pub(crate) fn settings(node: &RunningNode) -> NodeSettings {
    NodeSettings::new(match node.address() {
        Listen::Tcp(std::net::SocketAddr::V4(address)) => tcp(address.port()),
        Listen::Tcp(other) => panic!("not an address of IPv4: {other}"),
        Listen::Shared(path) => Address::Shared(path.to_str().unwrap().to_owned()),
    })
}

pub(crate) fn tcp(port: u16) -> Address {
    Address::Tcp { ip: [127, 0, 0, 1], port }
}

pub(crate) fn connect(node: &RunningNode) -> Client {
    Client::connect(&settings(node)).unwrap()
}

/// Returns the error of a client that the node refuses.
pub(crate) fn refusal(settings: &NodeSettings) -> Error {
    match Client::connect(settings) {
        Ok(_) => panic!("a session where none should be"),
        Err(error) => error,
    }
}

/// Makes progress until the client is idle.
pub(crate) fn settle(client: &mut Client) -> Result<Vec<PageCompletion>, Error> {
    settle_until(client, |client, _| client.is_idle())
}

/// Makes progress until so many operations have completed.
pub(crate) fn settle_for(client: &mut Client, completions: usize) -> Result<Vec<PageCompletion>, Error> {
    settle_until(client, |_, done| done.len() >= completions)
}

fn settle_until(
    client: &mut Client,
    enough: impl Fn(&Client, &[PageCompletion]) -> bool,
) -> Result<Vec<PageCompletion>, Error> {
    let deadline = Instant::now() + Duration::from_secs(60);
    let mut done = Vec::new();
    loop {
        client.flush();
        client.progress(&mut done)?;
        if enough(client, &done) {
            return Ok(done);
        }
        assert!(Instant::now() < deadline, "nothing more comes; so far {done:?}");
        let moment = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };
        rustix::event::poll(&mut [PollFd::new(&client.fd(), client.interest())], Some(&moment)).unwrap();
    }
}

/// Stores a page, and waits until the node has it.
pub(crate) fn store(client: &mut Client, id: u32, value: u64) -> PageCompletion {
    let mut slot = Slot::with(value);
    // A client of shared memory first has to be granted some.
    // SAFETY: the slot lives until the store has completed.
    while unsafe { client.store(id, slot.address()) }.is_err() {
        client.progress(&mut Vec::new()).unwrap();
    }
    settle_for(client, 1).unwrap()[0]
}

/// Loads a page, and waits for it.
pub(crate) fn load(client: &mut Client, id: u32) -> Slot {
    let mut slot = Slot::with(u64::MAX);
    // SAFETY: the slot lives until the load has completed.
    unsafe { client.load(id, slot.address()) }.unwrap();
    assert_eq!(settle_for(client, 1).unwrap(), [PageCompletion::Loaded { id }]);
    slot
}

/// Returns the error that ends the session.
pub(crate) fn end_of(client: &mut Client) -> Error {
    settle_until(client, |_, _| false).unwrap_err()
}
