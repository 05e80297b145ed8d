//! Sending: into the ring while the ring carries the direction, and through the kernel before and afterwards.

use crate::ask;
use crate::deadline::Deadline;
use crate::carried::CarriedEnd;
use crate::kernel::{self, fail};
use crate::pieces::Pieces;
use crate::table::{self, Socket};
use crate::wait;
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_OOB, MSG_ZEROCOPY, POLLOUT, c_int, iovec};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum number of buffers passed to the kernel in one call, once a part of a list was sent.
const BUFFERS: usize = 64;
/// Longest wait for room in the kernel before another attempt.
const NAP: Duration = Duration::from_millis(100);

/// Function that writes bytes in place, into a ring. It gets the address and the room, and returns how many bytes it wrote: 0 if it has no
/// more, or -1 with `errno` set.
pub type RingFill<'a> = &'a mut dyn FnMut(*mut u8, usize) -> isize;

/// Lets a function write at most `most` bytes in place, into the ring. `native` as for [`send`].
pub fn fill(fd: c_int, most: usize, flags: c_int, filler: RingFill<'_>, native: impl Fn() -> isize) -> isize {
    let Some(socket) = table::get(fd) else { return native() };
    Call::new(&socket, Source::Filler(most, filler), flags).run(native)
}

/// Sends buffers. `native` is the caller's own call to the kernel, used if no bytes went into the ring.
pub fn send(fd: c_int, from: Pieces<'_>, flags: c_int, native: impl Fn() -> isize) -> isize {
    let Some(socket) = table::get(fd) else { return native() };
    Call::new(&socket, Source::Buffers(from), flags).run(native)
}

