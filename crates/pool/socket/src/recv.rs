//! Receiving: from the kernel up to the byte at which the ring begins, then from the ring, and then from the kernel again.

use crate::area::{RingReading, ByteSource, UNSET};
use crate::ask;
use crate::deadline::Deadline;
use crate::carried::{CarriedEnd, Woken};
use crate::kernel::{self, fail};
use crate::pieces::Pieces;
use crate::table::{self, Socket};
use crate::wait;
use libc::{MSG_DONTWAIT, MSG_ERRQUEUE, MSG_OOB, MSG_PEEK, MSG_TRUNC, MSG_WAITALL, POLLIN, c_int, iovec};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest sleep before a call checks whether the relay that it waits for is still alive.
const RELAY_NAP: Duration = Duration::from_millis(20);

/// Outcome of a step: the result of the call, or that the call needs another step.
enum Step {
    Done(isize),
    Again,
}

/// Function that reads bytes in place, in the ring. It gets their address and number, and returns how many it consumed, or -1 with `errno`
/// set.
pub type Taker<'a> = &'a mut dyn FnMut(*const u8, usize) -> isize;

/// Receives into buffers. `native` is the caller's own call to the kernel, used for all bytes that are not in the ring. Its arguments are
/// the number of bytes already in the buffers, the most bytes that it may add, and additional flags.
pub fn recv(fd: c_int, to: Pieces<'_>, flags: c_int, native: impl KernelCall) -> isize {
    let Some(socket) = table::get(fd) else { return native(0, usize::MAX, 0) };
    // A Unix socket has no error queue, and receives as if the flag were not set.
    let is_kernels = MSG_OOB | if socket.is_unix() { 0 } else { MSG_ERRQUEUE };
    if flags & is_kernels != 0 {
        return native(0, usize::MAX, 0);
    }
    Call::new(&socket, to, None, flags).run(native)
}

/// Receives as [`recv`] does, for a call that also accepts descriptors. On a Unix socket, the call then ends where the ring begins, because
/// the kernel ends a call after bytes that had descriptors attached.
pub fn recv_beside(fd: c_int, to: Pieces<'_>, flags: c_int, native: impl KernelCall) -> isize {
    let Some(socket) = table::get(fd) else { return native(0, usize::MAX, 0) };
    let mut call = Call::new(&socket, to, None, flags);
    call.enters_ring = !socket.is_unix();
    call.run(native)
}

/// The caller's own call to the kernel: see [`recv`].
pub trait KernelCall: Fn(usize, usize, c_int) -> isize {}
impl<F: Fn(usize, usize, c_int) -> isize> KernelCall for F {}

/// Lets a function read at most `most` bytes in place. With `MSG_PEEK` the bytes stay in the ring. `native` as for [`recv`].
pub fn take(
    fd: c_int,
    most: usize,
    flags: c_int,
    taker: Taker<'_>,
    native: impl KernelCall,
) -> isize {
    let Some(socket) = table::get(fd) else { return native(0, usize::MAX, 0) };
    let nowhere = [iovec { iov_base: std::ptr::null_mut(), iov_len: most }];
    Call::new(&socket, Pieces::new(&nowhere), Some(taker), flags).run(native)
}

/// Removes bytes that [`take`] left in the ring, and announces the new room to the other end.
pub fn discard(fd: c_int, bytes: usize) {
    let Some(socket) = table::get(fd) else { return };
    let Some(carried) = socket.carried() else { return };
    let held = carried.lock_recv();
    if let RingReading::Bytes(available) = carried.inward.look() {
        carried.inward.discard(bytes.min(available));
    }
    drop(held);
    carried.give_room();
}

/// A receiving call.
struct Call<'a> {
    socket: &'a Socket,
    to: Pieces<'a>,
    /// Function that reads the bytes in place. If it is set, the buffers have no memory and only count bytes.
    taker: Option<Taker<'a>>,
    flags: c_int,
    /// Bytes received so far. The call continues where the source of the bytes changes, because a program takes a short result for the end
    /// of the data.
    done: usize,
    /// True if the call continues in the ring after bytes from the kernel.
    enters_ring: bool,
    deadline: Deadline,
}

