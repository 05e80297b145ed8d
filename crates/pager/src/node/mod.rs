//! A memory node, from a process's side: pages are stored there, loaded from there, forgotten there.
//!
//! Pages are named by their record's id and named with the address of the slot they leave from or land
//! in. Nothing here blocks, but [`Client::connect`]; the pager calls [`Client::progress`] whenever
//! [`Client::fd`] has something, or it itself has. What is asked for may be refused ([`Rejected`]); what
//! was accepted completes ([`Completion`]) or the session ends with an [`Error`]: a load never completes
//! with other bytes than were stored last.
//!
//! | module | idea |
//! |---|---|
//! | [`wire`] | the protocol's bytes; the node uses it too |
//! | [`session`] | batch, merge, overtake, check: without input and output |
//! | `tcp` | drives a session over a socket |
//! | `shared` | copies pages into memory that the node hands out |
//! | `connect` | reaching a node and greeting it |
//! | [`pulse`] | when to say that we are there, and how long the node has said nothing |
//!
//! Guest rules hold: raw system calls, no thread-local storage, nothing but this crate's heap. A slot
//! must be memory that is there: a fault on it would wait for the thread that takes it.

mod connect;
mod error;
pub mod held;
pub mod pulse;
pub mod session;
mod shared;
mod tcp;
pub mod wire;

pub use error::{Address, Error, ErrorKind};

use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;

/// How to reach a node and how to talk to it.
#[derive(Debug, Clone)]
pub struct Settings {
    pub address: Address,
    /// Pages that the node must keep free for this process, or refuse it; 0: as they come.
    pub reserve_pages: u64,
    /// How long connecting and greeting may take, without the time in which this process is stopped.
    pub timeout_ns: u64,
    /// Where to say how long that has taken so far.
    pub waited_ns: Option<&'static AtomicU64>,
    /// How long the node may owe an answer and say nothing, before the session is over.
    pub patience_ns: u64,
    pub tuning: Tuning,
}

impl Settings {
    pub fn new(address: Address) -> Settings {
        let (timeout_ns, patience_ns, tuning) = (5_000_000_000, PATIENCE_NS, Tuning::default());
        Settings { address, reserve_pages: 0, timeout_ns, waited_ns: None, patience_ns, tuning }
    }
}

/// As long as a node waits for a client that says nothing: a machine that restarts its network is back sooner, and TCP
/// gives up a peer that is gone in the same time.
pub const PATIENCE_NS: u64 = 60_000_000_000;

#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Stores that are queued before they go by themselves.
    pub batch: usize,
    /// Pages that one message carries at most; the node has a limit too.
    pub merge: usize,
    /// Pages of stores, and of loads, on their way at once: a load may have to wait for these.
    pub window: usize,
    /// Stores, and loads, that may be queued.
    pub queue: usize,
    /// Whether every loaded page is compared with what was stored, by rapidhash.
    pub checksums: bool,
    /// Ids are below this; the node's limit too.
    pub most_ids: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning { batch: 32, merge: 32, window: 64, queue: 1024, checksums: true, most_ids: wire::MOST_IDS }
    }
}

impl Tuning {
    /// Within what works at all, and within the node's limits.
    fn within(self, welcome: &wire::Welcome) -> Tuning {
        let most = welcome.most_pages.min(wire::MOST_PAGES) as usize;
        Tuning {
            batch: self.batch.max(1),
            merge: self.merge.clamp(1, most),
            window: self.window.max(1),
            queue: self.queue.clamp(1, u16::MAX as usize),
            most_ids: self.most_ids.min(welcome.most_ids),
            ..self
        }
    }
}

/// Pages that a node has, and that one client may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub capacity: u64,
    pub share: u64,
}

impl Limits {
    fn new(welcome: &wire::Welcome) -> Limits {
        Limits { capacity: welcome.capacity, share: welcome.share }
    }
}

/// What was asked for is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The node holds the page; its slot is the caller's again.
    Stored { id: u32 },
    /// The page's contents, as last stored, are in its slot.
    Loaded { id: u32 },
    /// The node has no room for the page; its slot is the caller's again and its only copy.
    Refused { id: u32 },
}

/// What was asked for is not even queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// Too much is queued: make progress first.
    Full,
    /// The node holds no such page.
    NotHeld,
    /// Beyond what the node can name.
    BadId,
}

