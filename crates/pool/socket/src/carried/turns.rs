//! Turns of a direction: it passes from the kernel to the ring once both ends agree, and back when one of them asks for it.

use super::CarriedEnd;
use crate::area::{Look, Phase, UNSET, revert};
use crate::deadline::Deadline;
use crate::kernel;
use crate::table::Socket;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest wait for room in the kernel before it is tried again.
const NAP: Duration = Duration::from_millis(100);
/// Most wake bytes that can be owed: the kernel's buffer was full that often. More can only be what the other end wrote.
const MOST_OWED: u64 = 1 << 16;

impl Socket {
    /// Leaves the socket to the kernel for good.
    pub(crate) fn leave(&self) {
        self.stay();
        if let Some(carried) = self.carried() {
            carried.leave();
        }
    }
}

impl CarriedEnd<'_> {
    /// Gives this end's consent to the ring, if the other end has joined and no other thread is receiving. Returns whether it
    /// is given.
    pub(crate) fn agree(&self) -> bool {
        let description = self.entry.description();
        let is_joined = self.other_end().joined.load(Ordering::Acquire) != 0;
        if !is_joined || description.never.load(Ordering::Acquire) != 0 {
            return false;
        }
        if self.inward.has_ended() && !self.inward.has_begun() {
            return false;
        }
        let inside = description.receiving.enter();
        inside.alone(|| {
            if self.inward.phase() == Phase::Kernel {
                // A thread that does not know of the ring may be asleep in the kernel: the first bytes in the ring wake it.
                self.inward.signals().want_data.store(1, Ordering::SeqCst);
                self.inward.set_phase(Phase::Agreed);
                self.inward.signals().consent.store(1, Ordering::SeqCst);
            }
        });
        drop(inside);
        self.inward.phase() != Phase::Kernel
    }

    /// Lets the ring carry from the next byte on, if the other end agreed and no other thread is sending. Returns whether it
    /// does.
    pub(crate) fn begin(&self) -> bool {
        if self.out.signals().consent.load(Ordering::Acquire) == 0 || self.out.is_unwanted() {
            return false;
        }
        let description = self.entry.description();
        if description.never.load(Ordering::Acquire) != 0 {
            return false;
        }
        let held = self.lock_send();
        self.be_prompt();
        let inside = description.sending.enter();
        let writer = self.out.writer();
        if writer.begin.load(Ordering::Acquire) == UNSET && writer.end.load(Ordering::Acquire) == UNSET {
            inside.alone(|| {
                let sent = description.sent.load(Ordering::Acquire);
                // The other end may freeze the direction at any moment.
                let _ = writer.begin.compare_exchange(UNSET, sent, Ordering::AcqRel, Ordering::Relaxed);
            });
        }
        drop(inside);
        drop(held);
        self.out.is_ring()
    }

    /// Turns Nagle's algorithm off, because a wake byte must not wait for an acknowledgement.
    fn be_prompt(&self) {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        if self.entry.prompt.swap(1, Ordering::Relaxed) == 0 && !self.entry.is_unix() {
            let set = kernel::option(self.fd, level, name).unwrap_or(0);
            self.entry.nodelay.store(set as u32, Ordering::Relaxed);
            kernel::set_option(self.fd, level, name, 1);
        }
    }

    /// Hands this end's direction back to the kernel, after all that is in the ring. The lock of the sending end is held.
    pub(crate) fn end_out(&self) {
        if self.out.has_ended() {
            return;
        }
        // A thread that sleeps at the other end must see it, because no wake byte can be sent afterwards. At an end that is
        // closed no thread sleeps, and the kernel would answer the byte with a reset.
        self.wake_sender();
        if self.out.signals().gone.load(Ordering::Acquire) == 0 && self.is_awaited() {
            self.wake();
        }
        self.out.finish();
    }

    /// Hands both directions back to the kernel for good: this end's now, the other's at its next call.
    pub(crate) fn leave(&self) {
        self.entry.description().never.store(1, Ordering::Release);
        let state = &self.inward.signals().revert;
        let _ = state.compare_exchange(0, revert::WISHED, Ordering::SeqCst, Ordering::Relaxed);
        let _held = self.lock_send();
        self.end_out();
    }

    /// Ends both directions in the ring: the connection is over.
    pub(crate) fn end_both(&self) {
        self.out.finish();
        self.inward.set_phase(Phase::Over);
    }

    /// Hands this end's direction back to the kernel, if the other end asked for it.
    #[inline]
    pub(crate) fn settle(&self) {
        if !self.out.is_unwanted() || !self.out.has_begun() {
            return;
        }
        let is_asked_back = self.out.signals().revert.load(Ordering::Acquire) == revert::RETURN;
        if !self.out.has_ended() || is_asked_back {
            let _held = self.lock_send();
            self.end_out();
            self.give_back();
        }
    }

    /// Sends the bytes of the frozen ring through the kernel, if the other end asks for it: as many as there is room for, once.
    /// The other end keeps them until it knows how many came. The lock of the sending end is held.
    fn give_back(&self) {
        let state = &self.out.signals().revert;
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        if state.compare_exchange(revert::RETURN, revert::RETURNING, order.0, order.1).is_err() {
            return;
        }
        let mut done = 0;
        if let (true, Look::Bytes(bytes)) = (self.pay_wakes(), self.out.look()) {
            let first = self.out.first();
            while done < bytes {
                let sent = self.send_now(first.wrapping_add(done), bytes - done);
                if sent <= 0 {
                    break;
                }
                done += sent as usize;
            }
        }
        self.out.writer().returned.store(done as u64, Ordering::Release);
        state.store(revert::RETURNED, Ordering::Release);
    }

    /// Sends what has to go through the kernel before any further byte: wake bytes that were counted, and bytes asked back.
    pub(crate) fn pay(&self, is_nonblocking: bool) -> Result<(), libc::c_int> {
        let owed = &self.out.writer().owed;
        let mut deadline = Deadline::of_send(self.fd);
        loop {
            let held = self.lock_send();
            if owed.load(Ordering::Acquire) > MOST_OWED {
                owed.store(0, Ordering::Release);
                return Err(libc::ECONNRESET);
            }
            self.give_back();
            if self.pay_wakes() {
                return Ok(());
            }
            drop(held);
            if is_nonblocking {
                return Err(libc::EAGAIN);
            }
            let left = deadline.left().unwrap_or(NAP);
            if left.is_zero() {
                return Err(libc::EAGAIN);
            }
            let (ready, events) = kernel::poll_one(self.fd, libc::POLLOUT, Some(left.min(NAP)));
            if ready < 0 || events & (libc::POLLERR | libc::POLLHUP) != 0 {
                // The caller's own call reports it.
                return Ok(());
            }
        }
    }

    /// Wakes a sender of the other end that sleeps, if it has room now.
    pub(crate) fn give_room(&self) {
        if !self.inward.takes_room() {
            return;
        }
        self.wake_sender();
        if self.signal() {
            return;
        }
        if !self.out.has_begun() {
            self.begin();
        }
        let _held = self.lock_send();
        self.wake();
    }
}
