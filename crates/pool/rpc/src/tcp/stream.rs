//! Reading and writing with a deadline. A peer that sends or takes a byte now and then blocks a thread for a
//! limited time only.

use super::SILENCE;
use std::io::{self, ErrorKind, IoSlice, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};
use unrack_keys::Wire;
use unrack_keys::wire::keep_alive;

/// Time that a frame may take beyond the time of its bytes at [`SLOWEST`]. Shorter in tests.
const FRAME: Duration = if cfg!(test) { Duration::from_millis(300) } else { Duration::from_secs(10) };
/// Bytes per millisecond of the slowest peer that is tolerated.
const SLOWEST: u64 = 1024;
/// Time between two readings of the clock while nothing comes.
const TICK: Duration = if cfg!(test) { Duration::from_millis(20) } else { Duration::from_millis(500) };
const BUFFER: usize = 64 << 10;

/// Returns the time that a frame of this many bytes may take.
pub(super) fn allowed(bytes: usize) -> Duration {
    FRAME + Duration::from_millis(bytes as u64 / SLOWEST)
}

/// A connection with a buffer for received bytes.
pub(super) struct Stream {
    /// Connection; others may know its socket, to end it.
    wire: Wire,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    /// True if reading returns every [`TICK`] to check the clock. A read without a deadline sleeps.
    ticking: bool,
}

impl Stream {
    /// Sets a socket's options: among them the timeouts that a [`Stream`] needs.
    pub(super) fn prepare(socket: TcpStream) -> io::Result<Arc<TcpStream>> {
        socket.set_nonblocking(false)?;
        socket.set_nodelay(true)?;
        socket.set_read_timeout(Some(TICK))?;
        socket.set_write_timeout(Some(TICK))?;
        keep_alive(&socket, SILENCE)?;
        Ok(Arc::new(socket))
    }

    /// Makes a stream of a socket that was [prepared](Stream::prepare).
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

    /// Waits until there is something to read, without a deadline.
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

    /// Reads all of `bytes`.
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
            // Checked also for a peer that sends a byte now and then.
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

    /// Writes all of header and body.
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