/// What the node has been asked for and has not given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// Pages to be loaded.
    Pages,
    /// Room for pages to be stored.
    Room,
}

/// A process's session with a memory node.
pub enum Client {
    Tcp(Box<tcp::Connection>),
    Shared(Box<shared::Mapped>),
}

impl Client {
    /// Reaches the node and is greeted by it. Blocks, for `timeout_ns` at most.
    ///
    /// # Errors
    /// Nobody listens there, or not in this protocol, or the node refuses: says which.
    pub fn connect(settings: &Settings) -> Result<Client, Error> {
        match settings.address {
            Address::Tcp { .. } | Address::Encrypted { .. } => {
                tcp::Connection::open(settings).map(|c| Client::Tcp(Box::new(c)))
            }
            Address::Shared(_) => shared::Mapped::open(settings).map(|c| Client::Shared(Box::new(c))),
        }
    }

    /// Queues a store of the page at `slot`.
    ///
    /// # Errors
    /// See [`Rejected`]; nothing changed then.
    ///
    /// # Safety
    /// The page at `slot` stays readable and unchanged until it completes, or [`Client::withdraw`] gives
    /// it back.
    pub unsafe fn store(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: the caller's promise.
            Client::Tcp(client) => unsafe { client.session.store(id, slot) },
            // SAFETY: the caller's promise.
            Client::Shared(client) => unsafe { client.store(id, slot) },
        }
    }

    /// Queues a load into the page at `slot`. It goes at the next [`Client::progress`], before stores.
    ///
    /// # Errors
    /// See [`Rejected`]; nothing changed then.
    ///
    /// # Safety
    /// The page at `slot` stays writable, and nobody else uses it, until it completes.
    pub unsafe fn load(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: the caller's promise.
            Client::Tcp(client) => unsafe { client.session.load(id, slot) },
            // SAFETY: the caller's promise.
            Client::Shared(client) => unsafe { client.load(id, slot) },
        }
    }

    /// Has the node drop these pages. Returns how many, from the first on, were accepted; the rest is to
    /// be tried again after some progress.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        match self {
            Client::Tcp(client) => client.session.forget(ids),
            Client::Shared(client) => client.forget(ids),
        }
    }

    /// Takes back a store that has not left yet: its slot is the caller's again at once, nothing will
    /// complete, and the node's older copy is not to be loaded. `false`: it has left; wait for it.
    pub fn withdraw(&mut self, id: u32) -> bool {
        match self {
            Client::Tcp(client) => client.session.withdraw(id),
            Client::Shared(client) => client.withdraw(id),
        }
    }

    /// Sends what is queued even though no batch is full, at the next [`Client::progress`].
    pub fn flush(&mut self) {
        if let Client::Tcp(client) = self {
            client.session.flush();
        }
    }

    /// Moves bytes both ways as far as that goes without waiting, and appends what is done.
    ///
    /// # Errors
    /// The session is over; `done` has what was completed before.
    pub fn progress(&mut self, done: &mut Vec<Completion>) -> Result<(), Error> {
        match self {
            Client::Tcp(client) => client.progress(done),
            Client::Shared(client) => client.progress(done),
        }
    }

    /// What the node said of itself when the session began.
    pub fn limits(&self) -> Limits {
        match self {
            Client::Tcp(client) => client.limits,
            Client::Shared(client) => client.limits,
        }
    }

    /// To poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Tcp(client) => client.fd(),
            Client::Shared(client) => client.fd(),
        }
    }

    /// What to poll for: the node's death always shows.
    pub fn interest(&self) -> PollFlags {
        match self {
            Client::Tcp(client) if client.is_blocked() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// What the node still has to answer.
    pub fn owed(&self) -> Option<Owed> {
        match self {
            Client::Tcp(client) => client.session.owed(),
            Client::Shared(client) => client.owed(),
        }
    }

    /// How often something came from the node: whoever sees this number change knows that it is not silent.
    pub fn heard(&self) -> u64 {
        match self {
            Client::Tcp(client) => client.heard(),
            Client::Shared(client) => client.heard(),
        }
    }

    /// Nothing is queued, on its way, or waits to be told.
    pub fn is_idle(&self) -> bool {
        match self {
            Client::Tcp(client) => client.session.is_idle(),
            Client::Shared(client) => client.is_idle(),
        }
    }
}
