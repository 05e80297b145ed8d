//! The server's threads: one that takes connections, and one for each of them, which runs its calls to their end.

use super::hello::{HELLO_BYTES, Hello, SessionId, VERSION, Verdict, Welcome};
use super::session::{Broken, Held, Session, Sessions};
use super::stream::{Stream, allowed};
use super::{ANSWER_BYTES, MOST_BYTES, Notice, REQUEST_BYTES, from_bytes, to_bytes};
use crate::error::Error;
use crate::queue::entry::{MOST_SLOTS, Request};
use crate::server::Desk;
use crate::server::methods::Methods;
use rustix::event::{EventfdFlags, PollFd, PollFlags};
use rustix::fd::OwnedFd;
use std::io::{self, Read};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use unrack_pool::wire::{ClientId, Peer};

/// Connections at a time. Each has a thread.
const MOST_CONNECTIONS: usize = 256;
/// How long a stranger has to say what it wants.
const GREETING: Duration = Duration::from_secs(5);
/// A session waits for its client no longer than this.
const LONGEST_PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked whose patience is over.
const TICK: rustix::event::Timespec = rustix::event::Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// A service that listens, until this is dropped.
pub struct Listening {
    address: SocketAddr,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    service: String,
    methods: Arc<Methods>,
    sessions: Sessions,
    stop: AtomicBool,
    wake: OwnedFd,
}

impl Listening {
    /// `address`: host and port; port 0 is a free one.
    pub fn start(address: &str, service: &str, methods: &Arc<Methods>) -> Result<Listening, Error> {
        let failed = |error| Error::Listen { address: address.into(), error };
        let listener = TcpListener::bind(address).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let wake = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| failed(error.into()))?;
        let shared = Arc::new(Shared {
            service: service.into(),
            methods: methods.clone(),
            sessions: Sessions::default(),
            stop: AtomicBool::new(false),
            wake,
        });
        let thread = std::thread::Builder::new().name("unrack-listen".into()).spawn({
            let shared = shared.clone();
            move || shared.accept(&listener)
        })?;
        Ok(Listening { address, shared, thread: Some(thread) })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Waits until it ends, which nothing makes it do but dropping it.
    pub fn wait(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.stop.store(true, Ordering::SeqCst);
        self.shared.wake();
        self.wait();
    }
}

