//! `epoll` for carried sockets, mixed with any other descriptors.
//!
//! Other descriptors are registered in the kernel as the program asks, and their events pass unchanged. A socket that has an area is
//! registered edge-triggered under a number of this library, so that the kernel wakes waits for it, and this module computes its events.
//!
//! | module | idea |
//! |---|---|
//! | here | the calls |
//! | [`set`], [`nested`] | sets, which may be registered in other sets |
//! | [`slots`], [`slot`] | registrations in a set |
//! | [`registration`] | registrations in the kernel |

pub(crate) mod nested;
mod registration;
pub(crate) mod set;
mod slot;
mod slots;

use crate::kernel::{self, fail};
use crate::memory::{self, BufferUse};
use crate::{poll, table};
use libc::{EPOLL_CTL_ADD, EPOLL_CTL_DEL, EPOLL_CTL_MOD, c_int, c_void, epoll_event};
use set::{MOST, Set};
use std::sync::atomic::{AtomicU64, Ordering, fence};
use std::time::{Duration, Instant};

/// Flag that is invalid for a set which is registered in another set.
const EXCLUSIVE: u32 = libc::EPOLLEXCLUSIVE as u32;
/// Longest sleep before all events are checked again.
const NAP: Duration = Duration::from_secs(1);
/// Longest time for which events of descriptors other than carried sockets may wait while events of carried sockets are reported.
const KERNEL_EVERY: Duration = Duration::from_micros(20);

/// Bitmap of the descriptors that may be registered in an `epoll` set.
static TRACKED: [AtomicU64; MOST / 64] = [const { AtomicU64::new(0) }; MOST / 64];

fn track(fd: c_int) {
    if let Some(word) = TRACKED.get(fd as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::AcqRel);
    }
}

/// Returns whether a descriptor may be registered in a set, and clears its mark.
fn ends_tracking(fd: c_int) -> bool {
    let Some(word) = TRACKED.get(fd as usize / 64) else { return false };
    let bit = 1 << (fd % 64);
    word.load(Ordering::Acquire) & bit != 0 && word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
}

/// Returns whether a descriptor is a set that this library knows.
pub fn is_set(fd: c_int) -> bool {
    set::get(fd).is_some()
}

/// Changes a set like `epoll_ctl(2)`.
///
/// # Safety
/// As `epoll_ctl(2)`.
pub unsafe fn control(set_fd: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    let known = set::get(set_fd);
    if let Some(set) = known.filter(|set| set.stashed() > 0) {
        set.drop_aside(fd);
    }
    let is_known = table::has(fd)
        || is_set(fd)
        || known.is_some_and(|set| set.has(fd))
        || operation == EPOLL_CTL_ADD && (may_be_connected(fd) || nested::found(fd));
    if !is_known || set_fd as usize >= MOST || set_fd == fd {
        // SAFETY: the caller's own arguments.
        return unsafe { registration::control(set_fd, operation, fd, event) };
    }
    let is_readable = memory::allows(BufferUse::Read, event.cast(), size_of::<epoll_event>());
    if !is_readable && operation != EPOLL_CTL_DEL {
        return fail(libc::EFAULT);
    }
    if known.is_none() && !registration::is_set(set_fd) {
        // The kernel rejects the call.
        // SAFETY: the caller's own arguments.
        return unsafe { registration::control(set_fd, operation, fd, event) };
    }
    // SAFETY: the caller's event, which was found readable; it is a packed structure.
    if is_set(fd) && is_readable && unsafe { event.read_unaligned() }.events & EXCLUSIVE != 0 {
        return fail(libc::EINVAL);
    }
    let set = known.or_else(|| set::find_or_make(set_fd)).expect("the descriptor is low enough");
    let none = epoll_event { events: 0, u64: 0 };
    // SAFETY: the caller's event, which was found readable; it is a packed structure.
    let wanted = if !is_readable { none } else { unsafe { event.read_unaligned() } };
    let done = set.change(operation, fd, wanted, |slot| {
        registration::register(set_fd, operation, fd, slot.map_or(wanted, registration::carried))
    });
    if done == 0 && operation != EPOLL_CTL_DEL {
        track(fd);
        set.share(set_fd, Some(fd));
    }
    done
}

/// Returns whether a descriptor is a stream socket that may be connected later. A program may register it in an `epoll` set before it is
/// connected.
fn may_be_connected(fd: c_int) -> bool {
    let before = kernel::errno();
    let is_stream = kernel::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM)
        && kernel::option(fd, libc::SOL_SOCKET, libc::SO_ACCEPTCONN) == Some(0);
    kernel::fail(before);
    is_stream
}

