//! `poll` and `select` for carried sockets, mixed with any other descriptors.

use crate::epoll::{nested, set};
use crate::kernel::{self, fail};
use crate::patience::SpinTime;
use crate::ready::{self, PollBits};
use crate::table;
use crate::wakeup::{self, SocketWakeup};
use libc::{POLLIN, POLLRDHUP, c_int, c_void, fd_set, pollfd};
use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

/// Longest sleep before all descriptors are checked again.
const NAP: Duration = Duration::from_secs(1);
/// Longest sleep of a caller that waits for room which the other end cannot announce, because the other end's direction has not begun.
const SHORT_NAP: Duration = Duration::from_millis(10);

static PATIENCE: SpinTime = SpinTime::new();

/// Returns whether a descriptor in the list is a carried socket, or an `epoll` set that contains one.
pub fn concerns(fds: &[pollfd]) -> bool {
    fds.iter().any(|one| table::is_carried(one.fd) || set::has_carried(one.fd))
}

/// Polls descriptors like `ppoll(2)`. Without a timeout it waits forever.
///
/// # Safety
/// `mask` is null or a signal set of the kernel's size.
pub unsafe fn poll(fds: &mut [pollfd], timeout: Option<Duration>, mask: *const c_void) -> isize {
    if !concerns(fds) {
        // SAFETY: the caller's promise.
        return unsafe { kernel::poll(fds, timeout, mask) };
    }
    let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
    let mut asked = Vec::with_capacity(fds.len() + 1);
    asked.extend_from_slice(fds);
    // The last entry is for the wakeup of this thread.
    asked.push(pollfd { fd: -1, events: POLLIN, revents: 0 });
    loop {
        if evaluate(fds, &mut asked, None) > 0 || timeout == Some(Duration::ZERO) {
            // SAFETY: the mask is null.
            let ready = unsafe { kernel::poll(&mut asked, Some(Duration::ZERO), std::ptr::null()) };
            return if ready < 0 { ready } else { translate(fds, &asked) };
        }
        let begin = Instant::now();
        if PATIENCE.spin(|| fds.iter().any(has_news)) {
            continue;
        }
        let wakeup = SocketWakeup::of_thread();
        if evaluate(fds, &mut asked, Some(wakeup)) > 0 {
            release(fds);
            continue;
        }
        let last = asked.len() - 1;
        asked[last].fd = wakeup.map_or(-1, |wakeup| wakeup.fd);
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        let nap = if asks_for_unannounced(fds) { SHORT_NAP } else { NAP };
        // SAFETY: the caller's promise.
        let ready = unsafe { kernel::poll(&mut asked, Some(left.unwrap_or(nap).min(nap)), mask) };
        release(fds);
        asked[last].fd = -1;
        if let Some(wakeup) = wakeup
            && asked[last].revents != 0
        {
            wakeup.clear();
        }
        PATIENCE.learn(begin.elapsed());
        if ready < 0 {
            return ready;
        }
        let found = translate(fds, &asked);
        if found > 0
            || left.is_some_and(|left| left <= nap) && deadline.is_some_and(|end| Instant::now() >= end)
        {
            return found;
        }
    }
}

fn has_news(one: &pollfd) -> bool {
    if set::has_carried(one.fd) {
        return one.events & ready::READS != 0 && set::any(one.fd);
    }
    let Some(socket) = table::get(one.fd) else { return false };
    socket.carried().is_some_and(|carried| PollBits::of(&carried, one.events).now != 0)
}

/// Fills in the events that this library knows, and the events that the kernel is to be asked for. Returns the number of ready descriptors.
/// With `sleep`, the caller is also registered to be woken, through the given wakeup if there is one, and counts as asleep until
/// [`release`].
fn evaluate(fds: &mut [pollfd], asked: &mut [pollfd], sleep: Option<Option<SocketWakeup>>) -> usize {
    let mut found = 0;
    for (one, ask) in fds.iter_mut().zip(asked.iter_mut()) {
        (one.revents, ask.events) = (0, one.events);
        if set::has_carried(one.fd) {
            if sleep.is_some() {
                set::arm(one.fd);
            }
            one.revents = if set::any(one.fd) { one.events & ready::READS } else { 0 };
        } else if let Some(socket) = table::get(one.fd)
            && let Some(carried) = socket.carried()
        {
            let mut ready = PollBits::of(&carried, one.events);
            if let Some(wakeup) = sleep {
                let alone = carried.this_end().sleepers.fetch_add(1, Ordering::SeqCst) == 0;
                wakeup::state(carried.this_end(), wakeup, false, alone);
                // Drain before requesting a wakeup. Otherwise the wake byte that answers the request could be drained too.
                if ready.rings_in {
                    carried.drain();
                }
                ready.arm(&carried, one.events);
                fence(Ordering::SeqCst);
                ready = PollBits::of(&carried, one.events);
            }
            one.revents = ready.now;
            ask.events = to_kernel(&ready);
        }
        found += usize::from(one.revents != 0);
    }
    found
}

