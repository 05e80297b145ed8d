//! One end of a carried connection, as a call uses it: a descriptor, its entry in the table, and the area behind it.
//!
//! Calls that send, receive or wait use it; this module and its children use no call.
//!
//! | module | idea |
//! |---|---|
//! | here | what the end knows of the connection |
//! | [`wakes`] | waking the other end, and what this end was woken for |
//! | [`turns`] | turns of a direction: from the kernel to the ring, and back |

mod turns;
mod wakes;

pub(crate) use wakes::Woken;

use crate::area::{Direction, End, Head, Look, Phase, RING_BYTES, UNIX_BYTES, UNSET};
use crate::kernel;
use crate::lock::Held;
use crate::table::{Entry, Socket};
use libc::c_int;
use std::sync::atomic::Ordering;

/// One end of a carried connection.
#[derive(Clone, Copy)]
pub(crate) struct CarriedEnd<'a> {
    pub(crate) fd: c_int,
    pub(crate) entry: &'a Entry,
    head: &'a Head,
    /// Number of this end.
    number: usize,
    /// The direction that this end sends in.
    pub(crate) out: Direction<'a>,
    /// The direction that this end receives in.
    pub(crate) inward: Direction<'a>,
}

impl Socket {
    /// Returns this end of the connection, if this process has mapped its area.
    #[inline]
    pub(crate) fn carried(&self) -> Option<CarriedEnd<'_>> {
        let (map, number) = self.area()?;
        // SAFETY: mapped until no call uses the entry any more; made of atomic words.
        let head = unsafe { &*map.base().cast::<Head>() };
        let limit = if self.is_unix() { UNIX_BYTES } else { RING_BYTES };
        // SAFETY: each ring is behind its header, mapped twice, for as long.
        let direction =
            |i: usize| unsafe { Direction::new(&head.directions[i], &head.journals[i], map.ring(i), limit) };
        Some(CarriedEnd {
            fd: self.fd,
            entry: self,
            head,
            number,
            out: direction(number),
            inward: direction(1 - number),
        })
    }
}

impl CarriedEnd<'_> {
    /// Takes the lock of this end's sending calls.
    pub(crate) fn lock_send(&self) -> Held<'static> {
        self.entry.description().send.take()
    }

    /// Takes the lock of this end's receiving calls.
    pub(crate) fn lock_recv(&self) -> Held<'static> {
        self.entry.description().recv.take()
    }

    /// Returns the words of this end.
    pub(crate) fn this_end(&self) -> &End {
        &self.head.ends[self.number]
    }

    /// Returns the words of the other end.
    fn other_end(&self) -> &End {
        &self.head.ends[1 - self.number]
    }

    /// Returns the bytes that can be received without waiting, from the kernel and from the ring.
    pub(crate) fn readable(&self) -> usize {
        // A thread that takes a wake byte in between the two counts of it would leave it among the bytes.
        let _held = self.lock_recv();
        let in_ring = match self.inward.look() {
            Look::Bytes(bytes) => bytes,
            Look::Empty | Look::Ended | Look::Broken => 0,
        };
        in_ring + kernel::readable(self.fd).saturating_sub(self.inward.wakes())
    }

    /// Returns true if the next byte to receive comes by the ring.
    pub(crate) fn receives_by_ring(&self) -> bool {
        match self.inward.phase() {
            Phase::Ring => true,
            Phase::Agreed => {
                let begin = self.inward.begin();
                begin != UNSET && begin == self.entry.description().received.load(Ordering::Acquire)
            }
            Phase::Kernel | Phase::Over => false,
        }
    }

    /// Returns true if the peer is gone: the kernel's connection has ended, and the peer did not announce that it only ends its
    /// own direction.
    pub(crate) fn is_dead(&self) -> bool {
        let events = kernel::events(self.fd, libc::POLLRDHUP);
        let both = events & (libc::POLLHUP | libc::POLLERR) != 0;
        both || events & libc::POLLRDHUP != 0 && !self.inward.has_ended()
    }

    /// Returns true if the other end closed and left bytes unread, and the program was not told. The kernel resets a connection
    /// then, but knows only of bytes that it carried.
    pub(crate) fn is_reset(&self) -> bool {
        let left_unread = self.out.is_unread();
        let is_gone = self.out.signals().gone.load(Ordering::Acquire) != 0;
        let is_sign = match is_gone {
            // A TCP socket that is closed so is reset through the kernel: see `close`.
            true => self.entry.is_unix(),
            // It was killed, unless one of them shut the connection down.
            false => self.inward.signals().revert.load(Ordering::Acquire) == 0 && !self.inward.has_ended(),
        };
        left_unread && is_sign && self.entry.description().reset.load(Ordering::Acquire) == 0
    }

    /// Returns true if a reset that the kernel reports can only come from wake bytes which the other end left unread when its
    /// process ended: without them the kernel would have reported the end. All bytes that this end sent went into the ring.
    pub(crate) fn is_reset_by_wakes(&self) -> bool {
        let peer = self.other_end();
        let has_read_all =
            matches!(self.out.phase(), Phase::Ring | Phase::Over) && !self.out.is_unread();
        let is_meant = peer.closed.load(Ordering::Acquire) | peer.resets.load(Ordering::Acquire) != 0;
        !is_meant && has_read_all
    }
}