impl Shared {
    fn wake(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.wake, &1u64.to_ne_bytes());
    }

    fn accept(self: &Arc<Shared>, listener: &TcpListener) {
        let mut threads: Vec<(JoinHandle<()>, Weak<TcpStream>)> = Vec::new();
        while !self.stop.load(Ordering::SeqCst) {
            let mut waited = [PollFd::new(listener, PollFlags::IN), PollFd::new(&self.wake, PollFlags::IN)];
            let timeout = self.sessions.any_waits().then_some(&TICK);
            let _ = rustix::event::poll(&mut waited, timeout);
            let _ = rustix::io::read(&self.wake, &mut [0; 8]);
            self.sessions.expire(&self.methods);
            threads.retain(|(thread, _)| !thread.is_finished());
            // One that is not there any more, or no descriptor for it: the next may do.
            let Ok((socket, from)) = listener.accept() else { continue };
            let room = threads.len() < MOST_CONNECTIONS;
            let shared = self.clone();
            let socket = Arc::new(socket);
            let known = Arc::downgrade(&socket);
            let thread = std::thread::Builder::new().name("unrack-tcp".into()).spawn(move || {
                // Whatever goes wrong with it is the connection's own.
                let _ = shared.serve(socket, from, room);
            });
            threads.extend(thread.map(|thread| (thread, known)));
        }
        // Strangers as well, who may be in the middle of what they say.
        for socket in threads.iter().filter_map(|(_, socket)| socket.upgrade()) {
            let _ = socket.shutdown(Shutdown::Both);
        }
        for (thread, _) in threads {
            let _ = thread.join();
        }
        self.sessions.end(&self.methods);
    }

    fn serve(&self, socket: Arc<TcpStream>, from: SocketAddr, room: bool) -> io::Result<()> {
        socket.set_nonblocking(false)?;
        let mut stream = Stream::new(socket)?;
        let deadline = Instant::now() + GREETING;
        let refuse = |stream: &mut Stream, verdict| {
            let welcome = Welcome { version: VERSION, verdict, session: [0; 16], most_bytes: 0 };
            stream.write(&welcome.to_bytes(), &[], deadline)
        };
        if !room {
            return refuse(&mut stream, Verdict::Busy);
        }
        let mut bytes = [0; HELLO_BYTES];
        stream.read(&mut bytes, deadline)?;
        let Some((hello, name)) = Hello::from_bytes(&bytes) else {
            return refuse(&mut stream, Verdict::Malformed);
        };
        if hello.version != VERSION {
            return refuse(&mut stream, Verdict::WrongVersion);
        }
        let mut service = vec![0; name];
        stream.read(&mut service, deadline)?;
        if service != self.service.as_bytes() {
            return refuse(&mut stream, Verdict::NoService);
        }
        let held = match self.session(&hello, stream.socket(), from)? {
            Ok(held) => held,
            Err(verdict) => return refuse(&mut stream, verdict),
        };
        let Some(mut session) = held.enter() else {
            self.sessions.leave(&held, false, &self.methods);
            self.wake();
            return refuse(&mut stream, Verdict::Busy);
        };
        let most_bytes = MOST_BYTES as u32;
        let welcome = Welcome { version: VERSION, verdict: Verdict::Taken, session: held.id(), most_bytes };
        let over = match stream.write(&welcome.to_bytes(), &[], deadline) {
            Ok(()) => self.calls(&mut stream, &mut session),
            Err(_) => false,
        };
        drop(session);
        self.sessions.leave(&held, over, &self.methods);
        // There may be somebody to wait for now.
        self.wake();
        Ok(())
    }

    /// The session that a hello asks for, or why there is none.
    fn session(
        &self,
        hello: &Hello,
        socket: &Arc<TcpStream>,
        from: SocketAddr,
    ) -> io::Result<Result<Held, Verdict>> {
        if hello.session != [0; 16] {
            return Ok(self.sessions.take_over(hello.session, socket).ok_or(Verdict::NoSession));
        }
        let lines = usize::from(hello.lines);
        if !(1..=MOST_SLOTS).contains(&lines) {
            return Ok(Err(Verdict::Malformed));
        }
        let patience = Duration::from_millis(hello.patience_ms.into()).min(LONGEST_PATIENCE);
        let session = Session::new(Desk::new(stranger(from), next_client()), lines);
        Ok(Ok(self.sessions.begin(unguessable()?, session, socket, patience)))
    }

    /// Reads calls and answers them. Says whether the session is over with the connection.
    fn calls(&self, stream: &mut Stream, session: &mut Session) -> bool {
        loop {
            match self.frame(stream, session) {
                Ok(true) => {}
                Ok(false) => return true,
                Err(Ended::Connection) => return false,
                Err(Ended::Session) => return true,
            }
            if self.stop.load(Ordering::Relaxed) {
                return true;
            }
        }
    }

    /// Says false if it is the last.
    fn frame(&self, stream: &mut Stream, session: &mut Session) -> Result<bool, Ended> {
        stream.wait()?;
        let deadline = Instant::now() + allowed(0);
        let mut bytes = [0; REQUEST_BYTES];
        stream.read(&mut bytes, deadline)?;
        let entries = from_bytes(bytes);
        if let Some(notice) = Notice::from_entries(entries) {
            return Ok(session.notice(notice.map_err(|()| Broken)?)?);
        }
        let request = Request::from_entries(entries).ok_or(Broken)?;
        if request.length.max(request.capacity) as usize > MOST_BYTES {
            return Err(Ended::Session);
        }
        let length = request.length as usize;
        let mut block = session.block(&request)?;
        let bytes = Arc::get_mut(&mut block).expect("nobody else has it").bytes_mut(length);
        stream.read(bytes, deadline + allowed(length))?;
        let (answer, body) = session.call(request, block, &self.methods)?;
        let header: [u8; ANSWER_BYTES] = to_bytes(answer.entries());
        stream.write(&header, body, Instant::now() + allowed(body.len()))?;
        Ok(true)
    }
}

/// What ends with something that went wrong.
enum Ended {
    Connection,
    Session,
}

impl From<io::Error> for Ended {
    fn from(_: io::Error) -> Ended {
        Ended::Connection
    }
}

impl From<Broken> for Ended {
    fn from(_: Broken) -> Ended {
        Ended::Session
    }
}

/// Whoever calls from an address.
fn stranger(from: SocketAddr) -> Peer {
    Peer { id: ClientId(0), pid: 0, uid: 0, gid: 0, name: from.to_string() }
}

/// Numbers that no client over a pool has.
fn next_client() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1 << 63);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

fn unguessable() -> io::Result<SessionId> {
    let mut id = [0; 16];
    std::fs::File::open("/dev/urandom")?.read_exact(&mut id)?;
    Ok(id)
}