/// Registers a socket as a carried socket in all `epoll` sets that contain it, because the socket now has an area.
pub(crate) fn joined(fd: c_int) {
    // Do not hold the lock meanwhile: the broker is asked for a wakeup, and other threads that register sockets would give up.
    for set_fd in set::list_soon().unwrap_or_default() {
        let Some(set) = set::get(set_fd) else { continue };
        let is_spent = || registration::is_spent(set_fd, fd);
        let is_carried = set.carry(fd, is_spent, |slot| {
            let real = registration::carried(slot);
            let change = |operation| registration::register(set_fd, operation, fd, real) == 0;
            // A registration with `EPOLLEXCLUSIVE` cannot be changed, so it is replaced by a new one.
            change(EPOLL_CTL_MOD) || change(EPOLL_CTL_DEL) && change(EPOLL_CTL_ADD)
        });
        if is_carried {
            set.share(set_fd, Some(fd));
        }
    }
}

/// Forgets a descriptor that is about to be closed or replaced. It may be an `epoll` set, or a socket that is registered in `epoll` sets.
pub(crate) fn forget(fd: c_int) {
    if let Some(set) = set::get(fd) {
        set::put(fd, None);
        let mut list = set::list();
        list.retain(|&one| one != fd);
        let is_it = |other: Option<&Set>| other.is_some_and(|other| std::ptr::eq(other, set));
        let is_last = !list.iter().any(|&other| is_it(set::get(other)));
        if is_last && let Some(wakeup) = set.last_wakeup() {
            wakeup.give_back();
        }
    }
    nested::forget(fd);
    if ends_tracking(fd) {
        let copy = table::copy_of(fd);
        if let Some(copy) = copy {
            track(copy);
        }
        for &set in set::list().iter() {
            if set::get(set).is_some_and(|set| set.remove(fd, copy)) {
                // The program has deleted this registration, but a copy of the descriptor would keep it in the kernel.
                registration::delete(set, fd);
            }
        }
    }
}

/// Leaves all `epoll` sets to the kernel. No socket in them is carried any more. A set that is registered in another set gets the program's
/// own registration again.
pub(crate) fn forget_all() {
    let all = set::list().clone();
    for &fd in &all {
        release(fd, || {});
    }
    set::list().clear();
    for fd in all {
        if let Some(set) = set::get(fd) {
            if let Some(wakeup) = set.last_wakeup() {
                registration::delete(fd, wakeup.fd);
            }
            set::put(fd, None);
        }
    }
}

/// Leaves the registrations of a descriptor in `epoll` sets to the kernel. After they are deleted and before they are made again, `change`
/// may make the descriptor refer to another socket.
pub(crate) fn release(fd: c_int, change: impl FnOnce()) {
    let sets = set::list().clone();
    let mut registered = Vec::new();
    for set_fd in sets {
        if let Some(event) = set::get(set_fd).and_then(|set| set.release(fd)) {
            registration::delete(set_fd, fd);
            registered.extend(event.map(|event| (set_fd, event)));
        }
    }
    change();
    for (set_fd, event) in registered {
        registration::register(set_fd, EPOLL_CTL_ADD, fd, event);
    }
}

/// Forgets the `epoll` sets and the registered descriptors in a range that is about to be closed.
pub(crate) fn forget_range(first: u32, last: u32) {
    let found: Vec<c_int> =
        set::list().iter().copied().filter(|&fd| (first..=last).contains(&(fd as u32))).collect();
    found.into_iter().for_each(forget);
    let last = last.min(MOST as u32 - 1);
    let is_tracked = |fd: &u32| TRACKED[*fd as usize / 64].load(Ordering::Acquire) >> (fd % 64) & 1 != 0;
    (first..=last).filter(is_tracked).for_each(|fd| forget(fd as c_int));
}

/// Notes that `to` is now a duplicate of the descriptor `from`, which may be an `epoll` set.
pub(crate) fn duplicate(from: c_int, to: c_int) {
    if !is_set(from) && !table::has(from) {
        // A set that is still unknown becomes known once a carried socket is registered in it. Its copies must be known by then.
        nested::found(from);
    }
    if let Some(set) = set::get(from)
        && (to as usize) < MOST
    {
        set::put(to, Some(set));
        set::list().push(to);
    }
}

