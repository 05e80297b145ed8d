//! Reads from a connection whose client soon sends another request. These reads poll first, because waking a sleeping core would take
//! longer than the request.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use unrack_keys::Wire;

/// Time for which a read polls for data before it sleeps. It is about twice the cost of waking an idle core, so that polling in vain wastes
/// at most two thirds of the total time.
const LOOK: Duration = Duration::from_micros(60);
/// Longest wait for data after which the client counts as one that soon sends another request.
const SOON: Duration = Duration::from_micros(200);

/// A connection whose reads poll before they sleep, as long as its client sends requests often.
pub(crate) struct Eager<'a> {
    wire: &'a mut Wire,
    is_soon: bool,
}

impl<'a> Eager<'a> {
    pub(crate) fn new(wire: &'a mut Wire) -> Eager<'a> {
        Eager { wire, is_soon: false }
    }

    /// Polls until there is data to read, or the time is over. Yields the core to other threads meanwhile.
    fn look(&self) {
        let started = Instant::now();
        while !is_readable(self.wire) && started.elapsed() < LOOK {
            std::thread::yield_now();
        }
    }
}

fn is_readable(wire: &Wire) -> bool {
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let mut socket = [PollFd::new(wire.socket(), PollFlags::IN)];
    // An error counts as readable, because the following read reports it.
    !matches!(poll(&mut socket, Some(&at_once)), Ok(0))
}

impl Read for Eager<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let started = Instant::now();
        if self.is_soon && !self.wire.has_unread() {
            self.look();
        }
        let read = self.wire.read(into);
        self.is_soon = started.elapsed() < SOON;
        read
    }
}

impl Write for Eager<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.wire.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.wire.flush()
    }
}
