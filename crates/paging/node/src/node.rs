//! A memory node: one thread that accepts connections, and one thread for each connection.

use crate::error::Error;
use crate::greeting::NodeTerms;
pub use crate::listen::Listen;
use crate::listen::{Listener, Stream};
use crate::statistics::{NodeCounters, Statistics};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io::Read;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_keys::shares::{Peer, PeerShares};
use unrack_keys::{EncryptionPolicy, Keys};
use unrack_units::{Bytes, Share};
use unrack_wire::{PAGE, PATIENCE, PageTransport};

/// Maximum number of sessions of a node. It is twice the number of processes of a run, so that half of the sessions is enough for any
/// single client.
const MOST_SESSIONS: usize = 2048;
const MOST_SESSIONS_OF_A_CLIENT: usize = MOST_SESSIONS / 2;
/// Maximum refused connections that are answered at the same time. Further refused connections are closed without an answer.
const MOST_FAREWELLS: usize = 32;
/// Longest time for sessions to end after the node was asked to stop.
const ENDING_TIME: Duration = Duration::from_secs(1);
/// Pages of an extent, the unit in which shared memory is granted: 16 MiB.
pub const EXTENT_PAGES: u32 = 4096;
/// Smallest number of extents in a client's share. Each process of a client has one extent that is not full, and asks for the next extent
/// when a quarter is left.
const EXTENTS_OF_A_SHARE: u64 = 8;
/// Default share of one client: half of the capacity, so that no client can take the memory of all others.
pub const USUAL_SHARE: &str = "50%";

/// Options of a node.
#[derive(Debug, Clone)]
pub struct Options {
    pub listen: Listen,
    pub capacity: Bytes,
    /// Maximum memory of one client, over all its sessions. With keys, a client is identified by its key; without keys, by its address or
    /// user.
    pub per_client: Share,
    /// Pages of an extent. If an eighth of a client's share is less, that is used.
    pub extent_pages: u32,
    /// Longest silence of a session; `None` means no limit.
    pub silence: Option<Duration>,
    /// Rule that decides which connections are encrypted.
    pub policy: EncryptionPolicy,
}

impl Options {
    /// Returns the default options for an address and a capacity.
    pub fn new(listen: Listen, capacity: Bytes) -> Options {
        Options {
            listen,
            capacity,
            per_client: USUAL_SHARE.parse().expect("a share"),
            extent_pages: EXTENT_PAGES,
            silence: Some(PATIENCE),
            policy: EncryptionPolicy::default(),
        }
    }

    /// Returns the number of pages of the node and of one client's share.
    fn pages(&self) -> Result<(u64, u64), Error> {
        let least = Bytes::new(PAGE as u64);
        let share = self.per_client.of(self.capacity);
        let pages = |bytes: Bytes| bytes.get() / PAGE as u64;
        match (pages(self.capacity), pages(share)) {
            (0, _) => Err(Error::Capacity { capacity: self.capacity, least }),
            (_, 0) => Err(Error::Share { share, least }),
            (whole, share) if share > whole => {
                Err(Error::LargeShare { share: self.per_client.of(self.capacity), capacity: self.capacity })
            }
            both => Ok(both),
        }
    }
}

/// A running node. It runs until [`RunningNode::stop`] is called.
pub struct RunningNode {
    common: Arc<NodeState>,
    bound: Listen,
    accepting: JoinHandle<()>,
    /// Event that wakes the accepting thread when the node stops.
    bell: Arc<OwnedFd>,
}

/// State that all sessions share.
pub(crate) struct NodeState {
    pub(crate) terms: NodeTerms,
    pub(crate) counters: Arc<NodeCounters>,
    pub(crate) silence: Option<Duration>,
    pub(crate) keys: Option<Arc<Keys>>,
    open: Mutex<BTreeMap<u64, (Peer, Stream)>>,
    pub(crate) stopping: AtomicBool,
    /// Number of refused connections that are being answered.
    farewells: AtomicUsize,
}

impl RunningNode {
    /// Starts to listen and to serve.
    ///
    /// # Errors
    /// If the node cannot listen at the address, if keys that it needs are missing, if the capacity or a client's share is less than one
    /// page, or if the share exceeds the capacity.
    pub fn start(options: &Options) -> Result<RunningNode, Error> {
        let common = Arc::new(NodeState::new(options)?);
        let failed = |error| Error::Listen { address: options.listen.to_string(), error };
        let (listener, bound) = Listener::bind(&options.listen).map_err(failed)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let bell = Arc::new(bell);
        let (theirs, ours) = (bell.clone(), common.clone());
        let accepting = std::thread::spawn(move || accept_all(&listener, &theirs, &ours));
        Ok(RunningNode { common, bound, accepting, bell })
    }

    /// Returns the address at which the node actually listens.
    pub fn address(&self) -> &Listen {
        &self.bound
    }

    /// Returns the node's key, which clients have to trust; `None` if connections are not encrypted.
    pub fn keys(&self) -> Option<&Keys> {
        self.common.keys.as_deref()
    }

