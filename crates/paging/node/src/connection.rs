//! Thread of one client connection, from its greeting to its end.

use crate::eager::Eager;
use crate::listen::Stream;
use crate::node::NodeState;
use crate::pages::NodePages;
use crate::part::SessionPages;
use crate::session::Session;
use crate::shared;
use crate::statistics::count;
use crate::stream::{self, SessionEnd};
use std::io::{self, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use unrack_keys::Wire;
use unrack_keys::shares::Peer;
use unrack_keys::wire::{keep_alive, part, speaks_plainly};
use unrack_wire::{EndReason, GreetingStatus, HELLO, Hello};

/// Longest time between the start of a connection and the client's greeting.
const GREETING_TIME: Duration = Duration::from_secs(5);
/// Timeout of each read and write during the greeting, after which the deadline is checked again.
const TICK: Duration = Duration::from_millis(500);

/// Byte stream with a timeout for reads and writes.
trait TimedStream: Read + Write {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()>;
}

impl TimedStream for Wire {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.socket().set_read_timeout(timeout)?;
        self.socket().set_write_timeout(timeout)
    }
}

impl TimedStream for UnixStream {
    fn set_timeout(&self, timeout: Option<Duration>) -> io::Result<()> {
        self.set_read_timeout(timeout)?;
        self.set_write_timeout(timeout)
    }
}

impl NodeState {
    /// Serves a connection until it ends. An error affects this connection only.
    pub(crate) fn serve(&self, stream: Stream) -> io::Result<()> {
        let client = stream.client()?;
        match stream {
            Stream::Tcp(socket) => self.serve_tcp(socket, client),
            Stream::Unix(socket) => {
                let mut socket = socket.try_clone()?;
                let Some(part) = self.greet(&mut socket, client)? else { return Ok(()) };
                let pages = self.terms.extent_pages;
                self.run(&mut socket, |socket| shared::serve(socket, part, pages, &self.counters));
                Ok(())
            }
        }
    }

    fn serve_tcp(&self, socket: Arc<TcpStream>, client: Peer) -> io::Result<()> {
        if let Some(silence) = self.silence {
            keep_alive(&socket, silence)?;
        }
        let Some(mut wire) = self.wire(socket)? else { return Ok(()) };
        let client = wire.peer().map_or(client, Peer::Key);
        let Some(part) = self.greet(&mut wire, client)? else { return Ok(()) };
        let mut session = Session::new(NodePages::new(part), self.counters.clone());
        self.run(&mut wire, |wire| stream::serve(&mut Eager::new(wire), &mut session));
        Ok(())
    }

    /// Encrypts the connection if the node has keys. Returns `None` if the node has keys but the client connected without encryption; the
    /// client has then been refused.
    fn wire(&self, socket: Arc<TcpStream>) -> io::Result<Option<Wire>> {
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(TICK))?;
        let deadline = Instant::now() + GREETING_TIME;
        if self.keys.is_some() && is_plain(&socket, deadline)? {
            self.refuse(&mut Wire::plain(socket.clone()), GreetingStatus::KeysNeeded);
            part(&socket);
            return Ok(None);
        }
        let wire = Wire::accept(socket, self.keys.as_ref(), deadline);
        Ok(Some(wire.inspect_err(|_| count(&self.counters.refused_sessions, 1))?))
    }

    /// Refuses a connection because there are too many sessions.
    pub(crate) fn turn_away_one(&self, stream: Stream) -> io::Result<()> {
        match stream {
            Stream::Tcp(socket) => {
                if let Some(mut wire) = self.wire(socket.clone())? {
                    self.refuse(&mut wire, GreetingStatus::TooManySessions);
                    part(&socket);
                }
            }
            Stream::Unix(stream) => self.refuse(&mut &*stream, GreetingStatus::TooManySessions),
        }
        Ok(())
    }

    /// Reads the client's greeting and answers it. Returns `None` if no session begins.
    fn greet(&self, stream: &mut impl TimedStream, client: Peer) -> io::Result<Option<SessionPages>> {
        let deadline = Instant::now() + GREETING_TIME;
        stream.set_timeout(Some(TICK))?;
        let mut bytes = [0; HELLO];
        read_until(stream, &mut bytes, deadline)?;
        let hello = Hello::decode(&bytes).map_err(|malformed| io::Error::other(malformed.0))?;
        let (welcome, part) = self.terms.greet(&hello, client);
        count(&self.counters.refused_sessions, part.is_none() as u64);
        stream.set_timeout(self.silence)?;
        stream.write_all(&welcome.encode())?;
        stream.flush()?;
        Ok(part)
    }

    /// Answers a client that it gets no session, with the reason.
    fn refuse(&self, stream: &mut impl Write, status: GreetingStatus) {
        count(&self.counters.refused_sessions, 1);
        let _ = stream.write_all(&self.terms.answer(status).encode()).and_then(|()| stream.flush());
    }

    /// Runs an admitted session and counts it. If the node ends the session, sends the reason to the client.
    fn run<S: TimedStream>(&self, stream: &mut S, serve: impl FnOnce(&mut S) -> SessionEnd) {
        count(&self.counters.sessions, 1);
        count(&self.counters.open_sessions, 1);
        let end = serve(stream);
        self.counters.open_sessions.fetch_sub(1, Relaxed);
        // Limits the time by which a client that does not read can delay the end to one tick.
        let _ = stream.set_timeout(Some(TICK));
        match end {
            SessionEnd::Faulty(_) => count(&self.counters.faulty_sessions, 1),
            SessionEnd::Silent => {
                count(&self.counters.silent_sessions, 1);
                stream::say_bye(stream, EndReason::Silent);
            }
            SessionEnd::Gone if self.stopping.load(Relaxed) => stream::say_bye(stream, EndReason::Stopping),
            SessionEnd::Gone => {}
        }
    }
}

/// Returns whether the client's first bytes are not encrypted.
fn is_plain(socket: &TcpStream, deadline: Instant) -> io::Result<bool> {
    loop {
        match speaks_plainly(socket) {
            Err(error) if is_early(&error, deadline) => {}
            other => return other,
        }
    }
}

/// Reads until `bytes` is full, in pieces of any size. Fails at the deadline.
fn read_until(stream: &mut impl Read, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match stream.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => bytes = &mut bytes[count..],
            Err(error) if is_early(&error, deadline) => {}
            Err(error) => return Err(error),
        }
        if Instant::now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
    }
    Ok(())
}

/// Returns whether the error is a timeout or a signal before the deadline, so that the read must be repeated.
fn is_early(error: &io::Error, deadline: Instant) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
        && Instant::now() < deadline
}
