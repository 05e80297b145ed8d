//! Receiving: from the kernel up to the byte at which the ring begins, from the ring, and from the kernel again.

use crate::area::{Look, Phase, UNSET};
use crate::kernel::{self, fail};
use crate::pieces::Pieces;
use crate::table::{self, Entry, Link};
use crate::wait::{self, Woken};
use crate::{ask, ready, send};
use libc::{MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, c_int, iovec};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest sleep before a call looks whether the relay that it waits for still lives.
const RELAY_NAP: Duration = Duration::from_millis(20);

/// Answer of a step: the call's result, or that the next step follows.
enum Step {
    Done(isize),
    Again,
}

/// Function that takes bytes where they lie in a ring: it gets their address and number, and returns how many it took; or
/// -1, and `errno`.
pub type Taker<'a> = &'a mut dyn FnMut(*const u8, usize) -> isize;

/// Receives into buffers. `native` is the caller's own call to the kernel, for at most so many bytes and with further flags;
/// used for all bytes that are not in the ring.
pub fn recv(fd: c_int, to: Pieces<'_>, flags: c_int, native: impl Fn(usize, c_int) -> isize) -> isize {
    let Some(entry) = table::get(fd) else { return native(usize::MAX, 0) };
    if flags & (MSG_OOB | MSG_ERRQUEUE) != 0 {
        return native(usize::MAX, 0);
    }
    run(Call { entry: &entry, fd, to, taker: None, flags, done: 0, deadline: None }, native)
}

/// Has a function take bytes where they lie, at most `most`. With `MSG_PEEK` they stay there. `native` as of [`recv`].
pub fn take(
    fd: c_int,
    most: usize,
    flags: c_int,
    taker: Taker<'_>,
    native: impl Fn(usize, c_int) -> isize,
) -> isize {
    let Some(entry) = table::get(fd) else { return native(usize::MAX, 0) };
    let nowhere = [iovec { iov_base: std::ptr::null_mut(), iov_len: most }];
    let to = Pieces::new(&nowhere);
    run(Call { entry: &entry, fd, to, taker: Some(taker), flags, done: 0, deadline: None }, native)
}

/// Discards bytes that [`take`] left where they lie, and has the other end know of the room.
pub fn discard(fd: c_int, bytes: usize) {
    let Some(entry) = table::get(fd) else { return };
    let Some(link) = entry.link() else { return };
    let held = link.lock_recv();
    if let Look::Bytes(available) = link.inward.look() {
        link.inward.discard(bytes.min(available));
    }
    drop(held);
    give_room(&entry, &link, fd);
}

fn run(mut call: Call<'_>, native: impl Fn(usize, c_int) -> isize) -> isize {
    let (entry, fd) = (call.entry, call.fd);
    loop {
        let step = match entry.link() {
            Some(_) if entry.description().is_lent() => call.wait_for_relay(),
            None => call.through_kernel(&native),
            Some(link) => match link.settled(fd).inward.phase() {
                Phase::Kernel if agree(entry, &link) => Step::Again,
                Phase::Kernel => call.through_kernel(&native),
                Phase::Agreed => call.before_ring(&link, &native),
                Phase::Ring => call.by_ring(&link, &native),
                Phase::Over => Step::Done(call.after_ring(&link, &native)),
            },
        };
        if let Step::Done(mut result) = step {
            let is_end = result == 0 && call.to.left() > 0;
            if is_end && entry.link().is_some_and(|link| ready::is_reset(entry, &link)) {
                result = fail(libc::ECONNRESET);
            }
            if result < 0 && kernel::errno() == libc::ECONNRESET {
                entry.description().reset.store(1, Ordering::Release);
            }
            return result;
        }
    }
}

/// Gives this end's consent to the ring, if the other end has joined and no other thread is receiving. Returns whether it is
/// given.
pub(crate) fn agree(entry: &Entry, link: &Link<'_>) -> bool {
    let peer = &link.head.ends[1 - link.end];
    if peer.joined.load(Ordering::Acquire) == 0 || entry.description().never.load(Ordering::Acquire) != 0 {
        return false;
    }
    if link.inward.has_ended() && !link.inward.has_begun() {
        return false;
    }
    let inside = entry.description().receiving.enter();
    inside.alone(|| {
        if link.inward.phase() == Phase::Kernel {
            // Somebody may be asleep in the kernel who does not know of the ring: the first bytes in it wake.
            link.inward.signals().want_data.store(1, Ordering::SeqCst);
            link.inward.set_phase(Phase::Agreed);
            link.inward.signals().consent.store(1, Ordering::SeqCst);
        }
    });
    drop(inside);
    link.inward.phase() != Phase::Kernel
}

