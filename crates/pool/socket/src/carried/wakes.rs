//! Waking the other end, by its wakeup or by a byte through the kernel, and taking in the bytes that woke this one.

use super::CarriedEnd;
use crate::area::Look;
use crate::{kernel, wakeup};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_PEEK, c_int};
use std::sync::atomic::{AtomicU64, Ordering};

/// Most calls that take wake bytes in, at a time.
const MOST_DRAINS: u32 = 64;

/// End of a wait.
pub(crate) enum Woken {
    /// Something changed: look again.
    Look,
    /// The kernel's connection has ended in the direction of this end.
    End,
    /// The kernel reports an error, which it then forgets.
    Error(c_int),
    /// Bytes are in the kernel that were not announced.
    Foreign,
}

impl CarriedEnd<'_> {
    /// Signals the wakeup of the other end. Returns false if it has to be woken by a byte.
    pub(super) fn signal(&self) -> bool {
        wakeup::signal_stated(self.other_end(), &self.entry.signalled)
    }

    /// Signals the wakeup of this end, by which other processes that have it may be woken.
    pub(crate) fn signal_own(&self) {
        let signalled = AtomicU64::new(0);
        wakeup::signal_stated(self.this_end(), &signalled);
        wakeup::give_up(&signalled);
    }

    /// Wakes the threads that sleep at the other end: by its wakeup, or by a byte through the kernel. The lock of the sending end
    /// is held. No byte can be sent before the ring has begun or after it has ended, because it would be data.
    pub(crate) fn wake(&self) {
        if self.signal() || !self.out.is_ring() || !self.out.count_wake() {
            return;
        }
        let writer = self.out.writer();
        if self.out.signals().gone.load(Ordering::SeqCst) != 0 {
            // A byte that reaches an end which is just being closed would reset the connection. Pairs with the end's store of
            // `gone` when it is closed.
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

    /// Returns true if a thread of the other end asked to be woken, and takes that request.
    pub(super) fn is_awaited(&self) -> bool {
        let (data, room) = (&self.out.signals().want_data, &self.inward.signals().want_room);
        data.swap(0, Ordering::SeqCst) | room.swap(0, Ordering::SeqCst) != 0
    }

    /// Wakes the other end so that it sees that its bytes are wanted back. The direction of this end still carries, or its wakeup
    /// can be signalled.
    pub(crate) fn wake_for_return(&self) {
        let _held = self.lock_send();
        if self.is_awaited() {
            self.wake();
        }
        self.wake_sender();
    }

    /// Sends wake bytes that were counted and not sent. Returns true if none are left. The lock of the sending end is held.
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

    /// Sends bytes of our own, or of a ring, through the kernel without waiting.
    pub(super) fn send_now(&self, from: *const u8, bytes: usize) -> isize {
        // SAFETY: bytes of our own, or of a ring.
        unsafe { kernel::send(self.fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) }
    }

    /// Takes wake bytes in. Returns whether there were any.
    pub(crate) fn drain(&self) -> bool {
        if self.inward.wakes() == 0 {
            return false;
        }
        let mut any = false;
        // Two threads that take in the same bytes would take data as well.
        let held = self.lock_recv();
        // A peer that sends on and on does not keep this thread.
        for _ in 0..MOST_DRAINS {
            let wakes = self.inward.wakes();
            if wakes == 0 {
                break;
            }
            let mut bytes = [0_u8; 64];
            let most = wakes.min(bytes.len());
            // SAFETY: a buffer of our own.
            let got = unsafe { kernel::recv(self.fd, bytes.as_mut_ptr(), most, MSG_DONTWAIT) };
            if got <= 0 {
                break;
            }
            self.inward.reader().skipped.fetch_add(got as u64, Ordering::AcqRel);
            any = true;
        }
        drop(held);
        if any && wakeup::may_wake_several(self.this_end()) {
            // The bytes were meant for all threads that sleep, and the kernel looks again before it lets a sleeper return: one
            // that found them gone sleeps on, so it has to be woken once more.
            self.inward.request_data();
        }
        any
    }

    /// Looks at the kernel's connection without waiting.
    pub(crate) fn look_at_kernel(&self) -> Option<Woken> {
        self.drain();
        let mut byte = 0_u8;
        // SAFETY: one byte of our own.
        let got = unsafe { kernel::recv(self.fd, &raw mut byte, 1, MSG_PEEK | MSG_DONTWAIT) };
        match got {
            0 => Some(Woken::End),
            1.. if self.inward.wakes() > 0 || self.inward.look() != Look::Empty => Some(Woken::Look),
            1.. => Some(Woken::Foreign),
            _ if kernel::errno() == libc::EAGAIN => None,
            _ => Some(Woken::Error(kernel::errno())),
        }
    }
}
