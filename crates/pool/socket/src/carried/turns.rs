//! Change-over of a direction: from the kernel to the ring once both ends agree, and back when one of them asks for it.

use super::CarriedEnd;
use crate::area::{RingReading, ByteSource, UNSET, revert};
use crate::deadline::Deadline;
use crate::kernel;
use crate::table::Socket;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Longest wait for room in the kernel before another attempt.
const NAP: Duration = Duration::from_millis(100);
/// Maximum wake bytes that can be owed, that is, counted but not sent because the kernel's buffer was full. Only a hostile peer can cause a
/// larger number.
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
    /// Gives this end's consent to the ring, if the other end has joined and no other thread is receiving. Returns whether consent is
    /// given.
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
            if self.inward.phase() == ByteSource::Kernel {
                // A thread that does not know of the ring may be asleep in the kernel, so the first bytes in the ring must wake it.
                self.inward.signals().want_data.store(1, Ordering::SeqCst);
                self.inward.set_phase(ByteSource::Agreed);
                self.inward.signals().consent.store(1, Ordering::SeqCst);
            }
        });
        drop(inside);
        self.inward.phase() != ByteSource::Kernel
    }

    /// Makes the ring carry this direction from the next byte on, if the other end has agreed and no other thread is sending. Returns
    /// whether the ring carries it.
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

    /// Turns off Nagle's algorithm, because a wake byte must not wait for an acknowledgement.
    fn be_prompt(&self) {
        let (level, name) = (libc::IPPROTO_TCP, libc::TCP_NODELAY);
        if self.entry.prompt.swap(1, Ordering::Relaxed) == 0 && !self.entry.is_unix() {
            let set = kernel::option(self.fd, level, name).unwrap_or(0);
            self.entry.nodelay.store(set as u32, Ordering::Relaxed);
            kernel::set_option(self.fd, level, name, 1);
        }
    }

    /// Returns this end's direction to the kernel, after the bytes that are in the ring. The caller holds the send lock.
    pub(crate) fn end_out(&self) {
        if self.out.has_ended() {
            return;
        }
        // Wake a thread that sleeps at the other end now, because no wake byte can be sent after the ring has ended. A closed end has no
        // sleeping threads, and the kernel would answer a wake byte with a reset.
        self.wake_sender();
        if self.out.signals().gone.load(Ordering::Acquire) == 0 && self.is_awaited() {
            self.wake();
        }
        self.out.finish();
    }

    /// Returns both directions to the kernel for good: this end's direction now, the other end's direction at its next call.
    pub(crate) fn leave(&self) {
        self.entry.description().never.store(1, Ordering::Release);
        let state = &self.inward.signals().revert;
        let _ = state.compare_exchange(0, revert::WISHED, Ordering::SeqCst, Ordering::Relaxed);
        let _held = self.lock_send();
        self.end_out();
    }

    /// Ends both directions in the ring, because the connection is over.
    pub(crate) fn end_both(&self) {
        self.out.finish();
        self.inward.set_phase(ByteSource::Over);
    }

    /// Returns this end's direction to the kernel, if the other end asked for it.
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

    /// Sends the bytes of the frozen ring through the kernel if the other end asked for them: once, and as many as the kernel has room for.
    /// The other end keeps the bytes until it knows how many arrived. The caller holds the send lock.
    fn give_back(&self) {
        let state = &self.out.signals().revert;
        let order = (Ordering::AcqRel, Ordering::Relaxed);
        if state.compare_exchange(revert::RETURN, revert::RETURNING, order.0, order.1).is_err() {
            return;
        }
        let mut done = 0;
        if let (true, RingReading::Bytes(bytes)) = (self.pay_wakes(), self.out.look()) {
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

    /// Sends all that must pass through the kernel before any further byte: wake bytes that were counted, and bytes that were asked back.
    /// Returns the error with which the caller's call must fail, for example `EAGAIN` if the kernel has no room in time.
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
                // The caller's own call reports the error.
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