struct Call<'a> {
    entry: &'a Entry,
    fd: c_int,
    to: Pieces<'a>,
    /// Function that takes bytes in place of the buffers, which are nowhere then.
    taker: Option<Taker<'a>>,
    flags: c_int,
    /// Bytes received so far, of a call that waits for all.
    done: usize,
    /// Moment at which a blocking call gives up, once it is known.
    deadline: Option<Option<Instant>>,
}

impl Call<'_> {
    /// Receives from the kernel, and counts.
    fn through_kernel(&mut self, native: impl Fn(usize, c_int) -> isize) -> Step {
        let description = self.entry.description();
        let inside = description.receiving.enter();
        if self.entry.link().is_some_and(|link| link.inward.phase() != Phase::Kernel) {
            return Step::Again;
        }
        let got = native(usize::MAX, 0);
        if got > 0 && self.flags & MSG_PEEK == 0 {
            description.received.fetch_add(got as u64, Ordering::AcqRel);
        }
        drop(inside);
        if got > 0 {
            ask::count(self.entry, self.fd);
        }
        Step::Done(got)
    }

    /// Waits until another program's relay has put back what that program left unread.
    fn wait_for_relay(&mut self) -> Step {
        if self.is_nonblocking() {
            return Step::Done(self.or(libc::EAGAIN));
        }
        let deadline = *self.deadline.get_or_insert_with(|| wait::give_up(self.fd, libc::SO_RCVTIMEO));
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Step::Done(self.or(libc::EAGAIN));
        }
        let lent = &self.entry.description().lent;
        let relay = lent.load(Ordering::Acquire);
        if relay != 0 && kernel::futex_wait(lent, relay, RELAY_NAP) != 0 {
            let errno = kernel::errno();
            if errno == libc::EINTR && (self.done > 0 || kernel::is_interruptible()) {
                return Step::Done(self.or(errno));
            }
        }
        Step::Again
    }

    /// Receives bytes that were sent before the ring begins, and not one more.
    fn before_ring(&mut self, link: &Link<'_>, native: impl Fn(usize, c_int) -> isize) -> Step {
        if self.to.left() == 0 {
            return Step::Done(native(usize::MAX, 0));
        }
        let held = link.lock_recv();
        if link.inward.phase() != Phase::Agreed {
            return Step::Again;
        }
        let received = &self.entry.description().received;
        let there = kernel::readable(self.fd);
        // Loaded after the look: if wake bytes are among those that are there, it is set.
        let begin = link.inward.begin();
        if begin == UNSET && link.inward.has_ended() && !link.inward.has_begun() {
            link.inward.set_phase(Phase::Over);
            return Step::Again;
        }
        let left = begin.wrapping_sub(received.load(Ordering::Acquire));
        if begin != UNSET && left == 0 {
            link.inward.set_phase(Phase::Ring);
            return Step::Again;
        }
        let most = if begin == UNSET { there } else { there.min(left as usize) };
        if most > 0 {
            let got = native(most, MSG_DONTWAIT);
            if got > 0 && self.flags & MSG_PEEK == 0 {
                received.fetch_add(got as u64, Ordering::AcqRel);
            }
            return Step::Done(got);
        }
        drop(held);
        let waits = if self.is_nonblocking() { MSG_DONTWAIT } else { 0 };
        let mut byte = 0_u8;
        // SAFETY: one byte of our own.
        match unsafe { kernel::recv(self.fd, &raw mut byte, 1, MSG_PEEK | waits) } {
            1.. => Step::Again,
            // The end, which is as native; or an error, which the kernel has told us.
            0 => Step::Done(native(usize::MAX, 0)),
            failed => Step::Done(failed),
        }
    }

    /// Receives from the ring.
    fn by_ring(&mut self, link: &Link<'_>, native: impl Fn(usize, c_int) -> isize) -> Step {
        if self.to.left() == 0 {
            return Step::Done(self.done as isize);
        }
        let held = link.lock_recv();
        match link.inward.look() {
            Look::Bytes(available) => {
                let got = self.take(link, available);
                drop(held);
                if got < 0 {
                    return Step::Done(got);
                }
                if got == 0 && self.to.is_bad() {
                    return Step::Done(self.or(libc::EFAULT));
                }
                self.done += got as usize;
                if self.flags & MSG_PEEK == 0 {
                    give_room(self.entry, link, self.fd);
                }
                if self.to.left() > 0 && self.flags & MSG_WAITALL != 0 && self.flags & MSG_PEEK == 0 {
                    return Step::Again;
                }
                return Step::Done(self.done as isize);
            }
            Look::Ended => {
                link.inward.set_phase(Phase::Over);
                return Step::Again;
            }
            Look::Broken => {
                drop(held);
                send::leave(self.entry, link, self.fd);
                link.inward.set_phase(Phase::Over);
                return Step::Done(fail(libc::ECONNRESET));
            }
            Look::Empty => {}
        }
        drop(held);
        let woken = if self.is_nonblocking() {
            match wait::look_at_kernel(link, self.fd) {
                None => return Step::Done(self.or(libc::EAGAIN)),
                Some(woken) => woken,
            }
        } else {
            wait::for_data(self.entry, link, self.fd, &mut self.deadline, self.done > 0)
        };
        match woken {
            Woken::Look => Step::Again,
            Woken::Foreign => Step::Done(native(usize::MAX, MSG_DONTWAIT)),
            Woken::End => self.at_end(link),
            Woken::Error(errno @ (libc::EINTR | libc::EAGAIN)) => Step::Done(self.or(errno)),
            Woken::Error(errno) => {
                if let Look::Bytes(_) = link.inward.look() {
                    return Step::Again;
                }
                let is_end = errno == libc::ECONNRESET && link.out.is_ring() && ready::is_reset_by_wakes(link);
                over(link);
                // What is left to say, the kernel says: the end.
                if is_end { Step::Again } else { Step::Done(self.or(errno)) }
            }
        }
    }

    fn take(&mut self, link: &Link<'_>, available: usize) -> isize {
        let is_peek = self.flags & MSG_PEEK != 0;
        if let Some(taker) = &mut self.taker {
            let taken = taker(link.inward.first(), available.min(self.to.left()));
            if taken > 0 && !is_peek {
                link.inward.discard(taken as usize);
            }
            return taken;
        }
        if is_peek {
            return link.inward.peek(&mut self.to, available) as isize;
        }
        if self.flags & MSG_TRUNC != 0 {
            let bytes = available.min(self.to.left());
            link.inward.discard(bytes);
            self.to.advance(bytes);
            return bytes as isize;
        }
        link.inward.pop(&mut self.to, available) as isize
    }

    /// Ends the direction: the kernel's connection has ended. What the other end put into the ring before is received first.
    fn at_end(&mut self, link: &Link<'_>) -> Step {
        if link.inward.look() != Look::Empty {
            return Step::Again;
        }
        let is_reset = ready::is_reset(self.entry, link);
        over(link);
        if is_reset {
            return Step::Done(self.or(libc::ECONNRESET));
        }
        Step::Again
    }

    /// Receives from the kernel, after the wake bytes that are left.
    fn after_ring(&mut self, link: &Link<'_>, native: impl Fn(usize, c_int) -> isize) -> isize {
        while link.inward.wakes() > 0 {
            let is_late = self.deadline.flatten().is_some_and(|deadline| Instant::now() >= deadline);
            if !is_late && wait::drain(link, self.fd) {
                continue;
            }
            let mut one = [libc::pollfd { fd: self.fd, events: libc::POLLIN, revents: 0 }];
            // SAFETY: no mask.
            let ready = unsafe { kernel::poll(&mut one, self.time_left(), std::ptr::null()) };
            if is_late || ready <= 0 {
                return self.or(if ready < 0 { kernel::errno() } else { libc::EAGAIN });
            }
            if one[0].revents & libc::POLLIN == 0 || kernel::readable(self.fd) == 0 {
                break;
            }
        }
        if self.done > 0 {
            return self.done as isize;
        }
        native(usize::MAX, 0)
    }

    /// Returns the time for which the call may wait; nothing if it waits for ever.
    fn time_left(&mut self) -> Option<Duration> {
        if self.is_nonblocking() {
            return Some(Duration::ZERO);
        }
        let deadline = *self.deadline.get_or_insert_with(|| wait::give_up(self.fd, libc::SO_RCVTIMEO));
        deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()))
    }

    fn is_nonblocking(&self) -> bool {
        self.flags & MSG_DONTWAIT != 0
            || self.entry.description().nonblocking.load(Ordering::Relaxed) != 0
            || self.done > 0 && self.flags & MSG_WAITALL == 0
    }

    /// Returns what was received, or fails.
    fn or(&self, errno: c_int) -> isize {
        if self.done > 0 { self.done as isize } else { fail(errno) }
    }
}

/// Ends both directions in the ring: the connection is over.
fn over(link: &Link<'_>) {
    link.out.finish();
    link.inward.set_phase(Phase::Over);
}

/// Wakes a sender of the other end that sleeps, if it has room now.
pub(crate) fn give_room(entry: &Entry, link: &Link<'_>, fd: c_int) {
    if link.inward.takes_room() {
        send::wake_sender(link);
        if link.ring() {
            return;
        }
        if !link.out.has_begun() {
            send::begin(entry, link, fd);
        }
        let _held = link.lock_send();
        send::wake(link, fd);
    }
}
