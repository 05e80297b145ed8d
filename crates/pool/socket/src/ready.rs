//! Readiness of a socket. It depends on the socket's area and on its kernel connection.

use crate::area::{RingReading, ByteSource};
use crate::carried::{CarriedEnd, Woken};
use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, c_short};

pub(crate) const READS: c_short = POLLIN | POLLRDNORM;
pub(crate) const WRITES: c_short = POLLOUT | POLLWRNORM;

/// Readiness of a socket, in the event bits of `poll`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct PollBits {
    /// Events that hold now.
    pub(crate) now: c_short,
    /// Events that the kernel is to be asked for, because it carries the bytes in question.
    pub(crate) kernel: c_short,
    /// True if incoming bytes come through the ring and none are there. A readable kernel connection then only means a wakeup.
    pub(crate) rings_in: bool,
    /// True if outgoing bytes go into the ring and it is full. A readable kernel connection then only means a wakeup.
    pub(crate) rings_out: bool,
}

impl PollBits {
    /// Returns the readiness of a socket for the events in `asked`.
    pub(crate) fn of(carried: &CarriedEnd<'_>, asked: c_short) -> PollBits {
        carried.settle();
        let mut ready = PollBits { kernel: asked & (POLLPRI | POLLRDHUP), ..PollBits::default() };
        ready.read(carried, asked & READS);
        ready.write(carried, asked & WRITES);
        if carried.entry.description().zerocopy.has_report() {
            ready.now |= POLLERR;
        }
        ready
    }

    fn read(&mut self, carried: &CarriedEnd<'_>, asked: c_short) {
        if carried.entry.description().is_lent() {
            self.rings_in = true;
            return;
        }
        if carried.receives_by_ring() {
            match carried.inward.look() {
                RingReading::Bytes(_) | RingReading::Broken => self.now |= asked,
                RingReading::Empty => self.rings_in = true,
                RingReading::Ended => {
                    carried.drain();
                    self.kernel |= asked;
                }
            }
            return;
        }
        if carried.inward.phase() == ByteSource::Over {
            carried.drain();
        }
        self.kernel |= asked;
    }

    fn write(&mut self, carried: &CarriedEnd<'_>, asked: c_short) {
        if !carried.out.is_ring() {
            self.kernel |= asked;
        } else if carried.out.is_writable() {
            self.now |= asked;
        } else {
            self.rings_out = true;
        }
    }

    /// Requests wakeups for the events that depend on the rings.
    pub(crate) fn arm(&self, carried: &CarriedEnd<'_>, asked: c_short) {
        if self.rings_in && asked & READS != 0 {
            carried.inward.request_data();
        }
        if self.rings_out && asked & WRITES != 0 {
            if carried.inward.phase() == ByteSource::Kernel {
                // The other end can send a wake byte only if its own direction has begun. Agree to that now, because it may have no bytes
                // to send.
                carried.agree();
            }
            carried.out.request_room();
        }
    }
}

/// Returns `POLLERR` if the kernel reports a hang-up that is a reset (see [`CarriedEnd::is_reset`]), otherwise zero.
pub(crate) fn reset(carried: &CarriedEnd<'_>, reported: c_short) -> c_short {
    if reported & POLLHUP != 0 && carried.is_reset() { POLLERR } else { 0 }
}

/// Translates the events in `reported`, which the kernel reported for the connection of a carried socket, to those of the socket.
pub(crate) fn after_wake(carried: &CarriedEnd<'_>, asked: c_short, reported: c_short) -> c_short {
    let mut now = reported & (POLLERR | POLLHUP) | reset(carried, reported);
    if now != 0 {
        // The kernel reports a finished connection as readable and writable, because both calls return at once.
        return now | asked & (READS | WRITES) | reported & asked & POLLRDHUP;
    }
    now |= reported & asked & POLLRDHUP;
    if carried.receives_by_ring()
        && carried.inward.look() == RingReading::Empty
        && reported & (POLLIN | POLLRDHUP) != 0
        && let Some(Woken::End) = carried.look_at_kernel()
    {
        // The end of the stream makes the socket readable, and the kernel answers a later write.
        return now | asked & (READS | WRITES);
    }
    let ready = PollBits::of(carried, asked);
    now | ready.now | reported & ready.kernel
}