/// Bytes to send.
enum Source<'a, 'f> {
    Buffers(Pieces<'a>),
    /// Maximum bytes to send, and the function that writes them.
    Filler(usize, RingFill<'f>),
}

impl Source<'_, '_> {
    fn left(&self) -> usize {
        match self {
            Source::Buffers(pieces) => pieces.left(),
            Source::Filler(left, _) => *left,
        }
    }

    /// Returns whether a buffer of the caller was found that cannot be read.
    fn is_bad(&self) -> bool {
        matches!(self, Source::Buffers(pieces) if pieces.is_bad())
    }

    /// Writes bytes into the ring as far as there is room. Returns the result, and any stranded bytes: those that a function wrote behind
    /// the end of a ring that was frozen meanwhile. The caller holds the send lock.
    fn push(&mut self, carried: &CarriedEnd<'_>) -> (isize, Option<(*const u8, usize)>) {
        let mut stranded = None;
        let put = match self {
            Source::Buffers(pieces) => carried.out.push(pieces, || carried.wake()) as isize,
            Source::Filler(left, filler) => {
                let strand = |place, bytes| stranded = Some((place, bytes));
                carried.out.fill(left, filler, || carried.wake(), strand)
            }
        };
        (put, stranded)
    }
}

/// A sending call.
struct Call<'a, 'f> {
    socket: &'a Socket,
    from: Source<'a, 'f>,
    flags: c_int,
    /// Number of bytes that the call is to send.
    whole: usize,
}

impl<'a, 'f> Call<'a, 'f> {
    fn new(socket: &'a Socket, from: Source<'a, 'f>, flags: c_int) -> Call<'a, 'f> {
        let whole = from.left();
        Call { socket, from, flags, whole }
    }

    fn run(mut self, native: impl Fn() -> isize) -> isize {
        if self.flags & MSG_OOB != 0
            && let Some(carried) = self.socket.carried()
        {
            carried.leave();
        }
        loop {
            if let Some(carried) = self.socket.carried()
                && (carried.out.has_begun() || carried.out.has_ended() || carried.begin())
            {
                let before = carried.out.has_ended();
                let sent = self.by_ring(&carried, &native);
                if sent > 0 && !before {
                    self.socket.description().zerocopy.count(self.flags, true);
                }
                return sent;
            }
            if let Some(sent) = self.through_kernel(&native) {
                return sent;
            }
        }
    }

    /// Sends through the kernel, and counts the bytes and the call. Returns `None` if another thread began the ring meanwhile.
    fn through_kernel(&self, native: impl Fn() -> isize) -> Option<isize> {
        let description = self.socket.description();
        let inside = description.sending.enter();
        if self.socket.carried().is_some_and(|carried| carried.out.has_begun()) {
            return None;
        }
        let sent = native();
        if sent > 0 {
            description.sent.fetch_add(sent as u64, Ordering::AcqRel);
            description.zerocopy.count(self.flags, false);
        }
        drop(inside);
        ask::count(self.socket);
        Some(sent)
    }

    fn by_ring(&mut self, carried: &CarriedEnd<'_>, native: impl Fn() -> isize) -> isize {
        let out = &carried.out;
        let mut deadline = Deadline::of_send(self.socket.fd);
        loop {
            let held = carried.lock_send();
            if (out.is_unwanted() || out.is_frozen()) && !out.has_ended() {
                carried.end_out();
            }
            if out.has_ended() {
                drop(held);
                return self.after_ring(carried, native);
            }
            let (put, stranded) = self.from.push(carried);
            if let Some((place, bytes)) = stranded {
                send_stranded(carried, place, bytes);
            }
            drop(held);
            if self.from.is_bad() {
                return self.or(libc::EFAULT);
            }
            if self.from.left() > 0 && out.is_frozen() {
                continue;
            }
            if put <= 0 && matches!(self.from, Source::Filler(..)) && out.has_place() {
                // The function has no more bytes, or none at the moment.
                return if self.done() > 0 { self.done() } else { put };
            }
            if self.from.left() == 0 {
                return self.done();
            }
            self.socket.was_full.fetch_add(1, Ordering::Relaxed);
            if self.is_nonblocking() {
                // Another thread may be asleep in `epoll_wait`, and must be woken when there is room.
                out.request_room();
                if out.has_room() {
                    continue;
                }
                return self.or(libc::EAGAIN);
            }
            match wait::for_room(carried, deadline.at(), self.done() > 0) {
                None => {}
                Some(libc::EPIPE) => {
                    let _held = carried.lock_send();
                    carried.end_out();
                }
                Some(errno) => return self.or(errno),
            }
        }
    }

    /// Sends the rest of the call through the kernel, which carries the direction from now on.
    fn after_ring(&mut self, carried: &CarriedEnd<'_>, native: impl Fn() -> isize) -> isize {
        if let Err(errno) = carried.pay(self.is_nonblocking()) {
            return self.or(errno);
        }
        let done = self.done();
        let pieces = match &mut self.from {
            Source::Buffers(pieces) if done > 0 => pieces,
            Source::Filler(..) if done > 0 => return done,
            _ => return native(),
        };
        let mut rest = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BUFFERS];
        let count = pieces.rest(&mut rest, usize::MAX);
        let flags = self.flags & !MSG_ZEROCOPY | MSG_NOSIGNAL;
        // SAFETY: the caller's buffers.
        let sent = unsafe { kernel::send_all_of(self.socket.fd, &rest[..count], flags) };
        done + sent.max(0)
    }

    /// Returns the number of bytes sent so far.
    fn done(&self) -> isize {
        (self.whole - self.from.left()) as isize
    }

    /// Returns the number of bytes sent, or fails with `errno` if there are none.
    fn or(&self, errno: c_int) -> isize {
        if self.done() > 0 { self.done() } else { fail(errno) }
    }

    fn is_nonblocking(&self) -> bool {
        self.flags & MSG_DONTWAIT != 0 || self.socket.description().is_nonblocking()
    }
}

/// Sends bytes through the kernel that were written into the ring behind its end. It waits for room, because the program already considers
/// these bytes sent. The caller holds the send lock.
fn send_stranded(carried: &CarriedEnd<'_>, mut place: *const u8, mut bytes: usize) {
    let _ = carried.pay(false);
    while bytes > 0 {
        // SAFETY: bytes in the ring behind its end, which only this end of the connection uses.
        let sent = unsafe { kernel::send(carried.fd, place, bytes, MSG_NOSIGNAL) };
        if sent > 0 {
            (place, bytes) = (place.wrapping_add(sent as usize), bytes - sent as usize);
        } else if sent < 0 && kernel::errno() == libc::EAGAIN {
            kernel::poll_one(carried.fd, POLLOUT, Some(NAP));
        } else if sent == 0 || kernel::errno() != libc::EINTR {
            // The connection has ended. The next call reports it.
            return;
        }
    }
}
