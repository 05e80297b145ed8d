//! Sending: into the ring while it carries, through the kernel before and after.

use crate::area::{Look, UNSET, revert};
use crate::description::Description;
use crate::kernel::{self, fail};
use crate::pieces::Pieces;
use crate::table::{self, Entry, Link};
use crate::{ask, wait};
use libc::{MSG_DONTWAIT, MSG_NOSIGNAL, MSG_OOB, MSG_ZEROCOPY, c_int, iovec};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Most buffers of one call to the kernel, once a part of a list was sent.
const BUFFERS: usize = 64;
/// Longest wait for room in the kernel before it is tried again.
const NAP: Duration = Duration::from_millis(100);
/// Most wake bytes that can be owed: the kernel's buffer was full that often. More can only be what the other end wrote.
const MOST_OWED: u64 = 1 << 16;

/// Function that puts bytes where they will lie in a ring: it gets the address and the room, and returns how many it put
/// there; 0 if there are no more, or -1 and `errno`.
pub type Filler<'a> = &'a mut dyn FnMut(*mut u8, usize) -> isize;

/// Bytes of a call.
enum Source<'a, 'f> {
    Buffers(Pieces<'a>),
    /// Most bytes of a filler, and the filler.
    Filler(usize, Filler<'f>),
}

impl Source<'_, '_> {
    fn left(&self) -> usize {
        match self {
            Source::Buffers(pieces) => pieces.left(),
            Source::Filler(left, _) => *left,
        }
    }
}

/// Has a function put bytes where they will lie, at most `most`. `native` as of [`send`].
pub fn fill(fd: c_int, most: usize, flags: c_int, filler: Filler<'_>, native: impl Fn() -> isize) -> isize {
    dispatch(fd, Source::Filler(most, filler), flags, native)
}

/// Sends buffers. `native` is the caller's own call to the kernel, used when nothing went into the ring.
pub fn send(fd: c_int, from: Pieces<'_>, flags: c_int, native: impl Fn() -> isize) -> isize {
    dispatch(fd, Source::Buffers(from), flags, native)
}

fn dispatch(fd: c_int, from: Source<'_, '_>, flags: c_int, native: impl Fn() -> isize) -> isize {
    let Some(entry) = table::get(fd) else { return native() };
    if flags & MSG_OOB != 0
        && let Some(link) = entry.link()
    {
        leave(&entry, &link, fd);
    }
    loop {
        match entry.link() {
            Some(link) if link.out.has_begun() || link.out.has_ended() || begin(&entry, &link, fd) => {
                let before = link.out.has_ended();
                let sent = by_ring(&entry, &link, fd, from, flags, &native);
                if sent > 0 && !before {
                    entry.description().zerocopy.count(flags, true);
                }
                return sent;
            }
            _ => {}
        }
        if let Some(sent) = through_kernel(&entry, fd, flags, &native) {
            return sent;
        }
    }
}

/// Sends through the kernel, and counts. Returns nothing if another thread began the ring meanwhile.
fn through_kernel(entry: &Entry, fd: c_int, flags: c_int, native: impl Fn() -> isize) -> Option<isize> {
    let description = entry.description();
    let inside = description.sending.enter();
    if entry.link().is_some_and(|link| link.out.has_begun()) {
        return None;
    }
    let sent = native();
    if sent > 0 {
        description.sent.fetch_add(sent as u64, Ordering::AcqRel);
        description.zerocopy.count(flags, false);
    }
    drop(inside);
    ask::count(entry, fd);
    Some(sent)
}

/// Lets the ring carry from the next byte on, if the other end agreed and no other thread is sending. Returns whether it
/// does.
pub(crate) fn begin(entry: &Entry, link: &Link<'_>, fd: c_int) -> bool {
    if link.out.signals().consent.load(Ordering::Acquire) == 0 || link.out.is_unwanted() {
        return false;
    }
    let description = entry.description();
    if description.never.load(Ordering::Acquire) != 0 {
        return false;
    }
    let held = link.lock_send();
    be_prompt(entry, fd);
    let inside = description.sending.enter();
    let writer = link.out.writer();
    if writer.begin.load(Ordering::Acquire) == UNSET && writer.end.load(Ordering::Acquire) == UNSET {
        inside.alone(|| {
            let sent = description.sent.load(Ordering::Acquire);
            // The other end may freeze the direction at any moment.
            let _ = writer.begin.compare_exchange(UNSET, sent, Ordering::AcqRel, Ordering::Relaxed);
        });
    }
    drop(inside);
    drop(held);
    link.out.is_ring()
}

/// Turns Nagle's algorithm off: a wake byte must not wait for an acknowledgement.
fn be_prompt(entry: &Entry, fd: c_int) {
    if entry.prompt.swap(1, Ordering::Relaxed) == 0 && entry.is_unix.load(Ordering::Relaxed) == 0 {
        let set = kernel::option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY).unwrap_or(0);
        entry.nodelay.store(set as u32, Ordering::Relaxed);
        kernel::set_option(fd, libc::IPPROTO_TCP, libc::TCP_NODELAY, 1);
    }
}

fn by_ring(
    entry: &Entry,
    link: &Link<'_>,
    fd: c_int,
    mut from: Source<'_, '_>,
    flags: c_int,
    native: impl Fn() -> isize,
) -> isize {
    let whole = from.left();
    let mut deadline = None;
    loop {
        let held = link.lock_send();
        if (link.out.is_unwanted() || link.out.is_frozen()) && !link.out.has_ended() {
            end_out(link, fd);
        }
        if link.out.has_ended() {
            drop(held);
            return after_ring(entry, link, fd, &mut from, whole, flags, native);
        }
        let mut stranded = None;
        let put = match &mut from {
            Source::Buffers(pieces) => link.out.push(pieces, || wake(link, fd)) as isize,
            Source::Filler(left, filler) => {
                let strand = |place, bytes| stranded = Some((place, bytes));
                link.out.fill(left, filler, || wake(link, fd), strand)
            }
        };
        if let Some((place, bytes)) = stranded {
            send_stranded(link, fd, place, bytes);
        }
        drop(held);
        let done = whole - from.left();
        if matches!(&from, Source::Buffers(pieces) if pieces.is_bad()) {
            return if done > 0 { done as isize } else { fail(libc::EFAULT) };
        }
        if from.left() > 0 && link.out.is_frozen() {
            continue;
        }
        if put <= 0 && matches!(from, Source::Filler(..)) && link.out.has_place() {
            // There are no more, or none now.
            return if done > 0 { done as isize } else { put };
        }
        if from.left() == 0 {
            return done as isize;
        }
        entry.was_full.fetch_add(1, Ordering::Relaxed);
        if flags & MSG_DONTWAIT != 0 || is_nonblocking(entry.description()) {
            // Another thread may be asleep in `epoll_wait`, and has to learn of the room that comes.
            link.out.request_room();
            if link.out.has_room() {
                continue;
            }
            return if done > 0 { done as isize } else { fail(libc::EAGAIN) };
        }
        let deadline = *deadline.get_or_insert_with(|| wait::give_up(fd, libc::SO_SNDTIMEO));
        match wait::for_room(entry, link, fd, deadline, done > 0) {
            None => {}
            Some(libc::EPIPE) => {
                let _held = link.lock_send();
                end_out(link, fd);
            }
            Some(_) if done > 0 => return done as isize,
            Some(errno) => return fail(errno),
        }
    }
}

/// Sends bytes through the kernel that lie in the ring behind its end. Waits for room, since the program gave them away. The
/// lock of the sending end is held.
fn send_stranded(link: &Link<'_>, fd: c_int, mut place: *const u8, mut bytes: usize) {
    let _ = pay(link, fd, false);
    while bytes > 0 {
        // SAFETY: bytes of the ring, which is this end's alone behind its end.
        let sent = unsafe { kernel::send(fd, place, bytes, MSG_NOSIGNAL) };
        if sent > 0 {
            (place, bytes) = (place.wrapping_add(sent as usize), bytes - sent as usize);
        } else if sent < 0 && kernel::errno() == libc::EAGAIN {
            let mut one = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
            // SAFETY: no mask.
            unsafe { kernel::poll(&mut one, Some(NAP), std::ptr::null()) };
        } else if sent == 0 || kernel::errno() != libc::EINTR {
            // The connection has ended, and the next call says so.
            return;
        }
    }
}

/// Sends what is left of a call through the kernel, which carries from now on.
fn after_ring(
    entry: &Entry,
    link: &Link<'_>,
    fd: c_int,
    from: &mut Source<'_, '_>,
    whole: usize,
    flags: c_int,
    native: impl Fn() -> isize,
) -> isize {
    let done = (whole - from.left()) as isize;
    if let Err(errno) = pay(link, fd, flags & MSG_DONTWAIT != 0 || is_nonblocking(entry.description())) {
        return if done > 0 { done } else { fail(errno) };
    }
    let pieces = match from {
        Source::Buffers(pieces) if done > 0 => pieces,
        Source::Filler(..) if done > 0 => return done,
        _ => return native(),
    };
    let mut rest = [iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; BUFFERS];
    let count = pieces.rest(&mut rest, usize::MAX);
    // SAFETY: the caller's buffers.
    let sent = unsafe { kernel::send_all_of(fd, &rest[..count], flags & !MSG_ZEROCOPY | MSG_NOSIGNAL) };
    done + sent.max(0)
}

/// Sends what has to go through the kernel before any further byte: wake bytes that were counted, and bytes asked back.
fn pay(link: &Link<'_>, fd: c_int, is_nonblocking: bool) -> Result<(), c_int> {
    let owed = &link.out.writer().owed;
    let mut deadline = None;
    loop {
        let held = link.lock_send();
        if owed.load(Ordering::Acquire) > MOST_OWED {
            owed.store(0, Ordering::Release);
            return Err(libc::ECONNRESET);
        }
        give_back(link, fd);
        if pay_wakes(link, fd) {
            return Ok(());
        }
        drop(held);
        if is_nonblocking {
            return Err(libc::EAGAIN);
        }
        let deadline = *deadline.get_or_insert_with(|| wait::give_up(fd, libc::SO_SNDTIMEO));
        let left = deadline.map_or(NAP, |end| end.saturating_duration_since(Instant::now()));
        if left.is_zero() {
            return Err(libc::EAGAIN);
        }
        let mut one = [libc::pollfd { fd, events: libc::POLLOUT, revents: 0 }];
        // SAFETY: no mask.
        let ready = unsafe { kernel::poll(&mut one, Some(left.min(NAP)), std::ptr::null()) };
        if ready < 0 || one[0].revents & (libc::POLLERR | libc::POLLHUP) != 0 {
            // The caller's own call reports it.
            return Ok(());
        }
    }
}

/// Wakes whoever sleeps at the other end: by its bell, or by a byte through the kernel. The lock of the sending end is held.
/// No byte can be sent before the ring has begun or after it has ended: it would be data.
pub(crate) fn wake(link: &Link<'_>, fd: c_int) {
    if link.ring() || !link.out.is_ring() || !link.out.count_wake() {
        return;
    }
    let writer = link.out.writer();
    if link.out.signals().gone.load(Ordering::SeqCst) != 0 {
        // A byte that reaches an end which is just being closed would reset the connection. Pairs with `close::say_closed`.
        writer.wakes.fetch_sub(1, Ordering::SeqCst);
        return;
    }
    if send_now(fd, [0_u8].as_ptr(), 1) != 1 {
        writer.owed.fetch_add(1, Ordering::AcqRel);
    }
}

/// Hands this end's direction back to the kernel, after all that is in the ring. The lock of the sending end is held.
pub(crate) fn end_out(link: &Link<'_>, fd: c_int) {
    if link.out.has_ended() {
        return;
    }
    // Whoever sleeps at the other end must see it: afterwards no wake byte can be sent. Nobody does at one that is closed, and
    // the kernel would answer the byte with a reset.
    wake_sender(link);
    if link.out.signals().gone.load(Ordering::Acquire) == 0 && is_awaited(link) {
        wake(link, fd);
    }
    link.out.finish();
}

/// Wakes the other end so that it sees that its bytes are wanted back. The direction of this end still carries, or its bell
/// rings.
pub(crate) fn wake_for_return(link: &Link<'_>, fd: c_int) {
    let _held = link.lock_send();
    if is_awaited(link) {
        wake(link, fd);
    }
    wake_sender(link);
}

/// Sends all wake bytes that were counted, waiting for room: no later call on this socket does.
pub(crate) fn pay_all(link: &Link<'_>, fd: c_int) {
    let _ = pay(link, fd, false);
}

/// Returns true if somebody at the other end asked to be woken.
fn is_awaited(link: &Link<'_>) -> bool {
    let (data, room) = (&link.out.signals().want_data, &link.inward.signals().want_room);
    data.swap(0, Ordering::SeqCst) | room.swap(0, Ordering::SeqCst) != 0
}

/// Sends wake bytes that were counted and not sent. Returns true if none are left. The lock of the sending end is held.
fn pay_wakes(link: &Link<'_>, fd: c_int) -> bool {
    let owed = &link.out.writer().owed;
    while owed.load(Ordering::Acquire) > 0 {
        if send_now(fd, [0_u8].as_ptr(), 1) != 1 {
            return false;
        }
        owed.fetch_sub(1, Ordering::AcqRel);
    }
    true
}

/// Sends the bytes of the frozen ring through the kernel, if the other end asks for it: as many as there is room for, once. The
/// other end keeps them until it knows how many came. The lock of the sending end is held.
fn give_back(link: &Link<'_>, fd: c_int) {
    let state = &link.out.signals().revert;
    let order = (Ordering::AcqRel, Ordering::Relaxed);
    if state.compare_exchange(revert::RETURN, revert::RETURNING, order.0, order.1).is_err() {
        return;
    }
    let mut done = 0;
    if let (true, Look::Bytes(bytes)) = (pay_wakes(link, fd), link.out.look()) {
        let first = link.out.first();
        while done < bytes {
            let sent = send_now(fd, first.wrapping_add(done), bytes - done);
            if sent <= 0 {
                break;
            }
            done += sent as usize;
        }
    }
    link.out.writer().returned.store(done as u64, Ordering::Release);
    state.store(revert::RETURNED, Ordering::Release);
}

fn send_now(fd: c_int, from: *const u8, bytes: usize) -> isize {
    // SAFETY: bytes of our own, or of a ring.
    unsafe { kernel::send(fd, from, bytes, MSG_NOSIGNAL | MSG_DONTWAIT) }
}

/// Does what the other end asked for, if it did: hands this end's direction back to the kernel.
#[inline]
pub(crate) fn settle(link: &Link<'_>, fd: c_int) {
    if !link.out.is_unwanted() || !link.out.has_begun() {
        return;
    }
    let is_asked_back = link.out.signals().revert.load(Ordering::Acquire) == revert::RETURN;
    if !link.out.has_ended() || is_asked_back {
        let _held = link.lock_send();
        end_out(link, fd);
        give_back(link, fd);
    }
}

/// Wakes a sender of the other end that sleeps until there is room.
pub(crate) fn wake_sender(link: &Link<'_>) {
    let room = &link.inward.signals().room;
    room.fetch_add(1, Ordering::AcqRel);
    kernel::futex_wake(room, c_int::MAX);
}

/// Hands both directions back to the kernel for good: this end's now, the other's at its next call.
pub(crate) fn leave(entry: &Entry, link: &Link<'_>, fd: c_int) {
    entry.description().never.store(1, Ordering::Release);
    let state = &link.inward.signals().revert;
    let _ = state.compare_exchange(0, revert::WISHED, Ordering::SeqCst, Ordering::Relaxed);
    let _held = link.lock_send();
    end_out(link, fd);
}

fn is_nonblocking(description: &Description) -> bool {
    description.nonblocking.load(Ordering::Relaxed) != 0
}