/// Waits for events like `epoll_pwait2(2)`. Without a timeout it waits forever.
///
/// # Safety
/// As `epoll_pwait2(2)`: there is room for `most` events, and the mask is null or of the kernel's size.
pub unsafe fn wait(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    let Some(set) = set::get(set_fd).filter(|_| most > 0 && !events.is_null()) else {
        // SAFETY: the caller's promise.
        return unsafe { registration::wait(set_fd, events, most, timeout, mask) };
    };
    if !memory::allows(BufferUse::Write, events.cast(), size_of::<epoll_event>()) {
        // SAFETY: the caller's promise.
        return unsafe { wait_in_vain(set_fd, events, most, timeout, mask) };
    }
    // SAFETY: the caller has room for `most` events.
    let room = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    if timeout == Some(Duration::ZERO) {
        return look(set, set_fd, room);
    }
    loop {
        if set.any() && set.owes_kernel_a_look(KERNEL_EVERY) {
            // Ask the kernel before reporting these events, because it may have further events of the same sockets.
            let found = look(set, set_fd, room);
            if found != 0 {
                return found;
            }
        }
        let found = set.collect(room);
        if found > 0 {
            set.share(set_fd, None);
            return found as isize;
        }
        let begin = Instant::now();
        if set.carried() > 0 && set.patience.spin(|| set.any()) {
            continue;
        }
        // Count as asleep before the check that follows, so that a thread that changes the set later notices this one.
        let asleep = set.fall_asleep();
        if set.carried() > 0 {
            set.arm(set.wakeup(set_fd));
            fence(Ordering::SeqCst);
            if set.any() {
                continue;
            }
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let nap =
            left.unwrap_or(NAP).min(if set.carried() > 0 { NAP } else { left.unwrap_or(Duration::MAX) });
        let nap = if set.carried() == 0 && left.is_none() { None } else { Some(nap) };
        // SAFETY: the caller's promise.
        let got = unsafe { registration::wait(set_fd, events, most, nap, mask) };
        drop(asleep);
        set.patience.learn(begin.elapsed());
        if got < 0 {
            return got;
        }
        let (kept, before) = set.note_all(room, got as usize);
        let found = kept + set.collect(&mut room[kept..]);
        // Put the events of carried sockets at the place of the kernel's event that woke for them.
        room[before..found].rotate_left(kept - before);
        if found > 0 {
            set.share(set_fd, None);
        }
        if found > 0 || deadline.is_some_and(|end| Instant::now() >= end) {
            return found as isize;
        }
    }
}

/// Waits for events when the program's buffer for events cannot be accessed. Like the kernel, it fails once there is an event, or at once
/// if the address is outside the program's address space.
///
/// # Safety
/// As [`wait`], except for the memory for events.
unsafe fn wait_in_vain(
    set_fd: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    // SAFETY: the kernel checks the address.
    let got = unsafe { registration::wait(set_fd, events, most, Some(Duration::ZERO), std::ptr::null()) };
    if got < 0 {
        return got;
    }
    let mut one = [libc::pollfd { fd: set_fd, events: libc::POLLIN, revents: 0 }];
    // SAFETY: the caller's mask.
    match unsafe { poll::poll(&mut one, timeout, mask) } {
        1.. => fail(libc::EFAULT),
        other => other,
    }
}

/// Completes a wait that began before this library knew the `epoll` set. A thread may have registered a carried socket meanwhile, whose
/// events carry a number of this library. `got` is the number of events that the kernel reported, and `begin` is when the wait began.
///
/// # Safety
/// As [`wait`].
pub unsafe fn finish(
    set_fd: c_int,
    events: *mut epoll_event,
    (most, got): (c_int, c_int),
    (begin, timeout): (Instant, Option<Duration>),
    mask: *const c_void,
) -> isize {
    let Some(set) = set::get(set_fd).filter(|_| got > 0) else { return got as isize };
    // SAFETY: the caller has room for `most` events.
    let room = unsafe { std::slice::from_raw_parts_mut(events, most as usize) };
    let (kept, _) = set.note_all(room, got as usize);
    let found = kept + set.collect(&mut room[kept..]);
    if found > 0 {
        return found as isize;
    }
    let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
    // SAFETY: the caller's promise.
    unsafe { wait(set_fd, events, most, left, mask) }
}

/// Reports all current events, without waiting.
fn look(set: &Set, fd: c_int, room: &mut [epoll_event]) -> isize {
    // If events of other descriptors used all of the room the last time, carried sockets come first this time.
    let first = if set.is_their_turn() { set.collect(room) } else { 0 };
    let rest = &mut room[first..];
    if rest.is_empty() {
        return first as isize;
    }
    let got = registration::take(fd, rest);
    if got < 0 {
        return if first > 0 { first as isize } else { got };
    }
    let (kept, _) = set.note_all(rest, got as usize);
    set.gives_turn(kept == rest.len());
    let found = first + kept + if first > 0 { 0 } else { set.collect(&mut rest[kept..]) };
    if found > 0 {
        set.share(fd, None);
    }
    found as isize
}
