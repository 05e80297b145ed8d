//! Wrappers of the calls that wait for readiness.

use crate::next;
use libc::{c_int, c_ulong, c_void, epoll_event, fd_set, pollfd, sigset_t, timespec, timeval};
use std::time::{Duration, Instant};
use unrack_socket::memory::{self, BufferUse};
use unrack_socket::{epoll, kernel, poll as sockets};

fn milliseconds(most: c_int) -> Option<Duration> {
    u64::try_from(most).ok().map(Duration::from_millis)
}

/// Converts a timeout; `None` if it is null. Fails if the time is invalid.
///
/// # Safety
/// `time` is null or a time.
pub(crate) unsafe fn from_timespec(time: *const timespec) -> Result<Option<Duration>, ()> {
    // SAFETY: the caller's promise.
    let Some(time) = (unsafe { time.as_ref() }) else { return Ok(None) };
    match (u64::try_from(time.tv_sec), u32::try_from(time.tv_nsec)) {
        (Ok(seconds), Ok(nanos @ 0..1_000_000_000)) => Ok(Some(Duration::new(seconds, nanos))),
        _ => Err(()),
    }
}

/// Wraps `poll(2)`.
///
/// # Safety
/// As `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn poll(fds: *mut pollfd, count: c_ulong, most: c_int) -> c_int {
    // SAFETY: the caller's descriptors.
    if unsafe { !concerns(fds, count) } {
        // SAFETY: the caller's own arguments.
        return unsafe { next::poll(fds, count, most) };
    }
    // SAFETY: the caller's own arguments.
    unsafe { poll_for(fds, count, milliseconds(most), std::ptr::null()) }
}

/// Wraps `ppoll(2)`.
///
/// # Safety
/// As `ppoll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn ppoll(
    fds: *mut pollfd,
    count: c_ulong,
    most: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    // SAFETY: the caller's descriptors.
    if unsafe { !concerns(fds, count) } {
        // SAFETY: the caller's own arguments.
        return unsafe { next::ppoll(fds, count, most, mask) };
    }
    // SAFETY: the caller's time.
    match unsafe { from_timespec(most) } {
        // SAFETY: the caller's own arguments.
        Ok(most) => unsafe { poll_for(fds, count, most, mask.cast()) },
        Err(()) => kernel::fail(libc::EINVAL) as c_int,
    }
}

/// Wraps `__poll_chk`, which replaces `poll` under `_FORTIFY_SOURCE`.
///
/// # Safety
/// As `poll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __poll_chk(
    fds: *mut pollfd,
    count: c_ulong,
    most: c_int,
    _room: usize,
) -> c_int {
    // SAFETY: the caller's own arguments.
    unsafe { poll(fds, count, most) }
}

/// Wraps `__ppoll_chk`, which replaces `ppoll` under `_FORTIFY_SOURCE`.
///
/// # Safety
/// As `ppoll(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __ppoll_chk(
    fds: *mut pollfd,
    count: c_ulong,
    most: *const timespec,
    mask: *const sigset_t,
    _room: usize,
) -> c_int {
    // SAFETY: the caller's own arguments.
    unsafe { ppoll(fds, count, most, mask) }
}

/// Returns whether one of the descriptors is a carried socket (whose bytes pass by reference), or an epoll set that contains such a socket.
///
/// # Safety
/// As `poll(2)`.
unsafe fn concerns(fds: *const pollfd, count: c_ulong) -> bool {
    let bytes = (count as usize).saturating_mul(size_of::<pollfd>());
    if count == 0 || count > 1 << 20 || !memory::allows(BufferUse::Write, fds.cast(), bytes) {
        return false;
    }
    // SAFETY: the caller's descriptors.
    sockets::concerns(unsafe { std::slice::from_raw_parts(fds, count as usize) })
}

/// # Safety
/// As `poll(2)`; the descriptors can be accessed.
unsafe fn poll_for(fds: *mut pollfd, count: c_ulong, most: Option<Duration>, mask: *const c_void) -> c_int {
    // SAFETY: the caller's descriptors.
    let fds = unsafe { std::slice::from_raw_parts_mut(fds, count as usize) };
    // SAFETY: the caller's mask.
    unsafe { sockets::poll(fds, most, mask) as c_int }
}

/// Wraps `select(2)`.
///
/// # Safety
/// As `select(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn select(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    others: *mut fd_set,
    most: *mut timeval,
) -> c_int {
    let sets = [reads, writes, others];
    if !any_of(count, sets) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::select(count, reads, writes, others, most) };
    }
    // SAFETY: the caller's time.
    let time = match unsafe { most.as_ref() } {
        None => None,
        Some(time) if time.tv_sec < 0 || time.tv_usec < 0 => return kernel::fail(libc::EINVAL) as c_int,
        Some(time) => Some(Duration::new(time.tv_sec as u64, 0) + Duration::from_micros(time.tv_usec as u64)),
    };
    let begin = Instant::now();
    // SAFETY: the caller's sets.
    let found = unsafe { sockets::select(count, sets, time, std::ptr::null()) as c_int };
    if let Some(time) = time {
        let left = time.saturating_sub(begin.elapsed());
        // Linux returns the time that is left (select(2), "Notes").
        let left = timeval { tv_sec: left.as_secs() as _, tv_usec: left.subsec_micros() as _ };
        // SAFETY: the caller's time.
        unsafe { most.write(left) };
    }
    found
}

