//! The server's threads: one that accepts connections, and one per connection, which runs the calls of the connection
//! to their end.

use super::connections::{ConnectionActivity, ConnectionTable, CountedConnection};
use super::hello::{Backlog, HELLO_BYTES, Hello, HelloVerdict, SessionId, VERSION, Welcome};
use super::limits::{LimitReached, SMALL};
use super::session::{ChargedBlock, Session, TcpSessionError};
use super::sessions::{HeldSession, Sessions};
use super::stream::{Stream, allowed};
use super::{ANSWER_BYTES, MOST_BYTES, Notice, PeerLimits, REQUEST_BYTES, Scheme, from_bytes, to_bytes};
use crate::error::Error;
use crate::queue::entry::{Answer, EntryStatus, MOST_SLOTS, Request};
use crate::server::ClientContext;
use crate::server::methods::Methods;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_keys::shares::{NoRoom, Peer, PeerShares, ShareAccount};
use unrack_keys::wire::{part, speaks_plainly};
use unrack_keys::{Keys, Wire};
use unrack_pool::process::Maker;
use unrack_pool::wire::{self, ClientId};

/// Longest time that a new connection may take to send its hello.
const GREETING: Duration = Duration::from_secs(5);
/// Longest time that a call waits for memory that other calls hold, before the server refuses it.
const BACKLOG: Duration = if cfg!(test) { Duration::from_millis(200) } else { Duration::from_secs(2) };
/// Time between two attempts of a waiting call to get memory.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum number of threads in addition to one per admitted connection. They serve new connections that are refused, and old
/// connections that were closed to make room and have not ended yet.
const FAREWELLS: usize = 64;
/// Number of bytes of a call that are charged and read at a time.
const STEP: usize = 1 << 20;
/// Interval at which the server ends sessions whose patience is over.
const TICK: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// A service that listens over TCP until this value is dropped.
pub(crate) struct Listening {
    maker: Maker,
    address: SocketAddr,
    shared: Arc<ListenerState>,
    thread: Option<JoinHandle<()>>,
}

struct ListenerState {
    service: String,
    methods: Arc<Methods>,
    sessions: Sessions,
    connections: Arc<ConnectionTable>,
    shares: Arc<PeerShares>,
    limits: PeerLimits,
    /// Keys of the server; `None` if connections are not encrypted.
    keys: Option<Arc<Keys>>,
    stop: AtomicBool,
    wake: OwnedFd,
}

impl Listening {
    /// Starts listening. `address` is host and port with a [`Scheme`]; port 0 selects a free one.
    pub(crate) fn start(
        address: &str,
        service: &str,
        methods: &Arc<Methods>,
        limits: PeerLimits,
    ) -> Result<Listening, Error> {
        let (scheme, place) = Scheme::split(address);
        let failed = |error| Error::Listen { address: place.into(), error };
        let listener = TcpListener::bind(place).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let keys = scheme.keys_for(address).map_err(|error| failed(error.into()))?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let shared = Arc::new(ListenerState {
            service: service.into(),
            methods: methods.clone(),
            sessions: Sessions::default(),
            connections: ConnectionTable::new(limits.connections),
            shares: PeerShares::new(limits.bytes, limits.bytes_of_peer),
            limits,
            keys,
            stop: AtomicBool::new(false),
            wake,
        });
        let thread = std::thread::Builder::new().name("unrack-listen".into()).spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        })?;
        Ok(Listening { maker: Maker::this_process(), address, shared, thread: Some(thread) })
    }

    /// Returns the address at which the service listens.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the number of bytes that are held for all clients together.
    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.shared.shares.all().taken()
    }

    /// Waits until the service ends, which happens only when this value is dropped.
    pub(crate) fn wait(&mut self) {
        if !self.maker.is_here() {
            // The thread runs in the parent process, which serves, so a child cannot join it.
            return std::mem::forget(self.thread.take());
        }
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if self.maker.is_here() {
            self.shared.stop.store(true, Ordering::SeqCst);
            self.shared.wake();
        }
        self.wait();
    }
}

