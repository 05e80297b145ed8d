//! Client of a memory node: stores, loads and forgets pages there.
//!
//! Pages are named by their record's id; each store and load also gives the address of the slot from which the
//! page is sent or in which it arrives. Only [`Client::connect`] blocks; the pager calls [`Client::progress`]
//! whenever [`Client::fd`] is ready, or it has queued something. A request may be rejected ([`Rejected`]); an
//! accepted one completes ([`Completion`]) or the session ends with an [`Error`]. A load never completes with
//! other bytes than were stored last.
//!
//! | module | idea |
//! |---|---|
//! | [`session`] | batching, merging, overtaking and checking, without input and output |
//! | `tcp` | drives a session over a socket |
//! | `shared` | copies pages into memory that the node hands out |
//! | `connect` | connecting to a node, with hello and welcome |
//! | [`pulse`] | timing of pings, and detection of a silent node |
//!
//! Guest rules hold: raw system calls, no thread-local storage, no heap but this crate's. A slot must be present
//! memory: a fault on it would wait for the very thread that takes it.

mod connect;
mod error;
pub mod held;
pub mod pulse;
pub mod session;
mod shared;
mod tcp;

pub use error::{Address, Error, ErrorKind};

use rustix::event::PollFlags;
use rustix::fd::BorrowedFd;
use std::sync::atomic::AtomicU64;

/// Address of a node, and parameters of the session.
#[derive(Debug, Clone)]
pub struct Settings {
    pub address: Address,
    /// Pages that the node must reserve for this process, or refuse it; 0: none.
    pub reserve_pages: u64,
    /// Longest time in ns that connecting and greeting may take, without the time in which this process is
    /// stopped.
    pub timeout_ns: u64,
    /// Counter to which the time waited so far is added, in ns.
    pub waited_ns: Option<&'static AtomicU64>,
    /// Longest time in ns that the node may owe an answer and be silent, before the session ends.
    pub patience_ns: u64,
    pub tuning: Tuning,
}

impl Settings {
    /// Makes settings with the usual times and tuning.
    pub fn new(address: Address) -> Settings {
        let (timeout_ns, patience_ns, tuning) =
            (5_000_000_000, unrack_wire::PATIENCE.as_nanos() as u64, Tuning::default());
        Settings { address, reserve_pages: 0, timeout_ns, waited_ns: None, patience_ns, tuning }
    }
}

/// Parameters of a session's queues.
#[derive(Debug, Clone, Copy)]
pub struct Tuning {
    /// Number of queued stores at which they are sent without a flush.
    pub batch: usize,
    /// Most pages that one message carries; the node has a limit too.
    pub merge: usize,
    /// Most pages of stores, and of loads, under way at once: a load may have to wait for these.
    pub window: usize,
    /// Most stores, and loads, that may be queued.
    pub queue: usize,
    /// True to compare every loaded page with the one stored, by rapidhash.
    pub checksums: bool,
    /// Number of ids, counted from 0; the node's limit too.
    pub most_ids: u32,
}

impl Default for Tuning {
    fn default() -> Tuning {
        Tuning {
            batch: 32,
            merge: 32,
            window: 64,
            queue: 1024,
            checksums: true,
            most_ids: unrack_wire::MOST_IDS,
        }
    }
}

impl Tuning {
    /// Returns the tuning within sensible bounds, and within the node's limits.
    fn within(self, welcome: &unrack_wire::Welcome) -> Tuning {
        let most = welcome.most_pages.min(unrack_wire::MOST_PAGES) as usize;
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

/// Pages that a node has, and most pages that one client may hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Limits {
    pub capacity: u64,
    pub share: u64,
}

impl Limits {
    fn new(welcome: &unrack_wire::Welcome) -> Limits {
        Limits { capacity: welcome.capacity, share: welcome.share }
    }
}

/// Completed request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Completion {
    /// The node holds the page; its slot belongs to the caller again.
    Stored { id: u32 },
    /// The page's contents, as last stored, are in its slot.
    Loaded { id: u32 },
    /// The node has no room for the page; its slot belongs to the caller again and is its only copy.
    Refused { id: u32 },
}

/// Reason why a request is not even queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rejected {
    /// The queue is full: make progress first.
    Full,
    /// The node holds no such page.
    NotHeld,
    /// The id is beyond what the node can name.
    BadId,
}

