//! Readiness of a socket: part of it is in its area, part of it in the kernel.

use crate::area::{Look, Phase};
use crate::carried::{CarriedEnd, Woken};
use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, c_short};

pub(crate) const READS: c_short = POLLIN | POLLRDNORM;
pub(crate) const WRITES: c_short = POLLOUT | POLLWRNORM;

/// Readiness, in the bits of `poll`.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Ready {
    /// Bits that hold now.
    pub(crate) now: c_short,
    /// Bits that the kernel knows: what it carries.
    pub(crate) kernel: c_short,
    /// True if the kernel's connection only wakes for reading.
    pub(crate) rings_in: bool,
    /// True if the kernel's connection only wakes for writing.
    pub(crate) rings_out: bool,
}

impl Ready {
    /// Returns the readiness of a socket for the bits asked for.
    pub(crate) fn of(carried: &CarriedEnd<'_>, asked: c_short) -> Ready {
        carried.settle();
        let mut ready = Ready { kernel: asked & (POLLPRI | POLLRDHUP), ..Ready::default() };
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
                Look::Bytes(_) | Look::Broken => self.now |= asked,
                Look::Empty => self.rings_in = true,
                Look::Ended => {
                    carried.drain();
                    self.kernel |= asked;
                }
            }
            return;
        }
        if carried.inward.phase() == Phase::Over {
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

    /// Asks to be woken for what the rings carry.
    pub(crate) fn arm(&self, carried: &CarriedEnd<'_>, asked: c_short) {
        if self.rings_in && asked & READS != 0 {
            carried.inward.request_data();
        }
        if self.rings_out && asked & WRITES != 0 {
            if carried.inward.phase() == Phase::Kernel {
                // The other end wakes by a byte in its own direction, which must have begun: it may have nothing to send.
                carried.agree();
            }
            carried.out.request_room();
        }
    }
}

/// Returns the error bit if the kernel reports a hang-up that is a reset: see [`CarriedEnd::is_reset`].
pub(crate) fn reset(carried: &CarriedEnd<'_>, reported: c_short) -> c_short {
    if reported & POLLHUP != 0 && carried.is_reset() { POLLERR } else { 0 }
}

/// Translates what the kernel reported of a socket whose kernel connection wakes. `reported` has the kernel's bits.
pub(crate) fn after_wake(carried: &CarriedEnd<'_>, asked: c_short, reported: c_short) -> c_short {
    let mut now = reported & (POLLERR | POLLHUP) | reset(carried, reported);
    if now != 0 {
        // As the kernel reports a connection that is over: reading and writing return at once.
        return now | asked & (READS | WRITES) | reported & asked & POLLRDHUP;
    }
    now |= reported & asked & POLLRDHUP;
    if carried.receives_by_ring()
        && carried.inward.look() == Look::Empty
        && reported & (POLLIN | POLLRDHUP) != 0
        && let Some(Woken::End) = carried.look_at_kernel()
    {
        // The end is read like bytes; what is written then is answered by the kernel.
        return now | asked & (READS | WRITES);
    }
    let ready = Ready::of(carried, asked);
    now | ready.now | reported & ready.kernel
}