impl ListenerState {
    fn wake(&self) {
        // The result does not matter, because a counter that is full wakes the thread as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn accept(self: &Arc<ListenerState>, listener: &TcpListener) {
        let mut threads: Vec<(JoinHandle<()>, Weak<TcpStream>)> = Vec::new();
        while !self.stop.load(Ordering::SeqCst) {
            let mut waited = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            let timeout = self.sessions.any_waits().then_some(&TICK);
            let _ = rustix::event::poll(&mut waited, timeout);
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            self.sessions.expire(&self.methods);
            threads.retain(|(thread, _)| !thread.is_finished());
            // The connection is gone already, or no descriptor is left for it. The next connection may succeed.
            let Ok((socket, from)) = listener.accept() else { continue };
            if threads.len() >= self.limits.connections + FAREWELLS {
                continue;
            }
            let Ok(socket) = Stream::prepare(socket) else { continue };
            let admitted = self.connections.admit(Peer::from_address(from.ip()), &socket);
            let shared = self.clone();
            let known = Arc::downgrade(&socket);
            let thread = std::thread::Builder::new().name("unrack-tcp".into()).spawn(move || {
                // The error is discarded, because it concerns only this connection.
                let _ = shared.serve(socket, from, admitted);
            });
            threads.extend(thread.map(|thread| (thread, known)));
        }
        // This includes connections without a session, whose hello may be incomplete.
        for socket in threads.iter().filter_map(|(_, socket)| socket.upgrade()) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for (thread, _) in threads {
            let _ = thread.join();
        }
        self.sessions.end(&self.methods);
    }

    fn serve(
        &self,
        socket: Arc<TcpStream>,
        from: SocketAddr,
        admitted: Result<CountedConnection, Backlog>,
    ) -> io::Result<()> {
        let deadline = Instant::now() + GREETING;
        if self.keys.is_some() && speaks_plainly(&socket)? {
            let refusal = Welcome::refusal(HelloVerdict::KeysNeeded);
            return refuse(&mut Stream::new(Wire::plain(socket)), refusal, deadline);
        }
        let mut stream = Stream::new(Wire::accept(socket, self.keys.as_ref(), deadline)?);
        let counted = match admitted {
            Ok(counted) => counted,
            Err(backlog) => return refuse(&mut stream, Welcome::busy(backlog), deadline),
        };
        let hello = match self.hello(&mut stream, deadline)? {
            Ok(hello) => hello,
            Err(verdict) => return refuse(&mut stream, Welcome::refusal(verdict), deadline),
        };
        let held = match self.session(&hello, stream.wire(), from)? {
            Ok(held) => held,
            Err(refusal) => return refuse(&mut stream, refusal, deadline),
        };
        let Some(mut session) = held.enter() else {
            self.sessions.leave(&held, false, &self.methods);
            self.wake();
            return refuse(&mut stream, Welcome::refusal(HelloVerdict::Busy), deadline);
        };
        let most_bytes = self.limits.bytes_of_peer.min(MOST_BYTES as u64) as u32;
        let welcome =
            Welcome { version: VERSION, verdict: HelloVerdict::Taken, session: held.id(), most_bytes };
        let over = match stream.write(&welcome.to_bytes(), &[], deadline) {
            Ok(()) => self.calls(&mut stream, &mut session, &counted),
            Err(_) => false,
        };
        session.drop_unpaid();
        drop(session);
        self.sessions.leave(&held, over, &self.methods);
        // The accepting thread has to check, because there may be a session now that waits for its client.
        self.wake();
        Ok(())
    }

