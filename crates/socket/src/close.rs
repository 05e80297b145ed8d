//! Copies and ends of descriptors and of processes.

use crate::area::{Look, Phase};
use crate::table::{self, Entry};
use crate::{bell, description, epoll, kernel, lock, send, wait};
use libc::{c_int, linger};
use std::sync::atomic::Ordering;

/// Notes that a descriptor is about to be closed, or replaced by `dup2`.
pub fn closing(fd: c_int) {
    epoll::forget(fd);
    let Some(entry) = table::get(fd) else { return };
    part(&entry, fd);
    table::remove(fd);
}

/// Tells the other end that this one is closed, if no other descriptor of it is left.
pub(crate) fn part(entry: &Entry, fd: c_int) {
    let Some(link) = entry.link().filter(|_| is_last(entry, 1)) else { return };
    let link = &link;
    link.head.ends[link.end].closed.store(1, Ordering::Release);
    link.inward.signals().gone.store(1, Ordering::SeqCst);
    send::wake_sender(link);
    // Wake bytes that lie there unread would be lost bytes to the kernel, which then resets the connection.
    link.inward.signals().want_data.store(0, Ordering::SeqCst);
    if matches!(link.inward.phase(), Phase::Ring | Phase::Over) {
        wait::drain(link, fd);
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
    lock::forget_thread_number();
    description::forget_free();
    bell::in_child();
}