    /// Returns the statistics so far.
    pub fn statistics(&self) -> Statistics {
        self.common.statistics()
    }

    /// Asks all sessions to end, waits up to a second for them, and returns the statistics.
    pub fn stop(self) -> Statistics {
        let statistics = self.statistics();
        self.common.stopping.store(true, Relaxed);
        // Cannot fail, because the counter of the eventfd is 0 and therefore has room.
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        let _ = self.accepting.join();
        self.common.end_sessions();
        if let Listen::Shared(path) = &self.bound {
            let _ = std::fs::remove_file(path);
        }
        statistics
    }
}

/// Returns a random number for a new node; 0 if the kernel gives none, so that clients do not compare it.
fn identity() -> u64 {
    let mut bytes = [0; 8];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut bytes));
    read.map_or(0, |()| u64::from_ne_bytes(bytes))
}

fn accept_all(listener: &Listener, bell: &OwnedFd, common: &Arc<NodeState>) {
    for number in 0.. {
        let socket = match listener {
            Listener::Tcp(listener) => PollFd::new(listener, PollFlags::IN),
            Listener::Unix(listener) => PollFd::new(listener, PollFlags::IN),
        };
        // An error here is an interruption by a signal, after which the loop continues.
        let _ = rustix::event::poll(&mut [socket, PollFd::new(bell, PollFlags::IN)], None);
        if common.stopping.load(Relaxed) {
            return;
        }
        match listener.accept() {
            Ok(stream) => common.begin(number, stream),
            // No descriptor is free, or the client closed the connection.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl NodeState {
    fn new(options: &Options) -> Result<NodeState, Error> {
        let (pages, share) = options.pages()?;
        let (transport, extent_pages) = match options.listen {
            Listen::Tcp(_) => (PageTransport::Stream, 0),
            Listen::Shared(_) => {
                let most = (share / EXTENTS_OF_A_SHARE).max(1);
                (PageTransport::Shared, u64::from(options.extent_pages).clamp(1, most) as u32)
            }
        };
        let keys = match options.listen {
            Listen::Tcp(address) => options.policy.keys_for(address, "--insecure")?,
            Listen::Shared(_) => None,
        };
        let silence_ms = options.silence.map_or(0, |silence| silence.as_millis().min(u32::MAX.into()) as u32);
        Ok(NodeState {
            terms: NodeTerms {
                shares: PeerShares::new(pages, share),
                transport,
                extent_pages,
                silence_ms,
                identity: identity(),
            },
            counters: Arc::default(),
            silence: options.silence,
            keys,
            open: Mutex::default(),
            stopping: AtomicBool::new(false),
            farewells: AtomicUsize::new(0),
        })
    }

    fn statistics(&self) -> Statistics {
        self.counters.snapshot(&self.terms)
    }

    /// Starts the thread of a connection, unless there are too many sessions.
    fn begin(self: &Arc<Self>, number: u64, stream: Stream) {
        let Ok(client) = stream.client() else { return };
        let of_client = |open: &BTreeMap<u64, (Peer, Stream)>| {
            open.values().filter(|(other, _)| *other == client).count()
        };
        let mut open = self.sessions();
        if open.len() >= MOST_SESSIONS || of_client(&open) >= MOST_SESSIONS_OF_A_CLIENT {
            drop(open);
            return self.turn_away(stream);
        }
        open.insert(number, (client, stream.clone()));
        drop(open);
        let common = self.clone();
        let serve = move || {
            // An error ends the connection, which the client notices.
            let _ = common.serve(stream.clone());
            stream.shutdown(Shutdown::Both);
            common.sessions().remove(&number);
        };
        // If no thread can be started, the connection is dropped, and the client sees it close.
        if std::thread::Builder::new().name("session".into()).spawn(serve).is_err() {
            self.sessions().remove(&number);
        }
    }

    /// Answers a connection that there are too many sessions. A separate thread does so, because the client may not read.
    fn turn_away(self: &Arc<Self>, stream: Stream) {
        if self.farewells.fetch_add(1, Relaxed) >= MOST_FAREWELLS {
            self.farewells.fetch_sub(1, Relaxed);
            return;
        }
        let common = self.clone();
        let say = move || {
            let _ = common.turn_away_one(stream);
            common.farewells.fetch_sub(1, Relaxed);
        };
        if std::thread::Builder::new().name("farewell".into()).spawn(say).is_err() {
            self.farewells.fetch_sub(1, Relaxed);
        }
    }

    /// Locks the table of open sessions.
    pub(crate) fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (Peer, Stream)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shuts down the read direction of all sessions, so that their threads send a farewell and end. Closes those that are left after
    /// [`ENDING_TIME`].
    fn end_sessions(&self) {
        self.sessions().values().for_each(|(_, stream)| stream.shutdown(Shutdown::Read));
        let deadline = Instant::now() + ENDING_TIME;
        while !self.sessions().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.sessions().values().for_each(|(_, stream)| stream.shutdown(Shutdown::Both));
    }
}