    /// Reads the hello of a new connection. Returns the reason if the connection is refused.
    fn hello(&self, stream: &mut Stream, deadline: Instant) -> io::Result<Result<Hello, HelloVerdict>> {
        let mut bytes = [0; HELLO_BYTES];
        stream.read(&mut bytes, deadline)?;
        let Some((hello, name)) = Hello::from_bytes(&bytes) else { return Ok(Err(HelloVerdict::Malformed)) };
        if hello.version != VERSION {
            return Ok(Err(HelloVerdict::WrongVersion));
        }
        let mut service = vec![0; name];
        stream.read(&mut service, deadline)?;
        let is_ours = service == self.service.as_bytes();
        Ok(is_ours.then_some(hello).ok_or(HelloVerdict::NoService))
    }

    /// Returns the session that a hello requests, or the refusal if the server gives none.
    fn session(
        &self,
        hello: &Hello,
        wire: &Wire,
        from: SocketAddr,
    ) -> io::Result<Result<HeldSession, Welcome>> {
        if hello.session != [0; 16] {
            let held = self.sessions.take_over(hello.session, wire.socket());
            return Ok(held.ok_or(Welcome::refusal(HelloVerdict::NoSession)));
        }
        let lines = usize::from(hello.lines);
        if !(1..=MOST_SLOTS).contains(&lines) {
            return Ok(Err(Welcome::refusal(HelloVerdict::Malformed)));
        }
        let patience = Duration::from_millis(hello.patience_ms.into()).min(self.limits.patience);
        let account = self.shares.account(wire.peer().map_or(Peer::from_address(from.ip()), Peer::Key));
        let session = loop {
            match Session::new(ClientContext::new(stranger(from), next_client()), lines, &account) {
                Ok(session) => break session,
                Err(full) if self.end_a_session(&account, full) => {}
                Err(_) => return Ok(Err(Welcome::refusal(HelloVerdict::NoMemory))),
            }
        };
        Ok(Ok(self.sessions.begin(unguessable()?, session, wire.socket(), patience)))
    }

