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

/// Receives into buffers. `native` is the caller's own call to the kernel, used for all bytes that are not in the ring. It gets
/// the number of bytes of the buffers that are filled already, how many more it may receive at most, and further flags.
pub fn recv(fd: c_int, to: Pieces<'_>, flags: c_int, native: impl Native) -> isize {
    let Some(entry) = table::get(fd) else { return native(0, usize::MAX, 0) };
    // A Unix socket has no queue of errors, and receives as without the flag.
    let is_kernels = MSG_OOB | if entry.is_unix.load(Ordering::Relaxed) == 0 { MSG_ERRQUEUE } else { 0 };
    if flags & is_kernels != 0 {
        return native(0, usize::MAX, 0);
    }
    run(Call::new(&entry, fd, to, None, flags), native)
}

/// Receives as [`recv`] does, with room for descriptors beside the bytes. On a Unix socket the call then ends where the ring
/// begins, because the kernel ends a call behind bytes that had descriptors beside them.
pub fn recv_beside(fd: c_int, to: Pieces<'_>, flags: c_int, native: impl Native) -> isize {
    let Some(entry) = table::get(fd) else { return native(0, usize::MAX, 0) };
    let mut call = Call::new(&entry, fd, to, None, flags);
    call.enters_ring = entry.is_unix.load(Ordering::Relaxed) == 0;
    run(call, native)
}

/// The caller's own call to the kernel: see [`recv`].
pub trait Native: Fn(usize, usize, c_int) -> isize {}
impl<F: Fn(usize, usize, c_int) -> isize> Native for F {}

