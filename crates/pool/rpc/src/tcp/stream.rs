//! Reading and writing with a deadline, so that a peer that sends or takes a byte only now and then blocks a thread for
//! a limited time.

use super::SILENCE;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_keys::Wire;
use unrack_keys::wire::keep_alive;

/// Time that a frame may take in addition to the time for its bytes at [`SLOWEST`]. It is shorter in tests.
const FRAME: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// Rate of the slowest peer that is tolerated, in bytes per millisecond.
const SLOWEST: u64 = 1024;
/// Time between two readings of the clock while no bytes come.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_millis(500) };
const BUFFER: usize = 64 << 10;

/// Returns the time that a frame of this many bytes may take.
pub(super) fn allowed(bytes: usize) -> Duration {
    FRAME + Duration::from_millis(bytes as u64 / SLOWEST)
}

/// A connection with a buffer for received bytes.
pub(super) struct Stream {
    /// The connection. Other threads may have its socket, to shut it down.
    wire: Wire,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// True if a read returns every [`TICK`] to check the clock. A read without a deadline sleeps instead.
    ticking: bool,
}

impl Stream {
    /// Sets the options of a socket, among them the timeouts that a [`Stream`] needs.
    pub(super) fn prepare(socket: TcpStream) -> io::Result<Arc<TcpStream>> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(TICK))?;
        keep_alive(&socket, SILENCE)?;
        Ok(Arc::new(socket))
    }

    /// Makes a stream of a connection whose socket was [prepared](Stream::prepare).
    pub(super) fn new(wire: Wire) -> Stream {
        Stream { wire, buffer: vec![0; BUFFER].into(), start: 0, end: 0, ticking: true }
    }

    /// Returns the connection.
    pub(super) fn wire(&self) -> &Wire {
        &self.wire
    }

    /// Returns the connection, without the buffer.
    pub(super) fn into_wire(self) -> Wire {
        self.wire
    }

    /// Waits without a deadline until there are bytes to read.
    pub(super) fn wait(&mut self) -> io::Result<()> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
            self.tick(false)?;
            self.end = receive(&mut self.wire, &mut self.buffer, None)?;
        }
        Ok(())
    }

    fn tick(&mut self, tick: bool) -> io::Result<()> {
        if self.ticking != tick {
            self.wire.socket().set_read_timeout(tick.then_some(TICK))?;
            self.ticking = tick;
        }
        Ok(())
    }

    /// Fills `bytes` with received bytes; fails if this takes until after the deadline.
    pub(super) fn read(&mut self, mut bytes: &mut [u8], deadline: Instant) -> io::Result<()> {
        loop {
            let count = bytes.len().min(self.end - self.start);
            let (now, later) = bytes.split_at_mut(count);
            now.copy_from_slice(&self.buffer[self.start..][..count]);
            self.start += count;
            bytes = later;
            if bytes.is_empty() {
                return Ok(());
            }
            // The deadline is checked here, too, because a peer may send a byte now and then.
            if Instant::now() >= deadline {
                return Err(ErrorKind::TimedOut.into());
            }
            self.tick(true)?;
            if bytes.len() >= BUFFER {
                let count = receive(&mut self.wire, bytes, Some(deadline))?;
                bytes = &mut bytes[count..];
            } else {
                (self.start, self.end) = (0, 0);
                self.end = receive(&mut self.wire, &mut self.buffer, Some(deadline))?;
            }
        }
    }

    /// Writes the whole header and body; fails if this takes until after the deadline.
    pub(super) fn write(&mut self, header: &[u8], body: &[u8], deadline: Instant) -> io::Result<()> {
        let (mut header, mut body) = (header, body);
        while !header.is_empty() || !body.is_empty() {
            match self.wire.write_vectored(&[IoSlice::new(header), IoSlice::new(body)]) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) if Instant::now() >= deadline => return Err(ErrorKind::TimedOut.into()),
                Ok(count) => {
                    let of_header = count.min(header.len());
                    header = &header[of_header..];
                    body = &body[count - of_header..];
                }
                Err(error) => again(error, Some(deadline))?,
            }
        }
        while self.wire.has_unsent() {
            if let Err(error) = self.wire.flush() {
                again(error, Some(deadline))?;
            }
        }
        Ok(())
    }
}

fn receive(wire: &mut Wire, bytes: &mut [u8], deadline: Option<Instant>) -> io::Result<usize> {
    loop {
        match wire.read(bytes) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(count) => return Ok(count),
            Err(error) => again(error, deadline)?,
        }
    }
}

fn again(error: io::Error, deadline: Option<Instant>) -> io::Result<()> {
    match error.kind() {
        ErrorKind::Interrupted => Ok(()),
        ErrorKind::WouldBlock if deadline.is_none_or(|deadline| Instant::now() < deadline) => Ok(()),
        ErrorKind::WouldBlock => Err(ErrorKind::TimedOut.into()),
        _ => Err(error),
    }
}
