//! Sets that are registered in sets, or polled: is one ready?
//!
//! The kernel calls a set ready as soon as one of its descriptors is, and that may be a bell, or a carried socket that only
//! wakes. So the kernel's events are taken out of such a set and looked at. Events of other descriptors that the kernel reports
//! once only (edge-triggered and one-shot ones) are put aside for the program's next wait; it reports the others again.

use super::{Set, get, in_kernel_wait, list, make, share, translate};
use libc::{EPOLLET, EPOLLONESHOT, c_int, epoll_event};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Most events that are taken at a time.
const ROOM: usize = 32;

/// True once an event was put aside.
static USED: AtomicBool = AtomicBool::new(false);

/// Returns true if a descriptor is a set.
pub(super) fn is_set(fd: c_int) -> bool {
    let before = crate::kernel::errno();
    let link = std::fs::read_link(format!("/proc/self/fd/{fd}"));
    crate::kernel::fail(before);
    link.is_ok_and(|link| link.as_os_str() == "anon_inode:[eventpoll]")
}

/// Returns true if a descriptor is a set, which is known from now on.
pub(super) fn found(fd: c_int) -> bool {
    let is_set = is_set(fd);
    if is_set && (fd as usize) < super::MOST && get(fd).is_none() {
        make(fd);
    }
    is_set
}

/// Takes the kernel's events out of a set. Returns true if there are some of other descriptors than carried sockets.
pub(super) fn take_in(fd: c_int, set: &Set) -> bool {
    let mut room = [epoll_event { events: 0, u64: 0 }; ROOM];
    // SAFETY: room of our own.
    let got = unsafe {
        in_kernel_wait(fd, room.as_mut_ptr(), ROOM as c_int, Some(Duration::ZERO), std::ptr::null())
    };
    if got <= 0 {
        return false;
    }
    let (kept, _) = translate(set, &mut room, got as usize);
    if kept > 0 {
        put_aside(fd, set, &room[..kept]);
    }
    // A thread that is asleep in the set may have been woken for what was taken.
    share(set, fd, None);
    kept > 0
}

/// Returns true if a set is ready: as [`poll(2)`] would say if the kernel carried all sockets.
pub(super) fn is_ready(fd: c_int) -> bool {
    get(fd).is_some_and(|set| take_in(fd, set) || set.any())
}

/// Puts aside what the kernel will not report again.
fn put_aside(fd: c_int, set: &Set, events: &[epoll_event]) {
    let registered = registered(fd);
    let once = (EPOLLET | EPOLLONESHOT) as u32;
    for event in events {
        let is_it = |one: &&Registered| one.data == event.u64 && one.mask & once != 0;
        if let Some(one) = registered.iter().find(is_it) {
            USED.store(true, Ordering::Relaxed);
            set.put_aside(one.fd, *event);
        }
    }
}

/// Forgets events of a descriptor that is about to be closed.
pub(super) fn forget(fd: c_int) {
    if USED.load(Ordering::Relaxed) {
        list().iter().filter_map(|&set| get(set)).filter(|set| set.stashed() > 0).for_each(|set| set.drop_aside(fd));
    }
}

/// Registration of a descriptor, as the kernel has it.
pub(super) struct Registered {
    pub(super) fd: c_int,
    pub(super) mask: u32,
    data: u64,
}

/// Reads the registrations of a set (`proc_pid_fdinfo(5)`).
pub(super) fn registered(set_fd: c_int) -> Vec<Registered> {
    let Ok(path) = std::ffi::CString::new(format!("/proc/self/fdinfo/{set_fd}")) else { return Vec::new() };
    String::from_utf8_lossy(&crate::kernel::read_whole(&path)).lines().filter_map(parse).collect()
}

/// Reads `tfd: FD events: MASK data: NUMBER ..`, the last two in hexadecimal.
fn parse(line: &str) -> Option<Registered> {
    let mut words = line.split_whitespace();
    let (name, fd) = (words.next()?, words.next()?.parse().ok()?);
    let mask = u32::from_str_radix(words.nth(1)?, 16).ok()?;
    let data = u64::from_str_radix(words.nth(1)?, 16).ok()?;
    (name == "tfd:").then_some(Registered { fd, mask, data })
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