    /// Reads calls and answers them. Returns whether the session ends together with the connection.
    fn calls(&self, stream: &mut Stream, session: &mut Session, counted: &CountedConnection) -> bool {
        loop {
            match self.frame(stream, session, counted) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(ErrorScope::Connection) => return false,
                Err(ErrorScope::Session) => return true,
            }
            if self.stop.load(Ordering::Relaxed) {
                return true;
            }
        }
    }

    /// Reads one call or notice and handles it. Returns false if it was the last one.
    fn frame(
        &self,
        stream: &mut Stream,
        session: &mut Session,
        counted: &CountedConnection,
    ) -> Result<bool, ErrorScope> {
        counted.now(ConnectionActivity::Waiting);
        stream.wait()?;
        counted.now(ConnectionActivity::Waiting);
        let mut bytes = [0; REQUEST_BYTES];
        stream.read(&mut bytes, Instant::now() + allowed(0))?;
        let entries = from_bytes(bytes);
        if let Some(notice) = Notice::from_entries(entries) {
            return Ok(session.notice(notice.map_err(|()| TcpSessionError)?)?);
        }
        let request = Request::from_entries(entries).ok_or(TcpSessionError)?;
        if request.length.max(request.capacity) as usize > MOST_BYTES {
            return Err(ErrorScope::Session);
        }
        let Some(room) = self.read_call(stream, session, &request)? else {
            let header: [u8; ANSWER_BYTES] = to_bytes(no_memory(&request, session).entries());
            stream.write(&header, &[], Instant::now() + allowed(0))?;
            return Ok(true);
        };
        counted.now(ConnectionActivity::Calling);
        let (answer, body) = session.call(request, room, &self.methods)?;
        counted.now(ConnectionActivity::Waiting);
        let header: [u8; ANSWER_BYTES] = to_bytes(answer.entries());
        stream.write(&header, body, Instant::now() + allowed(body.len()))?;
        Ok(true)
    }

    /// Reads the bytes of a call, and charges them step by step. Returns `None` if there is not enough memory; then the
    /// rest of the bytes is read and discarded.
    fn read_call(
        &self,
        stream: &mut Stream,
        session: &mut Session,
        request: &Request,
    ) -> Result<Option<ChargedBlock>, ErrorScope> {
        let length = request.length as usize;
        let mut room = session.room(request)?;
        let (mut have, mut deadline) = (0, Instant::now() + allowed(length));
        while have < length {
            let step = STEP.min(length - have);
            let begun = Instant::now();
            if !self.pay(session, &mut room, have + step) {
                drop(room);
                skip(stream, length - have, deadline + begun.elapsed())?;
                return Ok(None);
            }
            deadline += begun.elapsed();
            let block = Arc::get_mut(&mut room.block).expect("nobody else has it");
            stream.read(&mut block.bytes_mut(length)[have..have + step], deadline)?;
            have += step;
        }
        let all = request.length.max(request.capacity) as usize;
        Ok(self.pay(session, &mut room, all).then_some(room))
    }

    /// Charges a call for its memory, and returns whether this succeeded. If the limit is reached, the server first
    /// ends sessions that wait for their client, then drops kept answers of this session, and then waits a while until
    /// other calls free memory.
    fn pay(&self, session: &mut Session, room: &mut ChargedBlock, bytes: usize) -> bool {
        let deadline = Instant::now() + BACKLOG;
        loop {
            match room.pay(bytes) {
                Ok(()) => return true,
                Err(full) if self.end_a_session(session.account(), full) || session.forget_oldest() => {}
                Err(_) if Instant::now() >= deadline || self.stop.load(Ordering::Relaxed) => return false,
                Err(_) => std::thread::sleep(LOOK),
            }
        }
    }

    /// Ends a session that has no connection and whose memory would help. Returns false if there is none.
    fn end_a_session(&self, account: &ShareAccount, full: LimitReached) -> bool {
        let of_peer = self.sessions.end_oldest(Some(account), &self.methods);
        of_peer || full.0 == NoRoom::ForAll && self.sessions.end_oldest(None, &self.methods)
    }
}

/// Refuses a peer, which may still be sending its hello.
fn refuse(stream: &mut Stream, refusal: Welcome, deadline: Instant) -> io::Result<()> {
    stream.write(&refusal.to_bytes(), &[], deadline)?;
    part(stream.wire().socket());
    Ok(())
}

/// Returns the answer to a call for which there is no memory. It contains the number of MiB that the peer holds.
fn no_memory(request: &Request, session: &Session) -> Answer {
    let &Request { slot, generation, .. } = request;
    let length = (session.account().taken() >> 20) as u32;
    Answer { status: EntryStatus::BUSY, slot, generation, offset: 0, length }
}

/// Reads this many bytes and discards them.
fn skip(stream: &mut Stream, mut bytes: usize, deadline: Instant) -> io::Result<()> {
    let mut place = vec![0; SMALL];
    while bytes > 0 {
        let count = bytes.min(SMALL);
        stream.read(&mut place[..count], deadline)?;
        bytes -= count;
    }
    Ok(())
}

/// Scope that an error ends: only the connection, or its session as well.
enum ErrorScope {
    Connection,
    Session,
}

impl From<io::Error> for ErrorScope {
    fn from(_: io::Error) -> ErrorScope {
        ErrorScope::Connection
    }
}

impl From<TcpSessionError> for ErrorScope {
    fn from(_: TcpSessionError) -> ErrorScope {
        ErrorScope::Session
    }
}

/// Returns the description of a client that is known only by its address.
fn stranger(from: SocketAddr) -> wire::PeerProcess {
    wire::PeerProcess { id: ClientId(0), pid: 0, uid: 0, gid: 0, name: from.to_string() }
}

/// Returns a new client number, which differs from those of all clients over a pool.
fn next_client() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn unguessable() -> io::Result<SessionId> {
    let mut id = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
    Ok(id)
}
