//! Reads from a connection whose client asks again soon: a sleeping core takes longer to wake than that.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, Read, Write};
use std::time::{Duration, Instant};
use unrack_keys::Wire;

/// Time for which a read looks for data before it sleeps: about what waking an idle core costs, twice, so that at most
/// two thirds of it are lost.
const LOOK: Duration = Duration::from_micros(60);
/// Longest wait after which the client counts as one that asks soon.
const SOON: Duration = Duration::from_micros(200);

/// A connection that is read from eagerly, for as long as its client asks often.
pub(crate) struct Eager<'a> {
    wire: &'a mut Wire,
    is_soon: bool,
}

impl<'a> Eager<'a> {
    pub(crate) fn new(wire: &'a mut Wire) -> Eager<'a> {
        Eager { wire, is_soon: false }
    }

    /// Waits without sleeping until there is something to read, or the time is over. Others who want the core get it.
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
    // A failure is found by the read.
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
