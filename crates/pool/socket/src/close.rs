//! Copies and ends of descriptors and of processes.

use crate::area::{Look, Phase};
use crate::table::{self, Entry, Link};
use crate::{bell, description, epoll, kernel, lock, send, wait};
use libc::{c_int, linger};
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// Looks for wake bytes that are on their way to an end that is closed.
const LAST_LOOKS: u32 = 100;
/// Time between two of them.
const LOOK: Duration = Duration::from_micros(50);

/// Notes that a descriptor is about to be closed, or replaced by `dup2`.
pub fn closing(fd: c_int) {
    if EXITING.load(Ordering::Acquire) {
        // It was counted as closed.
        return;
    }
    epoll::forget(fd);
    let Some(entry) = table::get(fd) else { return };
    part(&entry, fd);
    table::remove(fd);
}

/// Tells the other end that this one is closed, if no other descriptor of it is left.
pub(crate) fn part(entry: &Entry, fd: c_int) {
    if let Some(link) = entry.link().filter(|_| is_last(entry, 1)) {
        say_closed(&link, fd);
    }
}

/// Tells the other end that this one is closed.
fn say_closed(link: &Link<'_>, fd: c_int) {
    link.head.ends[link.end].closed.store(1, Ordering::Release);
    link.inward.signals().gone.store(1, Ordering::SeqCst);
    send::wake_sender(link);
    // Wake bytes that lie there unread would be lost bytes to the kernel, which then resets the connection.
    link.inward.signals().want_data.store(0, Ordering::SeqCst);
    if matches!(link.inward.phase(), Phase::Ring | Phase::Over) {
        take_in_last_wakes(link, fd);
    }
    // As the kernel does when bytes are lost: the connection is reset.
    if matches!(link.inward.look(), Look::Bytes(_)) {
        let now = linger { l_onoff: 1, l_linger: 0 };
        let bytes = size_of::<linger>();
        // SAFETY: the kernel reads a structure of our own.
        unsafe {
            libc::syscall(libc::SYS_setsockopt, fd, libc::SOL_SOCKET, libc::SO_LINGER, &raw const now, bytes)
        };
    }
}

/// Takes wake bytes in that were counted and are on their way. The other end counts, sees that this one is gone, and sends none.
fn take_in_last_wakes(link: &Link<'_>, fd: c_int) {
    fence(Ordering::SeqCst);
    for _ in 0..LAST_LOOKS {
        wait::drain(link, fd);
        if link.inward.wakes() as u64 <= link.inward.writer().owed.load(Ordering::Acquire) {
            break;
        }
        std::thread::sleep(LOOK);
    }
}

/// True once this process has noted that it exits.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Notes that the process exits, by which the kernel closes all of its descriptors. It resets a connection with bytes that
/// nobody received, so the wake bytes are taken in, which are none of the program's. Connections can still be used: functions
/// of the program may run yet.
pub fn exiting() {
    if EXITING.swap(true, Ordering::AcqRel) {
        return;
    }
    table::for_each(|fd, entry| {
        let is_last = description::release(entry.description()) && entry.is_shared.load(Ordering::Relaxed) == 0;
        match entry.link() {
            Some(link) if is_last => say_closed(&link, fd),
            Some(link) if matches!(link.inward.phase(), Phase::Ring | Phase::Over) => {
                wait::drain(&link, fd);
            }
            _ => {}
        }
    });
}

/// Closes descriptors from one to another, as `close_range(2)` is about to.
pub fn closing_range(first: u32, last: u32) {
    let mut found = Vec::new();
    table::for_each(|fd, _| {
        if (first..=last).contains(&(fd as u32)) {
            found.push(fd);
        }
    });
    found.into_iter().for_each(closing);
    epoll::forget_range(first, last);
}

/// Notes that directions are about to be shut down: the kernel carries from now on.
pub fn shutting(fd: c_int, how: c_int) {
    leave(fd);
    if how != libc::SHUT_WR
        && let Some(entry) = table::get(fd)
        && let Some(link) = entry.link()
    {
        // Whoever sleeps is woken by the kernel.
        link.inward.signals().want_data.store(0, Ordering::SeqCst);
    }
}

/// Leaves a socket to the kernel for good, since something is asked that cannot be done by reference.
pub fn leave(fd: c_int) {
    let Some(entry) = table::get(fd) else { return };
    stay(&entry);
    if let Some(link) = entry.link() {
        send::leave(&entry, &link, fd);
    }
}

/// Notes that a socket stays with the kernel, or goes back to it, for good.
pub(crate) fn stay(entry: &Entry) {
    entry.description().never.store(1, Ordering::Release);
    entry.description().ask_at.store(u32::MAX, Ordering::Relaxed);
}

/// Returns true if no process has a descriptor of a socket, but for so many of this one.
pub(crate) fn is_last(entry: &Entry, own: usize) -> bool {
    entry.description().holders.load(Ordering::Acquire) as usize <= own
        && entry.is_shared.load(Ordering::Relaxed) == 0
}

/// Lets the broker have the memory back, once the other end is closed as well.
pub(crate) fn mark_closed(entry: &Entry) {
    if let Some(link) = entry.link() {
        link.this_end().closed.store(1, Ordering::Release);
    }
}

/// Notes a copy of a descriptor.
pub fn duplicated(from: c_int, to: c_int) {
    if from != to && to >= 0 {
        table::duplicate(from, to);
        epoll::duplicate(from, to);
    }
}

/// Notes that calls on a descriptor do not wait, or do.
pub fn nonblocking(fd: c_int, is_so: bool) {
    if let Some(entry) = table::get(fd) {
        entry.description().nonblocking.store(u32::from(is_so), Ordering::Relaxed);
    }
}

/// Counts descriptors for the child of a fork that is about to be made.
pub fn before_fork() {
    table::count_for_child(true);
}

/// Takes the count back: the fork failed.
pub fn fork_failed() {
    let before = kernel::errno();
    table::count_for_child(false);
    kernel::fail(before);
}

/// Begins in the child of a fork.
pub fn in_child() {
    EXITING.store(false, Ordering::Release);
    lock::forget_thread_number();
    description::forget_free();
    bell::in_child();
}