impl<'a> Call<'a> {
    fn new(socket: &'a Socket, to: Pieces<'a>, taker: Option<Taker<'a>>, flags: c_int) -> Call<'a> {
        let is_pointer = taker.is_some() && flags & MSG_PEEK != 0;
        let deadline = Deadline::of_recv(socket.fd);
        Call { socket, to, taker, flags, done: 0, enters_ring: !is_pointer, deadline }
    }

    fn run(mut self, native: impl KernelCall) -> isize {
        loop {
            let step = match self.socket.carried() {
                Some(_) if self.socket.description().is_lent() => self.wait_for_relay(),
                Some(carried) => self.carried_step(&carried, &native),
                None => self.through_kernel(&native),
            };
            if let Step::Done(result) = step {
                return self.end(result);
            }
        }
    }

    /// Does one step of a call on a socket that has an area.
    fn carried_step(&mut self, carried: &CarriedEnd<'_>, native: impl KernelCall) -> Step {
        if self.peeks_for_all() && carried.inward.phase() != ByteSource::Kernel {
            return self.peek_all(carried, &native);
        }
        carried.settle();
        match carried.inward.phase() {
            ByteSource::Kernel if carried.agree() => Step::Again,
            ByteSource::Kernel => self.through_kernel(&native),
            ByteSource::Agreed => self.before_ring(carried, &native),
            ByteSource::Ring => self.by_ring(carried, &native),
            ByteSource::Over => Step::Done(self.after_ring(carried, &native)),
        }
    }

    /// Ends the call. An end of stream becomes a reset if the other end left bytes unread, because the kernel does not know of these bytes.
    fn end(&self, mut result: isize) -> isize {
        let is_end = result == 0 && self.to.left() > 0;
        if is_end && self.socket.carried().is_some_and(|carried| carried.is_reset()) {
            result = fail(libc::ECONNRESET);
        }
        if result < 0 && kernel::errno() == libc::ECONNRESET {
            self.socket.description().reset.store(1, Ordering::Release);
        }
        result
    }

    /// Receives from the kernel, and counts the bytes and the call.
    fn through_kernel(&mut self, native: impl KernelCall) -> Step {
        let description = self.socket.description();
        let inside = description.receiving.enter();
        if self.socket.carried().is_some_and(|carried| carried.inward.phase() != ByteSource::Kernel) {
            return Step::Again;
        }
        let got = native(0, usize::MAX, 0);
        if got > 0 && !self.is_peek() {
            description.received.fetch_add(got as u64, Ordering::AcqRel);
        }
        drop(inside);
        if got > 0 {
            ask::count(self.socket);
        }
        Step::Done(got)
    }

    /// Waits until the relay of another program has put back the bytes that this program left unread.
    fn wait_for_relay(&mut self) -> Step {
        if self.is_nonblocking() {
            return Step::Done(self.or(libc::EAGAIN));
        }
        if self.deadline.at().is_some_and(|deadline| Instant::now() >= deadline) {
            return Step::Done(self.or(libc::EAGAIN));
        }
        let lent = &self.socket.description().lent;
        let relay = lent.load(Ordering::Acquire);
        if relay != 0 && kernel::futex_wait(lent, relay, RELAY_NAP) != 0 {
            let errno = kernel::errno();
            if errno == libc::EINTR && (self.done > 0 || kernel::is_interruptible()) {
                return Step::Done(self.or(errno));
            }
        }
        Step::Again
    }

    /// Receives bytes that were sent before the ring begins, and then continues in the ring.
    fn before_ring(&mut self, carried: &CarriedEnd<'_>, native: impl KernelCall) -> Step {
        if self.to.left() == 0 {
            // As in the kernel, even a call for zero bytes waits until there are bytes.
            let is_there = self.done > 0 || carried.readable() > 0;
            return Step::Done(if is_there { self.done as isize } else { native(0, usize::MAX, 0) });
        }
        let held = carried.lock_recv();
        if carried.inward.phase() != ByteSource::Agreed {
            return Step::Again;
        }
        let received = &self.socket.description().received;
        let there = kernel::readable(self.socket.fd);
        // Load `begin` after reading the number of bytes: if wake bytes are among them, `begin` is visibly set.
        let begin = carried.inward.begin();
        if begin == UNSET && carried.inward.has_ended() && !carried.inward.has_begun() {
            carried.inward.set_phase(ByteSource::Over);
            return Step::Again;
        }
        let left = begin.wrapping_sub(received.load(Ordering::Acquire));
        if begin != UNSET && left == 0 {
            carried.inward.set_phase(ByteSource::Ring);
            return Step::Again;
        }
        let most = if begin == UNSET { there } else { there.min(left as usize) };
        if most > 0 {
            let got = native(self.done, most, MSG_DONTWAIT);
            return self.enter_ring(carried, got);
        }
        drop(held);
        let waits = !self.is_nonblocking();
        if waits && let Err(errno) = wait::for_first(carried, &mut self.deadline, self.done > 0) {
            return Step::Done(self.or(errno));
        }
        let mut byte = 0_u8;
        // SAFETY: a local variable of one byte.
        match unsafe { kernel::recv(self.socket.fd, &raw mut byte, 1, MSG_PEEK | MSG_DONTWAIT) } {
            1.. => Step::Again,
            ..0 if waits && kernel::errno() == libc::EAGAIN => Step::Again,
            _ if self.done > 0 => Step::Done(self.done as isize),
            // The kernel has reached the end of the stream, so the native call returns it; or it has just reported an error.
            0 => Step::Done(native(0, usize::MAX, 0)),
            failed => Step::Done(failed),
        }
    }

    /// Continues in the ring if the kernel returned the last bytes before it. The caller holds the receive lock.
    fn enter_ring(&mut self, carried: &CarriedEnd<'_>, got: isize) -> Step {
        if got <= 0 {
            return Step::Done(if self.done > 0 { self.done as isize } else { got });
        }
        self.done += got as usize;
        self.to.skip(got as usize);
        let received = &self.socket.description().received;
        // Load `begin` after the bytes were received, because the ring may have begun meanwhile.
        let begin = carried.inward.begin();
        if self.is_peek() {
            let next = received.load(Ordering::Acquire).wrapping_add(got as u64);
            return Step::Done(if next == begin { self.peek_ring(carried) } else { self.done as isize });
        }
        let now = received.fetch_add(got as u64, Ordering::AcqRel).wrapping_add(got as u64);
        if now == begin {
            carried.inward.set_phase(ByteSource::Ring);
            if self.enters_ring && self.to.left() > 0 {
                return Step::Again;
            }
        }
        self.go_on_for_all()
    }

    /// Peeks at the bytes in the ring, after peeking at those in the kernel. Returns the number of bytes from the two together.
    fn peek_ring(&mut self, carried: &CarriedEnd<'_>) -> isize {
        if self.enters_ring
            && let RingReading::Bytes(available) = carried.inward.look()
        {
            self.done += carried.inward.peek(&mut self.to, available);
        }
        self.done as isize
    }

    /// Ends the call with the bytes received so far, unless it waits for all (`MSG_WAITALL`).
    fn go_on_for_all(&self) -> Step {
        if self.to.left() > 0 && self.flags & MSG_WAITALL != 0 {
            return Step::Again;
        }
        Step::Done(self.done as isize)
    }

    /// Receives from the ring, and then from the kernel if the ring has ended.
    fn by_ring(&mut self, carried: &CarriedEnd<'_>, native: impl KernelCall) -> Step {
        if self.to.left() == 0 && self.done > 0 {
            return Step::Done(self.done as isize);
        }
        let held = carried.lock_recv();
        match carried.inward.look() {
            RingReading::Bytes(available) => {
                let got = self.take(carried, available);
                if got < 0 {
                    return Step::Done(self.or(kernel::errno()));
                }
                if got == 0 && self.to.is_bad() {
                    return Step::Done(self.or(libc::EFAULT));
                }
                self.done += got as usize;
                if self.is_peek() {
                    let is_all = got as usize == available && self.enters_ring && carried.inward.has_ended();
                    let done = self.done as isize;
                    return Step::Done(if is_all { self.more_from_kernel(carried, &native) } else { done });
                }
                drop(held);
                if carried.inward.wakes() > 0 {
                    // Wake bytes left unread would reset the connection when the process ends, although they are not the program's.
                    carried.drain();
                }
                carried.give_room();
                if self.to.left() > 0 && got > 0 && carried.inward.has_ended() {
                    return Step::Again;
                }
                return self.go_on_for_all();
            }
            RingReading::Ended => {
                carried.inward.set_phase(ByteSource::Over);
                return Step::Again;
            }
            RingReading::Broken => {
                drop(held);
                carried.leave();
                carried.inward.set_phase(ByteSource::Over);
                return Step::Done(fail(libc::ECONNRESET));
            }
            RingReading::Empty => {}
        }
        drop(held);
        let woken = if self.done > 0 && self.is_nonblocking() {
            return Step::Done(self.done as isize);
        } else if self.is_nonblocking() {
            match carried.look_at_kernel() {
                None => return Step::Done(self.or(libc::EAGAIN)),
                Some(woken) => woken,
            }
        } else {
            wait::for_data(carried, &mut self.deadline, self.done > 0)
        };
        match woken {
            Woken::Look => Step::Again,
            Woken::Foreign => Step::Done(native(self.done, usize::MAX, MSG_DONTWAIT)),
            Woken::End => self.at_end(carried),
            Woken::Error(errno @ (libc::EINTR | libc::EAGAIN)) => Step::Done(self.or(errno)),
            Woken::Error(errno) => {
                if let RingReading::Bytes(_) = carried.inward.look() {
                    return Step::Again;
                }
                let is_end = errno == libc::ECONNRESET && carried.out.is_ring() && carried.is_reset_by_wakes();
                carried.end_both();
                // If the reset stands for an end of stream, the next step takes this end from the kernel.
                if is_end { Step::Again } else { Step::Done(self.or(errno)) }
            }
        }
    }

    fn take(&mut self, carried: &CarriedEnd<'_>, available: usize) -> isize {
        let bytes = available.min(self.to.left());
        if let Some(taker) = &mut self.taker {
            let taken = taker(carried.inward.first(), bytes);
            if taken > 0 {
                self.to.skip(taken as usize);
            }
            if taken > 0 && !self.is_peek() {
                carried.inward.discard(taken as usize);
            }
            return taken;
        }
        // As in tcp(7), TCP counts these bytes without copying them; Unix sockets ignore the flag.
        if self.flags & MSG_TRUNC != 0 && !self.socket.is_unix() {
            self.to.skip(bytes);
            if !self.is_peek() {
                carried.inward.discard(bytes);
            }
            return bytes as isize;
        }
        if self.is_peek() {
            return carried.inward.peek(&mut self.to, available) as isize;
        }
        carried.inward.pop(&mut self.to, available) as isize
    }

    /// Ends the direction because the kernel's connection has ended. Bytes that the other end put into the ring before that are received
    /// first.
    fn at_end(&mut self, carried: &CarriedEnd<'_>) -> Step {
        if carried.inward.look() != RingReading::Empty {
            return Step::Again;
        }
        let is_reset = carried.is_reset();
        carried.end_both();
        if is_reset {
            return Step::Done(self.or(libc::ECONNRESET));
        }
        Step::Again
    }

    /// Receives from the kernel, after any remaining wake bytes.
    fn after_ring(&mut self, carried: &CarriedEnd<'_>, native: impl KernelCall) -> isize {
        if self.done > 0 {
            return self.more_from_kernel(carried, &native);
        }
        while carried.inward.wakes() > 0 {
            let is_late = self.deadline.was_over_at(Instant::now());
            if !is_late && carried.drain() {
                continue;
            }
            let (ready, events) = kernel::poll_one(self.socket.fd, POLLIN, self.time_left());
            if is_late || ready <= 0 {
                return self.or(if ready < 0 { kernel::errno() } else { libc::EAGAIN });
            }
            if events & POLLIN == 0 || kernel::readable(self.socket.fd) == 0 {
                break;
            }
        }
        native(0, usize::MAX, 0)
    }

    /// Adds bytes from the kernel after those from the ring, and waits for them if the call waits for all. An end of stream or an error is
    /// left for the next call, as in the kernel.
    fn more_from_kernel(&mut self, carried: &CarriedEnd<'_>, native: impl KernelCall) -> isize {
        while self.to.left() > 0 {
            carried.drain();
            if carried.inward.wakes() == 0 && kernel::readable(self.socket.fd) > 0 {
                let got = native(self.done, usize::MAX, MSG_DONTWAIT);
                if got <= 0 {
                    break;
                }
                self.done += got as usize;
                self.to.skip(got as usize);
                if self.is_peek() || !self.enters_ring || self.flags & MSG_WAITALL == 0 {
                    break;
                }
            } else if self.is_nonblocking() || self.is_peek() || !wait::for_kernel(self.socket.fd, &mut self.deadline) {
                break;
            }
        }
        self.done as isize
    }

    /// Returns whether the call peeks and waits until its buffers can be filled. A Unix socket does not wait in this case.
    fn peeks_for_all(&self) -> bool {
        let both = MSG_PEEK | MSG_WAITALL;
        self.flags & both == both
            && self.taker.is_none()
            && self.flags & MSG_DONTWAIT == 0
            && !self.socket.is_unix()
            && !self.socket.description().is_nonblocking()
    }

    /// Waits until the buffers can be filled, or no more bytes can come, and then peeks.
    fn peek_all(&mut self, carried: &CarriedEnd<'_>, native: impl KernelCall) -> Step {
        let wanted = self.to.left();
        let is_there = || carried.readable() >= wanted || carried.inward.is_full();
        let woken = wait::for_more(carried, &mut self.deadline, is_there);
        self.flags &= !MSG_WAITALL;
        match woken {
            Err(errno) if carried.readable() == 0 => Step::Done(fail(errno)),
            // The available bytes, or the end of the stream.
            _ if carried.inward.phase() == ByteSource::Over => Step::Done(native(0, usize::MAX, MSG_DONTWAIT)),
            _ => Step::Again,
        }
    }

    fn is_peek(&self) -> bool {
        self.flags & MSG_PEEK != 0
    }

    /// Returns how long the call may wait; `None` if it may wait forever.
    fn time_left(&mut self) -> Option<Duration> {
        if self.is_nonblocking() {
            return Some(Duration::ZERO);
        }
        self.deadline.left()
    }

    fn is_nonblocking(&self) -> bool {
        self.flags & MSG_DONTWAIT != 0
            || self.socket.description().is_nonblocking()
            || self.done > 0 && self.flags & MSG_WAITALL == 0
    }

    /// Returns the number of bytes received, or fails with `errno` if there are none.
    fn or(&self, errno: c_int) -> isize {
        if self.done > 0 { self.done as isize } else { fail(errno) }
    }
}