fn to_kernel(ready: &PollBits) -> libc::c_short {
    let wakes = ready.rings_in || ready.rings_out;
    ready.kernel | if wakes { POLLIN | POLLRDHUP } else { 0 }
}

/// Ends the sleep that `evaluate` began.
fn release(fds: &[pollfd]) {
    for one in fds.iter().filter(|one| !set::has_carried(one.fd)) {
        if let Some(socket) = table::get(one.fd)
            && let Some(carried) = socket.carried()
        {
            let sleepers = &carried.this_end().sleepers;
            let _ = sleepers.fetch_update(Ordering::SeqCst, Ordering::Relaxed, |n| n.checked_sub(1));
        }
    }
}

/// Adds the events that the kernel reported. Returns the number of ready descriptors.
fn translate(fds: &mut [pollfd], asked: &[pollfd]) -> isize {
    let mut found = 0;
    for (one, ask) in fds.iter_mut().zip(asked) {
        let reported = ask.revents;
        let socket = table::get(one.fd);
        one.revents |= match socket.as_ref().and_then(|socket| socket.carried()) {
            Some(carried) if reported != 0 => ready::after_wake(&carried, one.events, reported),
            Some(carried) => PollBits::of(&carried, one.events).now,
            None if set::has_carried(one.fd) => {
                let is_ready = match reported & ready::READS {
                    0 => set::any(one.fd),
                    _ => nested::is_ready(one.fd),
                };
                if is_ready { one.events & ready::READS } else { 0 }
            }
            None => reported,
        };
        found += isize::from(one.revents != 0);
    }
    found
}

/// Returns whether the caller waits for room on a socket whose other end cannot wake it through the kernel.
fn asks_for_unannounced(fds: &[pollfd]) -> bool {
    fds.iter().any(|one| {
        one.events & ready::WRITES != 0
            && table::get(one.fd).is_some_and(|socket| {
                let end = socket.carried();
                end.is_some_and(|end| end.out.is_ring() && !end.inward.has_begun())
            })
    })
}

/// Selects descriptors like `pselect(2)`.
///
/// # Safety
/// The sets are null or have at least `count` bits; `mask` as for [`poll`].
pub unsafe fn select(
    count: c_int,
    sets: [*mut fd_set; 3],
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    let mut fds = Vec::new();
    for fd in 0..count.max(0) {
        let mut events = 0;
        for (set, bits) in sets.iter().zip(SELECTS) {
            // SAFETY: the set has a bit for each descriptor below `count`.
            if !set.is_null() && unsafe { is_set(*set, fd) } {
                events |= bits.0;
            }
        }
        if events != 0 {
            fds.push(pollfd { fd, events, revents: 0 });
        }
    }
    // SAFETY: the caller's promise.
    let ready = unsafe { poll(&mut fds, timeout, mask) };
    if ready < 0 {
        return ready;
    }
    if fds.iter().any(|one| one.revents & libc::POLLNVAL != 0) {
        return fail(libc::EBADF);
    }
    let mut found = 0;
    for (set, (asks, holds)) in sets.iter().zip(SELECTS) {
        for one in &fds {
            // SAFETY: the set has a bit for each descriptor below `count`.
            if one.events & asks != 0 && !set.is_null() && unsafe { is_set(*set, one.fd) } {
                let is_ready = one.revents & holds != 0;
                // SAFETY: the set has a bit for each descriptor below `count`.
                unsafe { put(*set, one.fd, is_ready) };
                found += isize::from(is_ready);
            }
        }
    }
    found
}

/// For each of the three sets: the events to poll for, and the events that mean ready (`select(2)`, "Correspondence between select() and
/// poll() notifications").
const SELECTS: [(libc::c_short, libc::c_short); 3] = [
    (POLLIN | libc::POLLRDNORM, POLLIN | libc::POLLRDNORM | libc::POLLRDBAND | libc::POLLHUP | libc::POLLERR),
    (ready::WRITES, ready::WRITES | libc::POLLWRBAND | libc::POLLERR),
    (libc::POLLPRI, libc::POLLPRI),
];

/// Bits of a word of a set, as the kernel defines it. A set may be longer than the C library's type.
const BITS: usize = usize::BITS as usize;

/// Returns whether a set of `select(2)` contains a descriptor.
///
/// # Safety
/// The set has a bit for the descriptor.
pub unsafe fn is_set(set: *mut fd_set, fd: c_int) -> bool {
    // SAFETY: the caller's promise.
    let word = unsafe { *set.cast::<usize>().add(fd as usize / BITS) };
    word >> (fd as usize % BITS) & 1 != 0
}

/// # Safety
/// As [`is_set`].
unsafe fn put(set: *mut fd_set, fd: c_int, value: bool) {
    // SAFETY: the caller's promise.
    let word = unsafe { &mut *set.cast::<usize>().add(fd as usize / BITS) };
    let bit = 1 << (fd as usize % BITS);
    *word = if value { *word | bit } else { *word & !bit };
}
