//! One end of a carried connection, as calls use it: a descriptor, its entry in the table, and the area behind it.
//!
//! The modules for sending, receiving and waiting use this module, and it uses none of them.
//!
//! | module | idea |
//! |---|---|
//! | here | what the end knows of the connection |
//! | [`wakes`] | waking the other end, and finding out why this end was woken |
//! | [`turns`] | change-over of a direction from the kernel to the ring, and back |

mod turns;
mod wakes;

pub(crate) use wakes::Woken;

use crate::area::{RingDirection, EndpointWords, Head, RingReading, ByteSource, RING_BYTES, UNIX_BYTES, UNSET};
use crate::kernel;
use crate::lock::SharedLockGuard;
use crate::table::{Entry, Socket};
use libc::c_int;
use std::sync::atomic::Ordering;

/// One end of a carried connection.
#[derive(Clone, Copy)]
pub(crate) struct CarriedEnd<'a> {
    pub(crate) fd: c_int,
    pub(crate) entry: &'a Entry,
    head: &'a Head,
    /// Number of this end (0 or 1).
    number: usize,
    /// The direction in which this end sends.
    pub(crate) out: RingDirection<'a>,
    /// The direction in which this end receives.
    pub(crate) inward: RingDirection<'a>,
}

impl Socket {
    /// Returns this end of the connection, if this process has mapped its area.
    #[inline]
    pub(crate) fn carried(&self) -> Option<CarriedEnd<'_>> {
        let (map, number) = self.area()?;
        // SAFETY: the area stays mapped until no call uses the entry any more; the header is made of atomic words.
        let head = unsafe { &*map.base().cast::<Head>() };
        let limit = if self.is_unix() { UNIX_BYTES } else { RING_BYTES };
        // SAFETY: each ring follows the header and is mapped twice, for the same time.
        let direction =
            |i: usize| unsafe { RingDirection::new(&head.directions[i], &head.journals[i], map.ring(i), limit) };
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
    /// Takes the send lock, which serializes the sending calls of this end.
    pub(crate) fn lock_send(&self) -> SharedLockGuard<'static> {
        self.entry.description().send.take()
    }

    /// Takes the receive lock, which serializes the receiving calls of this end.
    pub(crate) fn lock_recv(&self) -> SharedLockGuard<'static> {
        self.entry.description().recv.take()
    }

    /// Returns the words of this end.
    pub(crate) fn this_end(&self) -> &EndpointWords {
        &self.head.ends[self.number]
    }

    /// Returns the words of the other end.
    fn other_end(&self) -> &EndpointWords {
        &self.head.ends[1 - self.number]
    }

    /// Returns how many bytes can be received without waiting, from the kernel and from the ring together.
    pub(crate) fn readable(&self) -> usize {
        // Without the lock, another thread could receive a wake byte between the two counts, so that it would be counted as data.
        let _held = self.lock_recv();
        let in_ring = match self.inward.look() {
            RingReading::Bytes(bytes) => bytes,
            RingReading::Empty | RingReading::Ended | RingReading::Broken => 0,
        };
        in_ring + kernel::readable(self.fd).saturating_sub(self.inward.wakes())
    }

    /// Returns whether the next byte to receive comes through the ring.
    pub(crate) fn receives_by_ring(&self) -> bool {
        match self.inward.phase() {
            ByteSource::Ring => true,
            ByteSource::Agreed => {
                let begin = self.inward.begin();
                begin != UNSET && begin == self.entry.description().received.load(Ordering::Acquire)
            }
            ByteSource::Kernel | ByteSource::Over => false,
        }
    }

    /// Returns whether the peer is gone: the kernel's connection has ended, and the peer did not announce that it only shuts down its own
    /// direction.
    pub(crate) fn is_dead(&self) -> bool {
        let events = kernel::events(self.fd, libc::POLLRDHUP);
        let both = events & (libc::POLLHUP | libc::POLLERR) != 0;
        both || events & libc::POLLRDHUP != 0 && !self.inward.has_ended()
    }

    /// Returns whether the other end closed and left bytes unread, and the program has not received this error yet. The kernel resets a
    /// connection in this case, but only if it carried the bytes itself.
    pub(crate) fn is_reset(&self) -> bool {
        let left_unread = self.out.is_unread();
        let is_gone = self.out.signals().gone.load(Ordering::Acquire) != 0;
        let is_sign = match is_gone {
            // For a TCP socket that was closed this way, the kernel has been made to reset the connection: see `close`.
            true => self.entry.is_unix(),
            // The other end was killed, unless one of the ends shut the connection down.
            false => self.inward.signals().revert.load(Ordering::Acquire) == 0 && !self.inward.has_ended(),
        };
        left_unread && is_sign && self.entry.description().reset.load(Ordering::Acquire) == 0
    }

    /// Returns whether a reset that the kernel reports can only come from wake bytes, which the other end left unread when its process
    /// ended. Without them, the kernel would have reported an end of stream. This requires that all bytes which this end sent went into the
    /// ring and were received.
    pub(crate) fn is_reset_by_wakes(&self) -> bool {
        let peer = self.other_end();
        let has_read_all =
            matches!(self.out.phase(), ByteSource::Ring | ByteSource::Over) && !self.out.is_unread();
        let is_meant = peer.closed.load(Ordering::Acquire) | peer.resets.load(Ordering::Acquire) != 0;
        !is_meant && has_read_all
    }
}
