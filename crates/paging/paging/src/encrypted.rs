//! Encrypts the connections of pagers to a memory node. This process does it, because a pager cannot contain TLS.
//!
//! A pager lives in a foreign program: it has no allocator except its own heap, no thread-local storage, and no locks. Therefore a pager
//! connects to a socket of this process, in a folder that only this user can enter, and one thread per connection copies the bytes to the
//! memory node and back.

use crate::PagingError;
use crate::folder::ScratchFolder;
use rustix::event::{PollFd, PollFlags, Timespec};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddrV4, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use unrack_keys::wire::keep_alive;
use unrack_keys::{Keys, Wire};
use unrack_wire::PATIENCE;

/// Longest time to reach the memory node and prove keys. A pager waits as long for the greeting of the node.
const TIMEOUT: Duration = Duration::from_secs(5);
/// Timeout of each read and write during connection setup, after which the deadline is checked again.
const TICK: Duration = Duration::from_millis(500);
/// Maximum bytes that are buffered in each direction: as many pages as a pager has in flight.
const BUFFER: usize = 256 << 10;
const SOCKET: &str = "node";

/// Socket for pagers. It exists until this value is dropped.
#[derive(Debug)]
pub(crate) struct Encryption {
    folder: ScratchFolder,
    shared: Arc<StreamState>,
}

#[derive(Debug)]
struct StreamState {
    node: SocketAddrV4,
    keys: Arc<Keys>,
    stop: AtomicBool,
    /// Error of the connection that failed last.
    failure: Mutex<Option<String>>,
}

impl Encryption {
    /// Starts the socket and its thread.
    pub(crate) fn start(node: SocketAddrV4, keys: Arc<Keys>) -> Result<Encryption, PagingError> {
        let folder = ScratchFolder::fast()?;
        let path = folder.path(SOCKET);
        let listener = UnixListener::bind(&path)
            .map_err(PagingError::failed(format_args!("listen at {}", path.display())))?;
        let shared =
            Arc::new(StreamState { node, keys, stop: AtomicBool::new(false), failure: Mutex::default() });
        let theirs = shared.clone();
        std::thread::Builder::new()
            .name("unrack-tls".into())
            .spawn(move || accept(&listener, &theirs))
            .map_err(PagingError::failed("start a thread for encrypted connections"))?;
        Ok(Encryption { folder, shared })
    }

    /// Returns the path of the socket to which pagers connect.
    pub(crate) fn socket(&self) -> PathBuf {
        self.folder.path(SOCKET)
    }

    /// Returns the error of the connection that failed last.
    pub(crate) fn failure(&self) -> Option<String> {
        self.shared.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Encryption {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        // Wakes the accepting thread. If the connection fails, the thread has left its loop already.
        let _ = UnixStream::connect(self.socket());
    }
}

fn accept(listener: &UnixListener, shared: &Arc<StreamState>) {
    for near in listener.incoming().flatten() {
        if shared.stop.load(Relaxed) {
            return;
        }
        let shared = shared.clone();
        let carry = move || {
            if let Err(error) = shared.carry(&near) {
                *shared.failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
            }
            // Bytes that the pager has not read yet are lost with the connection.
            let _ = near.shutdown(Shutdown::Both);
        };
        // If no thread can be started, the pager sees its connection close.
        drop(std::thread::Builder::new().name("unrack-tls".into()).spawn(carry));
    }
}

impl StreamState {
    /// Copies bytes between one pager and the memory node, until either of them closes its connection.
    fn carry(&self, near: &UnixStream) -> Result<(), String> {
        let mut far = self.dial().map_err(|error| format!("the memory node at {}: {error}", self.node))?;
        pump(near, &mut far).map_err(|error| format!("the connection to {}: {error}", self.node))
    }

    fn dial(&self) -> Result<Wire, unrack_keys::Error> {
        let deadline = Instant::now() + TIMEOUT;
        let socket = TcpStream::connect_timeout(&self.node.into(), TIMEOUT)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(TICK))?;
        keep_alive(&socket, PATIENCE)?;
        Wire::connect(Arc::new(socket), Some(&self.keys), deadline)
    }
}

