//! Readiness of a socket: part of it is in its area, part of it in the kernel.

use crate::area::{Look, Phase, UNSET};
use crate::table::{Entry, Link};
use crate::wait::{self, Woken};
use crate::{recv, send, zerocopy};
use libc::{POLLERR, POLLHUP, POLLIN, POLLOUT, POLLPRI, POLLRDHUP, POLLRDNORM, POLLWRNORM, c_int, c_short};
use std::sync::atomic::Ordering;

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

/// Returns the readiness of a socket that has an area, for the bits asked for.
pub(crate) fn of(entry: &Entry, link: &Link<'_>, fd: c_int, asked: c_short) -> Ready {
    send::settle(link, fd);
    let mut ready = Ready { kernel: asked & (POLLPRI | POLLRDHUP), ..Ready::default() };
    read(entry, link, fd, asked & READS, &mut ready);
    write(link, asked & WRITES, &mut ready);
    if zerocopy::has_report(entry.description()) {
        ready.now |= POLLERR;
    }
    ready
}

fn read(entry: &Entry, link: &Link<'_>, fd: c_int, asked: c_short, ready: &mut Ready) {
    if entry.description().is_lent() {
        ready.rings_in = true;
        return;
    }
    if carries_in(entry, link) {
        match link.inward.look() {
            Look::Bytes(_) | Look::Broken => ready.now |= asked,
            Look::Empty => ready.rings_in = true,
            Look::Ended => {
                wait::drain(link, fd);
                ready.kernel |= asked;
            }
        }
        return;
    }
    if link.inward.phase() == Phase::Over {
        wait::drain(link, fd);
    }
    ready.kernel |= asked;
}

fn write(link: &Link<'_>, asked: c_short, ready: &mut Ready) {
    if !link.out.is_ring() {
        ready.kernel |= asked;
    } else if link.out.is_writable() {
        ready.now |= asked;
    } else {
        ready.rings_out = true;
    }
}

/// Returns true if the next byte to receive comes by the ring.
pub(crate) fn carries_in(entry: &Entry, link: &Link<'_>) -> bool {
    match link.inward.phase() {
        Phase::Ring => true,
        Phase::Agreed => {
            let begin = link.inward.begin();
            begin != UNSET && begin == entry.description().received.load(Ordering::Acquire)
        }
        Phase::Kernel | Phase::Over => false,
    }
}

/// Asks to be woken for what the rings carry.
pub(crate) fn arm(entry: &Entry, link: &Link<'_>, ready: &Ready, asked: c_short) {
    if ready.rings_in && asked & READS != 0 {
        link.inward.request_data();
    }
    if ready.rings_out && asked & WRITES != 0 {
        if link.inward.phase() == Phase::Kernel {
            // The other end wakes by a byte in its own direction, which must have begun: it may have nothing to send.
            recv::agree(entry, link);
        }
        link.out.request_room();
    }
}

/// Returns the error bit if the kernel reports a hang-up that is a reset: see [`is_reset`].
pub(crate) fn reset(entry: &Entry, link: &Link<'_>, reported: c_short) -> c_short {
    if reported & POLLHUP != 0 && is_reset(entry, link) { POLLERR } else { 0 }
}

/// Returns true if the other end closed and left bytes unread, and this end was not told. The kernel resets a connection then,
/// but knows only of bytes that it carried.
pub(crate) fn is_reset(entry: &Entry, link: &Link<'_>) -> bool {
    let left_unread = link.out.is_unread();
    let is_gone = link.out.signals().gone.load(Ordering::Acquire) != 0;
    let is_sign = match is_gone {
        // A TCP socket that is closed so is reset through the kernel: see `close`.
        true => entry.is_unix.load(Ordering::Relaxed) != 0,
        // It was killed, unless one of them shut the connection down.
        false => link.inward.signals().revert.load(Ordering::Acquire) == 0 && !link.inward.has_ended(),
    };
    left_unread && is_sign && entry.description().reset.load(Ordering::Acquire) == 0
}

/// Returns true if a reset that the kernel reports can only come from wake bytes which the other end left unread when its process
/// ended: without them the kernel would have reported the end. All bytes that this end sent went into the ring.
pub(crate) fn is_reset_by_wakes(link: &Link<'_>) -> bool {
    let peer = &link.head.ends[1 - link.end];
    let has_read_all = matches!(link.out.phase(), Phase::Ring | Phase::Over) && !link.out.is_unread();
    let is_meant = peer.closed.load(Ordering::Acquire) | peer.resets.load(Ordering::Acquire) != 0;
    !is_meant && has_read_all
}

/// Translates what the kernel reported of a socket whose kernel connection wakes. `reported` has the kernel's bits.
pub(crate) fn after_wake(
    entry: &Entry,
    link: &Link<'_>,
    fd: c_int,
    asked: c_short,
    reported: c_short,
) -> c_short {
    let mut now = reported & (POLLERR | POLLHUP) | reset(entry, link, reported);
    if now != 0 {
        // As the kernel reports a connection that is over: reading and writing return at once.
        return now | asked & (READS | WRITES) | reported & asked & POLLRDHUP;
    }
    now |= reported & asked & POLLRDHUP;
    if carries_in(entry, link)
        && link.inward.look() == Look::Empty
        && reported & (POLLIN | POLLRDHUP) != 0
        && let Some(Woken::End) = wait::look_at_kernel(link, fd)
    {
        // The end is read like bytes; what is written then is answered by the kernel.
        return now | asked & (READS | WRITES);
    }
    let ready = of(entry, link, fd, asked);
    now | ready.now | reported & ready.kernel
}
