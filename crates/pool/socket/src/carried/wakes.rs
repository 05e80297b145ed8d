//! Waking the other end, through its wakeup or by a byte through the kernel, and receiving the bytes that woke this end.

use super::CarriedEnd;
use crate::area::RingReading;
use crate::{kernel, wakeup};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum receiving calls in one attempt to receive wake bytes.
const MOST_DRAINS: u32 = 64;

/// Reason why a wait ended.
pub(crate) enum Woken {
    /// The state of the rings or of the connection may have changed, so check it again.
    Look,
    /// The kernel's connection has ended in the direction to this end.
    End,
    /// The kernel reports an error, and forgets it after this report.
    Error(c_int),
    /// The kernel has bytes that the other end did not count as wake bytes.
    Foreign,
}

impl CarriedEnd<'_> {
    /// Signals the wakeup of the other end. Returns false if the other end has to be woken by a byte.
    pub(super) fn signal(&self) -> bool {
        wakeup::signal_stated(self.other_end(), &self.entry.signalled)
    }

    /// Signals the wakeup of this end, because other processes that have this end may sleep on it.
    pub(crate) fn signal_own(&self) {
        let signalled = AtomicU64::new(0);
        wakeup::signal_stated(self.this_end(), &signalled);
        wakeup::give_up(&signalled);
    }

    /// Wakes the threads that sleep at the other end: through its wakeup, or by a byte through the kernel. The byte is sent only while the
    /// ring carries this direction, because before and afterwards it would be data. The caller holds the send lock.
    pub(crate) fn wake(&self) {
        if self.signal() || !self.out.is_ring() || !self.out.count_wake() {
            return;
        }
        let writer = self.out.writer();
        if self.out.signals().gone.load(Ordering::SeqCst) != 0 {
            // A byte that reaches an end which is just being closed would reset the connection. Pairs with the store of `gone` in
            // `announce_close`.
            writer.wakes.fetch_sub(1, Ordering::SeqCst);
            return;
        }
        if self.send_now([0_u8].as_ptr(), 1) != 1 {
            writer.owed.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Wakes a sender of the other end that sleeps until there is room.
    pub(crate) fn wake_sender(&self) {
        let room = &self.inward.signals().room;
        room.fetch_add(1, Ordering::AcqRel);
        kernel::futex_wake(room, c_int::MAX);
    }

    /// Returns whether a thread of the other end has requested a wakeup, and clears the request.
    pub(super) fn is_awaited(&self) -> bool {
        let (data, room) = (&self.out.signals().want_data, &self.inward.signals().want_room);
        data.swap(0, Ordering::SeqCst) | room.swap(0, Ordering::SeqCst) != 0
    }

    /// Wakes the other end so that it notices that this end wants the bytes of the ring back. The caller makes sure that this is possible:
    /// this end's direction can still carry a wake byte, or the other end has a wakeup.
    pub(crate) fn wake_for_return(&self) {
        let _held = self.lock_send();
        if self.is_awaited() {
            self.wake();
        }
        self.wake_sender();
    }

    /// Sends wake bytes that were counted but not sent. Returns whether none are left. The caller holds the send lock.
    pub(super) fn pay_wakes(&self) -> bool {
        let owed = &self.out.writer().owed;
        while owed.load(Ordering::Acquire) > 0 {
            if self.send_now([0_u8].as_ptr(), 1) != 1 {
                return false;
            }
            owed.fetch_sub(1, Ordering::AcqRel);
        }
        true
    }

    /// Sends bytes through the kernel without waiting.
    pub(super) fn send_now(&self, from: *const u8, bytes: usize) -> isize {
        // SAFETY: the callers pass bytes in a static array or in a ring.
        unsafe { kernel::send(self.fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) }
    }

    /// Receives wake bytes and discards them. Returns whether there were any.
    pub(crate) fn drain(&self) -> bool {
        if self.inward.wakes() == 0 {
            return false;
        }
        let mut any = false;
        // Without the lock, two threads that expect the same wake bytes would also receive data.
        let held = self.lock_recv();
        // The limit keeps a peer that sends continuously from holding up this thread.
        for _ in 0..MOST_DRAINS {
            let wakes = self.inward.wakes();
            if wakes == 0 {
                break;
            }
            let mut bytes = [0_u8; 64];
            let most = wakes.min(bytes.len());
            // SAFETY: a local buffer.
            let got = unsafe { kernel::recv(self.fd, bytes.as_mut_ptr(), most, MSG_DONTWAIT) };
            if got <= 0 {
                break;
            }
            self.inward.reader().skipped.fetch_add(got as u64, Ordering::AcqRel);
            any = true;
        }
        drop(held);
        if any && wakeup::may_wake_several(self.this_end()) {
            // The bytes were meant for all sleeping threads, and the kernel checks the connection again before a sleeping thread returns. A
            // thread that finds the bytes gone sleeps again, so request another wakeup for it.
            self.inward.request_data();
        }
        any
    }

    /// Checks the kernel's connection without waiting. Returns `None` if it has nothing to report.
    pub(crate) fn look_at_kernel(&self) -> Option<Woken> {
        self.drain();
        let mut byte = 0_u8;
        // SAFETY: a local variable of one byte.
        let got = unsafe { kernel::recv(self.fd, &raw mut byte, 1, MSG_PEEK | MSG_DONTWAIT) };
        match got {
            0 => Some(Woken::End),
            1.. if self.inward.wakes() > 0 || self.inward.look() != RingReading::Empty => Some(Woken::Look),
            1.. => Some(Woken::Foreign),
            _ if kernel::errno() == libc::EAGAIN => None,
            _ => Some(Woken::Error(kernel::errno())),
        }
    }
}
