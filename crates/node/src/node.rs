//! Sockets and threads: one of each for a session.

use crate::capacity::{Capacity, Part};
use crate::greeting::Terms;
use crate::pages::Pages;
use crate::session::Session;
use crate::statistics::{Counters, Statistics, count};
use crate::stream::{self, End};
use crate::{Error, shared};
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_pager::node::wire::{HELLO, Hello, PAGE, Reason, Status, Transport};
use unrack_units::Bytes;

/// As many as a run has processes at most.
const MOST_SESSIONS: usize = 1024;
/// Whoever connects has to greet within this time.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// Sessions that are told to end get this time to notice.
const ENDING_TIME: Duration = Duration::from_secs(1);
/// Shared memory is handed out in pieces of 16 MiB.
pub const EXTENT_PAGES: u32 = 4096;

/// Where clients reach a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    /// Port 0: one that is free.
    Tcp(SocketAddr),
    /// Path of a socket, through which memory is handed out.
    Shared(PathBuf),
}

#[derive(Debug, Clone)]
pub struct Options {
    pub listen: Listen,
    pub capacity: Bytes,
    /// Pages of an extent, or as many as the capacity has if that is less.
    pub extent_pages: u32,
}

impl Options {
    pub fn new(listen: Listen, capacity: Bytes) -> Options {
        Options { listen, capacity, extent_pages: EXTENT_PAGES }
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
struct Common {
    terms: Terms,
    counters: Arc<Counters>,
    open: Mutex<BTreeMap<u64, Stream>>,
    stopping: AtomicBool,
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Node {
    /// Starts to listen and to serve.
    ///
    /// # Errors
    /// The address cannot be listened on, or the capacity is less than a page.
    pub fn start(options: &Options) -> Result<Node, Error> {
        let pages = options.capacity.get() / PAGE as u64;
        if pages == 0 {
            let least = Bytes::new(PAGE as u64);
            return Err(Error::Capacity { capacity: options.capacity, least });
        }
        let failed = |error| Error::Listen { address: options.listen.to_string(), error };
        let (listener, bound) = listen(&options.listen).map_err(failed)?;
        let bell = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|errno| failed(errno.into()))?;
        let (bell, common) = (Arc::new(bell), Arc::new(Common::new(options, pages)));
        let (theirs, ours) = (bell.clone(), common.clone());
        let accepting = std::thread::spawn(move || accept_all(&listener, &theirs, &ours));
        Ok(Node { common, bound, accepting, bell })
    }

    /// Where it really listens.
    pub fn address(&self) -> &Listen {
        &self.bound
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

impl std::fmt::Display for Listen {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        match self {
            Listen::Tcp(address) => address.fmt(f),
            Listen::Shared(path) => path.display().fmt(f),
        }
    }
}

fn listen(at: &Listen) -> std::io::Result<(Listener, Listen)> {
    match at {
        Listen::Tcp(address) => {
            let listener = TcpListener::bind(address)?;
            let bound = Listen::Tcp(listener.local_addr()?);
            Ok((Listener::Tcp(listener), bound))
        }
        Listen::Shared(path) => {
            remove_left_over(path);
            Ok((Listener::Unix(UnixListener::bind(path)?), at.clone()))
        }
    }
}

/// A socket that nobody answers at is left over from a node that was killed.
fn remove_left_over(path: &Path) {
    let is_socket = std::fs::metadata(path).is_ok_and(|found| found.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err() {
        // If it cannot be removed, binding says why.
        let _ = std::fs::remove_file(path);
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

impl Listener {
    fn accept(&self) -> std::io::Result<Stream> {
        match self {
            Listener::Tcp(listener) => {
                let stream = listener.accept()?.0;
                stream.set_nodelay(true)?;
                Ok(Stream::Tcp(stream))
            }
            Listener::Unix(listener) => Ok(Stream::Unix(listener.accept()?.0)),
        }
    }
}

impl Stream {
    fn try_clone(&self) -> std::io::Result<Stream> {
        match self {
            Stream::Tcp(stream) => stream.try_clone().map(Stream::Tcp),
            Stream::Unix(stream) => stream.try_clone().map(Stream::Unix),
        }
    }

    fn shutdown(&self, how: Shutdown) {
        // What is closed already needs no more closing.
        let _ = match self {
            Stream::Tcp(stream) => stream.shutdown(how),
            Stream::Unix(stream) => stream.shutdown(how),
        };
    }

    fn set_timeout(&self, timeout: Option<Duration>) -> std::io::Result<()> {
        match self {
            Stream::Tcp(stream) => stream.set_read_timeout(timeout),
            Stream::Unix(stream) => stream.set_read_timeout(timeout),
        }
    }
}

impl Common {
    fn new(options: &Options, pages: u64) -> Common {
        let (transport, extent_pages) = match options.listen {
            Listen::Tcp(_) => (Transport::Stream, 0),
            Listen::Shared(_) => (Transport::Shared, (options.extent_pages as u64).clamp(1, pages) as u32),
        };
        Common {
            terms: Terms { capacity: Capacity::new(pages), transport, extent_pages },
            counters: Arc::default(),
            open: Mutex::default(),
            stopping: AtomicBool::new(false),
        }
    }

    fn statistics(&self) -> Statistics {
        let capacity = &self.terms.capacity;
        self.counters.snapshot(capacity.pages(), capacity.pages() - capacity.free())
    }

    /// Gives a connection its thread.
    fn begin(self: &Arc<Self>, number: u64, mut stream: Stream) {
        let Ok(handle) = stream.try_clone() else { return };
        if self.sessions().len() >= MOST_SESSIONS {
            return self.refuse(&mut stream, Status::TooManySessions);
        }
        self.sessions().insert(number, handle);
        let common = self.clone();
        let serve = move || {
            common.serve(&mut stream);
            common.sessions().remove(&number);
        };
        // No thread for it: the connection closes, which the client is told of by its kernel.
        if std::thread::Builder::new().name("session".into()).spawn(serve).is_err() {
            self.sessions().remove(&number);
        }
    }

    fn sessions(&self) -> std::sync::MutexGuard<'_, BTreeMap<u64, Stream>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn serve(&self, stream: &mut Stream) {
        let Some(part) = self.greet(stream) else { return };
        count(&self.counters.sessions, 1);
        count(&self.counters.open_sessions, 1);
        let end = match stream {
            Stream::Tcp(stream) => {
                let mut session = Session::new(Pages::new(part), self.counters.clone());
                stream::serve(stream, &mut session)
            }
            Stream::Unix(stream) => shared::serve(stream, part, self.terms.extent_pages, &self.counters),
        };
        self.counters.open_sessions.fetch_sub(1, Relaxed);
        match end {
            End::Faulty(_) => count(&self.counters.faulty_sessions, 1),
            End::Gone if self.stopping.load(Relaxed) => stream::say_bye(stream, Reason::Stopping),
            End::Gone => {}
        }
    }

    /// `None`: there will be no session.
    fn greet(&self, stream: &mut Stream) -> Option<Part> {
        let mut bytes = [0; HELLO];
        stream.set_timeout(Some(GREETING_TIME)).ok()?;
        stream.read_exact(&mut bytes).ok()?;
        stream.set_timeout(None).ok()?;
        let hello = Hello::decode(&bytes).ok()?;
        let (welcome, part) = self.terms.greet(&hello);
        count(&self.counters.refused_sessions, part.is_none() as u64);
        stream.write_all(&welcome.encode()).ok()?;
        part
    }

    fn refuse(&self, stream: &mut Stream, status: Status) {
        count(&self.counters.refused_sessions, 1);
        let _ = stream.write_all(&self.terms.answer(status).encode());
    }

    /// Sessions say goodbye when nothing more can come in; those that hang are cut off.
    fn end_sessions(&self) {
        self.sessions().values().for_each(|stream| stream.shutdown(Shutdown::Read));
        let deadline = Instant::now() + ENDING_TIME;
        while !self.sessions().is_empty() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        self.sessions().values().for_each(|stream| stream.shutdown(Shutdown::Both));
    }
}

impl Read for Stream {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.read(into),
            Stream::Unix(stream) => stream.read(into),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        match self {
            Stream::Tcp(stream) => stream.write(bytes),
            Stream::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
