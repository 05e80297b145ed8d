//! A node: a thread that accepts, and one for each connection.

use crate::Error;
use crate::greeting::Terms;
pub use crate::listen::Listen;
use crate::listen::{Listener, Stream};
use crate::statistics::{Counters, Statistics};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_keys::shares::{Peer, Shares};
use unrack_keys::{Keys, Policy};
use unrack_pager::node::wire::{PAGE, Transport};
use unrack_units::{Bytes, Share};

/// Twice as many as a run has processes at most, so that half of them is enough for any one client.
const MOST_SESSIONS: usize = 2048;
const MOST_SESSIONS_OF_A_CLIENT: usize = MOST_SESSIONS / 2;
/// Connections that are told at the same time why they are not served; more are closed without a word.
const MOST_FAREWELLS: usize = 32;
/// Sessions that are told to end get this time to notice.
const ENDING_TIME: Duration = Duration::from_secs(1);
/// Shared memory is handed out in pieces of 16 MiB.
pub const EXTENT_PAGES: u32 = 4096;
/// A share has at least so many extents: each process of a client has one that is not full, and asks for the next when a
/// quarter is left.
const EXTENTS_OF_A_SHARE: u64 = 8;
/// What one client may hold if nobody says otherwise: half, so that whatever one does, there is room for another.
pub const USUAL_SHARE: &str = "50%";
/// After how long a client that says nothing is given up, if nobody says otherwise. Clients say something four times as
/// often; a network that restarts is back sooner.
pub const USUAL_SILENCE: Duration = Duration::from_secs(60);

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: Listen,
    pub capacity: Bytes,
    /// What one client may hold, all its sessions together: a client is a key, or without keys an address, or a user.
    pub per_client: Share,
    /// Pages of an extent, or an eighth of what a client may hold if that is less.
    pub extent_pages: u32,
    /// How long a session may say nothing; `None`: for ever.
    pub silence: Option<Duration>,
    /// Which connections are encrypted.
    pub policy: Policy,
}

impl Options {
    pub fn new(listen: Listen, capacity: Bytes) -> Options {
        Options {
            listen,
            capacity,
            per_client: USUAL_SHARE.parse().expect("a share"),
            extent_pages: EXTENT_PAGES,
            silence: Some(USUAL_SILENCE),
            policy: Policy::default(),
        }
    }

    /// Pages of the node and of one client.
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

/// A node that serves, until [`Node::stop`].
pub struct Node {
    common: Arc<Common>,
    bound: Listen,
    accepting: JoinHandle<()>,
    /// Written to: stop accepting.
    bell: Arc<OwnedFd>,
}

/// What all sessions share.
pub(crate) struct Common {
    pub(crate) terms: Terms,
    pub(crate) counters: Arc<Counters>,
    pub(crate) silence: Option<Duration>,
    pub(crate) keys: Option<Arc<Keys>>,
    open: Mutex<BTreeMap<u64, (Peer, Stream)>>,
    pub(crate) stopping: AtomicBool,
    /// Connections that are being told why they are not served.
    farewells: AtomicUsize,
}

impl Node {
    /// Starts to listen and to serve.
    ///
    /// # Errors
    /// The address cannot be listened on, it needs keys that are not there, or the capacity or a share is no page.
    pub fn start(options: &Options) -> Result<Node, Error> {
        let common = Arc::new(Common::new(options)?);
        let failed = |error| Error::Listen { address: options.listen.to_string(), error };
        let (listener, bound) = Listener::bind(&options.listen).map_err(failed)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let bell = Arc::new(bell);
        let (theirs, ours) = (bell.clone(), common.clone());
        let accepting = std::thread::spawn(move || accept_all(&listener, &theirs, &ours));
        Ok(Node { common, bound, accepting, bell })
    }

    /// Where it really listens.
    pub fn address(&self) -> &Listen {
        &self.bound
    }

    /// The key that clients have to trust; `None`: it serves without.
    pub fn keys(&self) -> Option<&Keys> {
        self.common.keys.as_deref()
    }

    pub fn statistics(&self) -> Statistics {
        self.common.statistics()
    }

    /// Tells all sessions to end, waits a moment for it, and says what was done.
    pub fn stop(self) -> Statistics {
        let statistics = self.statistics();
        self.common.stopping.store(true, Relaxed);
        // A counter of 8 bytes that was 0: there is room.
        let _ = rustix::io::write(&*self.bell, &1u64.to_ne_bytes());
        let _ = self.accepting.join();
        self.common.end_sessions();
        if let Listen::Shared(path) = &self.bound {
            let _ = std::fs::remove_file(path);
        }
        statistics
    }
}

fn accept_all(listener: &Listener, bell: &OwnedFd, common: &Arc<Common>) {
    for number in 0.. {
        let socket = match listener {
            Listener::Tcp(listener) => PollFd::new(listener, PollFlags::IN),
            Listener::Unix(listener) => PollFd::new(listener, PollFlags::IN),
        };
        // An error is a signal: look again.
        let _ = rustix::event::poll(&mut [socket, PollFd::new(bell, PollFlags::IN)], None);
        if common.stopping.load(Relaxed) {
            return;
        }
        match listener.accept() {
            Ok(stream) => common.begin(number, stream),
            // Out of descriptors, or the other side changed its mind.
            Err(_) => std::thread::sleep(Duration::from_millis(10)),
        }
    }
}

impl Common {
    fn new(options: &Options) -> Result<Common, Error> {
        let (pages, share) = options.pages()?;
        let (transport, extent_pages) = match options.listen {
            Listen::Tcp(_) => (Transport::Stream, 0),
            Listen::Shared(_) => {
                let most = (share / EXTENTS_OF_A_SHARE).max(1);
                (Transport::Shared, u64::from(options.extent_pages).clamp(1, most) as u32)
            }
        };
        let keys = match options.listen {
            Listen::Tcp(address) => options.policy.keys_for(address, "--insecure")?,
            Listen::Shared(_) => None,
        };
        let silence_ms = options.silence.map_or(0, |silence| silence.as_millis().min(u32::MAX.into()) as u32);
        Ok(Common {
            terms: Terms { shares: Shares::new(pages, share), transport, extent_pages, silence_ms },
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

    /// Gives a connection its thread, unless there are too many.
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
            // An error is the end of the connection, which the other side sees.
            let _ = common.serve(stream.clone());
            stream.shutdown(Shutdown::Both);
            common.sessions().remove(&number);
        };
        // No thread for it: the connection closes, which the client is told of by its kernel.
        if std::thread::Builder::new().name("session".into()).spawn(serve).is_err() {
            self.sessions().remove(&number);
        }
    }

    /// Says that there are too many sessions, in a thread of its own: whoever connects may not listen.
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

    pub(crate) fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, (Peer, Stream)>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sessions say goodbye when nothing more can come in; those that hang are cut off.
    fn end_sessions(&self) {
        self.sessions().values().for_each(|(_, stream)| stream.shutdown(Shutdown::Read));
        let deadline = Instant::now() + ENDING_TIME;
        while !self.sessions().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.sessions().values().for_each(|(_, stream)| stream.shutdown(Shutdown::Both));
    }
}