/// Has a function take bytes where they lie, at most `most`. With `MSG_PEEK` they stay there. `native` as of [`recv`].
pub fn take(
    fd: c_int,
    most: usize,
    flags: c_int,
    taker: Taker<'_>,
    native: impl Native,
) -> isize {
    let Some(entry) = table::get(fd) else { return native(0, usize::MAX, 0) };
    let nowhere = [iovec { iov_base: std::ptr::null_mut(), iov_len: most }];
    run(Call::new(&entry, fd, Pieces::new(&nowhere), Some(taker), flags), native)
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

fn run(mut call: Call<'_>, native: impl Native) -> isize {
    let (entry, fd) = (call.entry, call.fd);
    loop {
        let step = match entry.link() {
            Some(_) if entry.description().is_lent() => call.wait_for_relay(),
            None => call.through_kernel(&native),
            Some(link) if call.peeks_for_all() && link.inward.phase() != Phase::Kernel => {
                call.peek_all(&link, &native)
            }
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
    /// Bytes received so far: a call goes on where they change over, since a program takes a short result for the last one.
    done: usize,
    /// True if the call goes on in the ring after bytes of the kernel's.
    enters_ring: bool,
    /// Moment at which a blocking call gives up, once it is known.
    deadline: Option<Option<Instant>>,
}

impl<'a> Call<'a> {
    fn new(
        entry: &'a Entry,
        fd: c_int,
        to: Pieces<'a>,
        taker: Option<Taker<'a>>,
        flags: c_int,
    ) -> Call<'a> {
        let is_pointer = taker.is_some() && flags & MSG_PEEK != 0;
        Call { entry, fd, to, taker, flags, done: 0, enters_ring: !is_pointer, deadline: None }
    }

    /// Receives from the kernel, and counts.
    fn through_kernel(&mut self, native: impl Native) -> Step {
        let description = self.entry.description();
        let inside = description.receiving.enter();
        if self.entry.link().is_some_and(|link| link.inward.phase() != Phase::Kernel) {
            return Step::Again;
        }
        let got = native(0, usize::MAX, 0);
        if got > 0 && !self.is_peek() {
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

    /// Receives bytes that were sent before the ring begins, and then those of the ring.
    fn before_ring(&mut self, link: &Link<'_>, native: impl Native) -> Step {
        if self.to.left() == 0 {
            // A call for no bytes waits for some all the same, as in the kernel.
            let is_there = self.done > 0 || crate::options::readable_of(link, self.fd) > 0;
            return Step::Done(if is_there { self.done as isize } else { native(0, usize::MAX, 0) });
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
            let got = native(self.done, most, MSG_DONTWAIT);
            return self.enter_ring(link, got);
        }
        drop(held);
        let waits = !self.is_nonblocking();
        if waits && let Err(errno) = wait::for_first(link, self.fd, &mut self.deadline, self.done > 0) {
            return Step::Done(self.or(errno));
        }
        let mut byte = 0_u8;
        // SAFETY: one byte of our own.
        match unsafe { kernel::recv(self.fd, &raw mut byte, 1, MSG_PEEK | MSG_DONTWAIT) } {
            1.. => Step::Again,
            ..0 if waits && kernel::errno() == libc::EAGAIN => Step::Again,
            _ if self.done > 0 => Step::Done(self.done as isize),
            // The end, which is as native; or an error, which the kernel has told us.
            0 => Step::Done(native(0, usize::MAX, 0)),
            failed => Step::Done(failed),
        }
    }

    /// Goes on in the ring, if the bytes that the kernel gave were the last before it. The lock of the receiving end is held.
    fn enter_ring(&mut self, link: &Link<'_>, got: isize) -> Step {
        if got <= 0 {
            return Step::Done(if self.done > 0 { self.done as isize } else { got });
        }
        self.done += got as usize;
        self.to.skip(got as usize);
        let received = &self.entry.description().received;
        // After the bytes were received: the ring may have begun meanwhile.
        let begin = link.inward.begin();
        if self.is_peek() {
            let next = received.load(Ordering::Acquire).wrapping_add(got as u64);
            return Step::Done(if next == begin { self.peek_ring(link) } else { self.done as isize });
        }
        let now = received.fetch_add(got as u64, Ordering::AcqRel).wrapping_add(got as u64);
        if now == begin {
            link.inward.set_phase(Phase::Ring);
            if self.enters_ring && self.to.left() > 0 {
                return Step::Again;
            }
        }
        self.go_on_for_all()
    }

    /// Peeks at the ring's bytes, behind those of the kernel that were peeked at. Returns how many these are together.
    fn peek_ring(&mut self, link: &Link<'_>) -> isize {
        if self.enters_ring
            && let Look::Bytes(available) = link.inward.look()
        {
            self.done += link.inward.peek(&mut self.to, available);
        }
        self.done as isize
    }

    /// Ends the call with what was received, unless it waits for all.
    fn go_on_for_all(&self) -> Step {
        if self.to.left() > 0 && self.flags & MSG_WAITALL != 0 {
            return Step::Again;
        }
        Step::Done(self.done as isize)
    }

    /// Receives from the ring, and then from the kernel if that carries on.
    fn by_ring(&mut self, link: &Link<'_>, native: impl Native) -> Step {
        if self.to.left() == 0 && self.done > 0 {
            return Step::Done(self.done as isize);
        }
        let held = link.lock_recv();
        match link.inward.look() {
            Look::Bytes(available) => {
                let got = self.take(link, available);
                if got < 0 {
                    return Step::Done(self.or(kernel::errno()));
                }
                if got == 0 && self.to.is_bad() {
                    return Step::Done(self.or(libc::EFAULT));
                }
                self.done += got as usize;
                if self.is_peek() {
                    let is_all = got as usize == available && self.enters_ring && link.inward.has_ended();
                    return Step::Done(if is_all { self.more_from_kernel(link, &native) } else { self.done as isize });
                }
                drop(held);
                if link.inward.wakes() > 0 {
                    // A process that ends with bytes unread resets the connection, and those are none of the program's.
                    wait::drain(link, self.fd);
                }
                give_room(self.entry, link, self.fd);
                if self.to.left() > 0 && got > 0 && link.inward.has_ended() {
                    return Step::Again;
                }
                return self.go_on_for_all();
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
        let woken = if self.done > 0 && self.is_nonblocking() {
            return Step::Done(self.done as isize);
        } else if self.is_nonblocking() {
            match wait::look_at_kernel(link, self.fd) {
                None => return Step::Done(self.or(libc::EAGAIN)),
                Some(woken) => woken,
            }
        } else {
            wait::for_data(self.entry, link, self.fd, &mut self.deadline, self.done > 0)
        };
        match woken {
            Woken::Look => Step::Again,
            Woken::Foreign => Step::Done(native(self.done, usize::MAX, MSG_DONTWAIT)),
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
        let bytes = available.min(self.to.left());
        if let Some(taker) = &mut self.taker {
            let taken = taker(link.inward.first(), bytes);
            if taken > 0 {
                self.to.skip(taken as usize);
            }
            if taken > 0 && !self.is_peek() {
                link.inward.discard(taken as usize);
            }
            return taken;
        }
        let is_unix = self.entry.is_unix.load(Ordering::Relaxed) != 0;
        // Bytes of TCP are counted and not copied (tcp(7)); Unix sockets do not know the flag.
        if self.flags & MSG_TRUNC != 0 && !is_unix {
            self.to.skip(bytes);
            if !self.is_peek() {
                link.inward.discard(bytes);
            }
            return bytes as isize;
        }
        if self.is_peek() {
            return link.inward.peek(&mut self.to, available) as isize;
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
    fn after_ring(&mut self, link: &Link<'_>, native: impl Native) -> isize {
        if self.done > 0 {
            return self.more_from_kernel(link, &native);
        }
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
        native(0, usize::MAX, 0)
    }

    /// Adds bytes that the kernel has, behind those of the ring; waits for them if the call waits for all. An end or an error
    /// is left for the next call, as the kernel does.
    fn more_from_kernel(&mut self, link: &Link<'_>, native: impl Native) -> isize {
        while self.to.left() > 0 {
            wait::drain(link, self.fd);
            if link.inward.wakes() == 0 && kernel::readable(self.fd) > 0 {
                let got = native(self.done, usize::MAX, MSG_DONTWAIT);
                if got <= 0 {
                    break;
                }
                self.done += got as usize;
                self.to.skip(got as usize);
                if self.is_peek() || !self.enters_ring || self.flags & MSG_WAITALL == 0 {
                    break;
                }
            } else if self.is_nonblocking() || self.is_peek() || !wait::for_kernel(self.fd, &mut self.deadline) {
                break;
            }
        }
        self.done as isize
    }

    /// Returns true if the call peeks, and waits until all that it has room for is there. A Unix socket does not wait.
    fn peeks_for_all(&self) -> bool {
        let both = MSG_PEEK | MSG_WAITALL;
        self.flags & both == both
            && self.taker.is_none()
            && self.flags & MSG_DONTWAIT == 0
            && self.entry.is_unix.load(Ordering::Relaxed) == 0
            && self.entry.description().nonblocking.load(Ordering::Relaxed) == 0
    }

    /// Waits until all that there is room for can be received, or no more can come, and peeks at it.
    fn peek_all(&mut self, link: &Link<'_>, native: impl Native) -> Step {
        let wanted = self.to.left();
        let is_there = || crate::options::readable_of(link, self.fd) >= wanted || link.inward.is_full();
        let woken = wait::for_more(link, self.fd, &mut self.deadline, is_there);
        self.flags &= !MSG_WAITALL;
        match woken {
            Err(errno) if crate::options::readable_of(link, self.fd) == 0 => Step::Done(fail(errno)),
            // The bytes that are there, or the end.
            _ if link.inward.phase() == Phase::Over => Step::Done(native(0, usize::MAX, MSG_DONTWAIT)),
            _ => Step::Again,
        }
    }

    fn is_peek(&self) -> bool {
        self.flags & MSG_PEEK != 0
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