/// Kind of what the node owes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owed {
    /// Pages to be loaded.
    Pages,
    /// Room for pages to be stored.
    Room,
}

/// Session of a process with a memory node.
pub enum Client {
    Tcp(Box<tcp::Connection>),
    Shared(Box<shared::Mapped>),
}

impl Client {
    /// Connects to the node and greets it. Blocks, for at most `timeout_ns`.
    ///
    /// # Errors
    /// If no node listens there, not in this protocol, or it refuses: the error says which.
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
    /// The page at `slot` stays readable and unchanged until the store completes, or [`Client::withdraw`] gives
    /// it back.
    pub unsafe fn store(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: as the caller says.
            Client::Tcp(client) => unsafe { client.session.store(id, slot) },
            // SAFETY: as the caller says.
            Client::Shared(client) => unsafe { client.store(id, slot) },
        }
    }

    /// Queues a load into the page at `slot`. It is sent at the next [`Client::progress`], before stores.
    ///
    /// # Errors
    /// See [`Rejected`]; nothing changed then.
    ///
    /// # Safety
    /// The page at `slot` stays writable, and nothing else uses it, until the load completes.
    pub unsafe fn load(&mut self, id: u32, slot: usize) -> Result<(), Rejected> {
        match self {
            // SAFETY: as the caller says.
            Client::Tcp(client) => unsafe { client.session.load(id, slot) },
            // SAFETY: as the caller says.
            Client::Shared(client) => unsafe { client.load(id, slot) },
        }
    }

    /// Has the node drop these pages. Returns how many, from the first on, were accepted; the caller tries the
    /// rest again after some progress.
    pub fn forget(&mut self, ids: &[u32]) -> usize {
        match self {
            Client::Tcp(client) => client.session.forget(ids),
            Client::Shared(client) => client.forget(ids),
        }
    }

    /// Withdraws a store that was not sent yet: its slot belongs to the caller again at once, it will not complete, and
    /// the node's older copy must not be loaded. Returns false if it was sent, and will complete.
    pub fn withdraw(&mut self, id: u32) -> bool {
        match self {
            Client::Tcp(client) => client.session.withdraw(id),
            Client::Shared(client) => client.withdraw(id),
        }
    }

    /// Sends the queued stores even though no batch is full, at the next [`Client::progress`].
    pub fn flush(&mut self) {
        if let Client::Tcp(client) = self {
            client.session.flush();
        }
    }

    /// Sends and receives as much as possible without blocking, and appends completed requests to `done`.
    ///
    /// # Errors
    /// If the session is over; `done` has what was completed before.
    pub fn progress(&mut self, done: &mut Vec<Completion>) -> Result<(), Error> {
        match self {
            Client::Tcp(client) => client.progress(done),
            Client::Shared(client) => client.progress(done),
        }
    }

    /// Returns the limits that the node stated when the session began.
    pub fn limits(&self) -> Limits {
        match self {
            Client::Tcp(client) => client.limits,
            Client::Shared(client) => client.limits,
        }
    }

    /// Returns the descriptor to poll.
    pub fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Client::Tcp(client) => client.fd(),
            Client::Shared(client) => client.fd(),
        }
    }

    /// Returns the events to poll for: the node's death always shows.
    pub fn interest(&self) -> PollFlags {
        match self {
            Client::Tcp(client) if client.is_blocked() => PollFlags::IN | PollFlags::OUT,
            _ => PollFlags::IN,
        }
    }

    /// Returns what the node still owes.
    pub fn owed(&self) -> Option<Owed> {
        match self {
            Client::Tcp(client) => client.session.owed(),
            Client::Shared(client) => client.owed(),
        }
    }

    /// Returns how often something arrived from the node: if this number changes, it is not silent.
    pub fn heard(&self) -> u64 {
        match self {
            Client::Tcp(client) => client.heard(),
            Client::Shared(client) => client.heard(),
        }
    }

    /// Returns whether nothing is queued, under way, or completed and not reported yet.
    pub fn is_idle(&self) -> bool {
        match self {
            Client::Tcp(client) => client.session.is_idle(),
            Client::Shared(client) => client.is_idle(),
        }
    }
}