/// Copies bytes in both directions. Neither direction waits for the other.
fn pump(near: &UnixStream, far: &mut Wire) -> io::Result<()> {
    near.set_nonblocking(true)?;
    far.socket().set_nonblocking(true)?;
    let (mut up, mut down) = (Buffer::new(), Buffer::new());
    let (mut near, mut lookout) = (near, Lookout::default());
    while !up.is_over() && !down.is_over() {
        let has_unread = far.has_unread() && down.has_room();
        let ready = if has_unread { ReadySockets::default() } else { lookout.wait(near, far, &up, &down)? };
        // Only sockets with data are read, and only once, because each read in vain costs a system call.
        if ready.near {
            up.fill(&mut near)?;
        }
        up.drain(far)?;
        if ready.far || has_unread {
            down.fill(far)?;
        }
        down.drain(&mut near)?;
    }
    Ok(())
}

/// Sockets that have data to read.
#[derive(Default)]
struct ReadySockets {
    near: bool,
    far: bool,
}

/// Waits for data. While data arrive often, it polls without sleeping and yields the core to other threads meanwhile, because waking a
/// sleeping core takes longer than encrypting a page.
#[derive(Default)]
struct Lookout {
    is_soon: bool,
}

/// Time for which a wait polls before it sleeps, and longest wait after which data count as frequent. The memory node has the same times
/// for its reads.
const LOOK: Duration = Duration::from_micros(60);
const SOON: Duration = Duration::from_micros(200);

impl Lookout {
    fn wait(
        &mut self,
        near: &UnixStream,
        far: &Wire,
        up: &Buffer,
        down: &Buffer,
    ) -> io::Result<ReadySockets> {
        let flags = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let near_flags = flags(up.has_room(), !down.is_empty());
        let far_flags = flags(down.has_room(), !up.is_empty() || far.has_unsent());
        let mut both = [PollFd::new(near, near_flags), PollFd::new(&**far.socket(), far_flags)];
        let started = Instant::now();
        let mut ready = 0;
        while self.is_soon && ready == 0 && started.elapsed() < LOOK {
            ready = poll(&mut both, Some(&AT_ONCE))?;
            if ready == 0 {
                std::thread::yield_now();
            }
        }
        if ready == 0 {
            poll(&mut both, None)?;
        }
        self.is_soon = started.elapsed() < SOON;
        // A socket that has ended is readable too: the read tells how it ended.
        let is_ready =
            |socket: &PollFd| socket.revents().intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR);
        Ok(ReadySockets { near: is_ready(&both[0]), far: is_ready(&both[1]) })
    }
}

const AT_ONCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

fn poll(sockets: &mut [PollFd], timeout: Option<&Timespec>) -> io::Result<usize> {
    match rustix::event::poll(sockets, timeout) {
        Err(rustix::io::Errno::INTR) => Ok(0),
        other => Ok(other?),
    }
}

/// Buffer for one direction of a connection.
struct Buffer {
    bytes: Box<[u8]>,
    start: usize,
    end: usize,
    /// True if no more bytes will arrive.
    ended: bool,
}

impl Buffer {
    fn new() -> Buffer {
        Buffer { bytes: vec![0; BUFFER].into(), start: 0, end: 0, ended: false }
    }

    fn is_empty(&self) -> bool {
        self.start == self.end
    }

    fn has_room(&self) -> bool {
        self.end < BUFFER && !self.ended
    }

    /// Returns whether all bytes were passed on and no more will arrive.
    fn is_over(&self) -> bool {
        self.ended && self.is_empty()
    }

    /// Reads bytes that have arrived, if there is room.
    fn fill(&mut self, from: &mut impl Read) -> io::Result<()> {
        if !self.has_room() {
            return Ok(());
        }
        match from.read(&mut self.bytes[self.end..]) {
            Ok(0) => self.ended = true,
            Ok(count) => self.end += count,
            Err(error) if is_early(&error) => {}
            // A peer that was killed resets the connection without a closing message.
            Err(error) if is_end(&error) => self.ended = true,
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Writes the buffered bytes, as far as there is room at the other end.
    fn drain(&mut self, to: &mut impl Write) -> io::Result<()> {
        while !self.is_empty() {
            match to.write(&self.bytes[self.start..self.end]) {
                Ok(count) => self.start += count,
                Err(error) if is_early(&error) => break,
                Err(error) => return Err(error),
            }
        }
        if self.is_empty() {
            (self.start, self.end) = (0, 0);
        }
        match to.flush() {
            Err(error) if !is_early(&error) => Err(error),
            _ => Ok(()),
        }
    }
}

fn is_early(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

fn is_end(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset)
}
