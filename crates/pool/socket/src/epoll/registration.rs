//! Registrations of descriptors in the kernel's `epoll` sets, and the calls that make them and wait for their events.
//!
//! Other descriptors are registered as the program asks. A carried socket is registered with a number of this library in place of the
//! program's data, and always with the same events.

use crate::kernel;
use libc::{
    EPOLL_CTL_DEL, EPOLLET, EPOLLIN, EPOLLONESHOT, EPOLLOUT, EPOLLPRI, EPOLLRDHUP, c_int, c_void, epoll_event,
    timespec,
};
use std::ptr::null_mut;
use std::sync::OnceLock;
use std::time::Duration;

/// Maximum number of sockets of one set that can be carried.
const MOST_SLOTS: usize = 1 << 20;
/// Slot number of the wakeup of an `epoll` set, in the same number space as the slots of sockets.
pub(super) const WAKEUP: usize = MOST_SLOTS - 1;
/// Flags of a registration that are not events: `EPOLLWAKEUP` and `EPOLLEXCLUSIVE`.
const PRIVATE: u32 = 1 << 29 | 1 << 28;

/// Returns the first of the numbers under which carried sockets are registered. They are addresses that this library has reserved, so that
/// no program uses them as data.
fn numbers() -> u64 {
    static NUMBERS: OnceLock<u64> = OnceLock::new();
    *NUMBERS.get_or_init(|| {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
        // SAFETY: new address space that is never touched.
        unsafe { libc::mmap(null_mut(), MOST_SLOTS, libc::PROT_NONE, flags, -1, 0) as u64 }
    })
}

/// Returns the number under which a slot is registered.
pub(super) fn number(slot: usize) -> u64 {
    numbers() + slot as u64
}

/// Returns the slot that is registered under a number, if this library assigned the number.
pub(super) fn slot_of(number: u64) -> Option<usize> {
    let slot = number.wrapping_sub(numbers());
    (slot < MOST_SLOTS as u64).then_some(slot as usize)
}

/// Returns the kernel's registration for the carried socket in a slot.
pub(super) fn carried(slot: usize) -> epoll_event {
    epoll_event {
        events: (EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET) as u32,
        u64: number(slot),
    }
}

/// Calls `epoll_ctl(2)`.
///
/// # Safety
/// As `epoll_ctl(2)`.
pub(super) unsafe fn control(set: c_int, operation: c_int, fd: c_int, event: *mut epoll_event) -> isize {
    // SAFETY: the caller's promise.
    unsafe { libc::syscall(libc::SYS_epoll_ctl, set, operation, fd, event) as isize }
}

/// Adds a registration, or changes one.
pub(super) fn register(set: c_int, operation: c_int, fd: c_int, mut event: epoll_event) -> isize {
    // SAFETY: a local event.
    unsafe { control(set, operation, fd, &raw mut event) }
}

/// Deletes a registration.
pub(super) fn delete(set: c_int, fd: c_int) -> isize {
    // SAFETY: no event is needed.
    unsafe { control(set, EPOLL_CTL_DEL, fd, null_mut()) }
}

/// Calls `epoll_pwait2(2)`.
///
/// # Safety
/// As `epoll_pwait2(2)`.
pub(super) unsafe fn wait(
    set: c_int,
    events: *mut epoll_event,
    most: c_int,
    timeout: Option<Duration>,
    mask: *const c_void,
) -> isize {
    let time = timeout.map(kernel::to_timespec);
    let time = time.as_ref().map_or(std::ptr::null(), |time| time as *const timespec);
    // SAFETY: the caller's promise.
    let got =
        unsafe { libc::syscall(libc::SYS_epoll_pwait2, set, events, most, time, mask, kernel::SIGSET_BYTES) };
    if got >= 0 || kernel::errno() != libc::ENOSYS {
        return got as isize;
    }
    // Linux before 5.11 has no `epoll_pwait2`: use milliseconds, rounded up, as the C library does.
    let most_ms =
        timeout.map_or(-1, |time| time.as_nanos().div_ceil(1_000_000).min(i32::MAX as u128) as c_int);
    // SAFETY: the caller's room and mask.
    unsafe {
        libc::syscall(libc::SYS_epoll_pwait, set, events, most, most_ms, mask, kernel::SIGSET_BYTES) as isize
    }
}

/// Takes the events that the kernel has, without waiting.
pub(super) fn take(set: c_int, room: &mut [epoll_event]) -> isize {
    // SAFETY: the slice is the room for events.
    unsafe { wait(set, room.as_mut_ptr(), room.len() as c_int, Some(Duration::ZERO), std::ptr::null()) }
}

/// Returns whether a descriptor is a set.
pub(super) fn is_set(fd: c_int) -> bool {
    let before = kernel::errno();
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    kernel::fail(before);
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
}

/// Registration of a descriptor in the kernel.
pub(super) struct RegisteredDescriptor {
    pub(super) fd: c_int,
    pub(super) mask: u32,
    pub(super) data: u64,
}

/// Reads the registrations of a set (`proc_pid_fdinfo(5)`).
pub(super) fn registered(set_fd: c_int) -> Vec<RegisteredDescriptor> {
    let Ok(path) = std::ffi::CString::new(format!("/proc/self/fdinfo/{set_fd}")) else { return Vec::new() };
    String::from_utf8_lossy(&kernel::read_whole(&path)).lines().filter_map(parse).collect()
}

/// Parses `tfd: FD events: MASK data: NUMBER ..`, where the last two are hexadecimal.
fn parse(line: &str) -> Option<RegisteredDescriptor> {
    let mut words = line.split_whitespace();
    let (name, fd) = (words.next()?, words.next()?.parse().ok()?);
    let mask = u32::from_str_radix(words.nth(1)?, 16).ok()?;
    let data = u64::from_str_radix(words.nth(1)?, 16).ok()?;
    (name == "tfd:").then_some(RegisteredDescriptor { fd, mask, data })
}

/// Returns whether the kernel has reported the event of a descriptor's one-shot registration. After the event, only flags are left in the
/// registration.
pub(super) fn is_spent(set_fd: c_int, fd: c_int) -> bool {
    let flags = (EPOLLONESHOT | EPOLLET) as u32 | PRIVATE;
    registered(set_fd).iter().any(|one| one.fd == fd && one.mask & !flags == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn registrations_are_read() {
        let one = parse("tfd:        5 events: 80000019 data: ffffffffffffffff  pos:0 ino:61 sdev:7").expect("one");
        assert_eq!((one.fd, one.mask, one.data), (5, 0x8000_0019, u64::MAX));
        for wrong in ["pos:\t0", "flags:\t02", "tfd: 5 events: x data: 1", ""] {
            assert!(parse(wrong).is_none(), "{wrong}");
        }
    }
}