/// Wraps `pselect(2)`.
///
/// # Safety
/// As `pselect(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pselect(
    count: c_int,
    reads: *mut fd_set,
    writes: *mut fd_set,
    others: *mut fd_set,
    most: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    let sets = [reads, writes, others];
    if !any_of(count, sets) {
        // SAFETY: the caller's own arguments.
        return unsafe { next::pselect(count, reads, writes, others, most, mask) };
    }
    // SAFETY: the caller's time.
    match unsafe { from_timespec(most) } {
        // SAFETY: the caller's sets.
        Ok(most) => unsafe { sockets::select(count, sets, most, mask.cast()) as c_int },
        Err(()) => kernel::fail(libc::EINVAL) as c_int,
    }
}

/// Returns whether one of the sets contains a socket that may be carried.
fn any_of(count: c_int, sets: [*mut fd_set; 3]) -> bool {
    let bytes = (count.max(0) as usize).div_ceil(8);
    if sets.iter().any(|set| !set.is_null() && !memory::allows(BufferUse::Write, set.cast(), bytes)) {
        // The kernel reports this error.
        return false;
    }
    (0..count.max(0)).any(|fd| {
        let is_ours = unrack_socket::has(fd) || epoll::is_set(fd);
        // SAFETY: the caller's sets have a bit for each descriptor below `count`.
        is_ours && sets.iter().any(|set| !set.is_null() && unsafe { sockets::is_set(*set, fd) })
    })
}

/// Wraps `epoll_ctl(2)`.
///
/// # Safety
/// As `epoll_ctl(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_ctl(
    set: c_int,
    operation: c_int,
    fd: c_int,
    event: *mut epoll_event,
) -> c_int {
    // SAFETY: the caller's own arguments.
    unsafe { epoll::control(set, operation, fd, event) as c_int }
}

/// Wraps `epoll_wait(2)`.
///
/// # Safety
/// As `epoll_wait(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_wait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    most: c_int,
) -> c_int {
    if !epoll::is_set(set) {
        let begin = Instant::now();
        // SAFETY: the caller's own arguments.
        let got = unsafe { next::epoll_wait(set, events, room, most) };
        // SAFETY: the caller's own arguments.
        return unsafe {
            epoll::finish(set, events, (room, got), (begin, milliseconds(most)), std::ptr::null()) as c_int
        };
    }
    // SAFETY: the caller's own arguments.
    unsafe { epoll::wait(set, events, room, milliseconds(most), std::ptr::null()) as c_int }
}

/// Wraps `epoll_pwait(2)`.
///
/// # Safety
/// As `epoll_pwait(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    most: c_int,
    mask: *const sigset_t,
) -> c_int {
    if !epoll::is_set(set) {
        let begin = Instant::now();
        // SAFETY: the caller's own arguments.
        let got = unsafe { next::epoll_pwait(set, events, room, most, mask) };
        // SAFETY: the caller's own arguments.
        return unsafe {
            epoll::finish(set, events, (room, got), (begin, milliseconds(most)), mask.cast()) as c_int
        };
    }
    // SAFETY: the caller's own arguments.
    unsafe { epoll::wait(set, events, room, milliseconds(most), mask.cast()) as c_int }
}

/// Wraps `epoll_pwait2(2)`.
///
/// # Safety
/// As `epoll_pwait2(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn epoll_pwait2(
    set: c_int,
    events: *mut epoll_event,
    room: c_int,
    most: *const timespec,
    mask: *const sigset_t,
) -> c_int {
    if !epoll::is_set(set) {
        let begin = Instant::now();
        // SAFETY: the caller's own arguments.
        let got = unsafe { next::epoll_pwait2(set, events, room, most, mask) };
        // SAFETY: the caller's time. The kernel has read it if there are events.
        let most = unsafe { from_timespec(most) }.unwrap_or(None);
        // SAFETY: the caller's own arguments.
        return unsafe { epoll::finish(set, events, (room, got), (begin, most), mask.cast()) as c_int };
    }
    // SAFETY: the caller's time.
    match unsafe { from_timespec(most) } {
        // SAFETY: the caller's own arguments.
        Ok(most) => unsafe { epoll::wait(set, events, room, most, mask.cast()) as c_int },
        Err(()) => kernel::fail(libc::EINVAL) as c_int,
    }
}
