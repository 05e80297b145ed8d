//! Copies and ends of descriptors and of processes.

use crate::area::{Look, Phase};
use crate::carried::CarriedEnd;
use crate::table::{self, Socket};
use crate::{description, epoll, kernel, lock, wakeup};
use libc::c_int;
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
    let Some(socket) = table::get(fd) else { return };
    part(&socket);
    table::remove(fd);
}

/// Announces to the other end that this one is closed, if no other descriptor of it is left.
pub(crate) fn part(socket: &Socket) {
    if let Some(carried) = socket.carried().filter(|_| socket.is_last(1)) {
        announce_close(&carried);
    }
}

/// Announces to the other end that this one is closed.
fn announce_close(carried: &CarriedEnd<'_>) {
    let inward = &carried.inward;
    carried.this_end().closed.store(1, Ordering::Release);
    // Pairs with the look at it in `CarriedEnd::wake`.
    inward.signals().gone.store(1, Ordering::SeqCst);
    carried.wake_sender();
    // Wake bytes that lie there unread would be lost bytes to the kernel, which then resets the connection.
    inward.signals().want_data.store(0, Ordering::SeqCst);
    if matches!(inward.phase(), Phase::Ring | Phase::Over) {
        take_in_last_wakes(carried);
    }
    // As the kernel does when bytes are lost: the connection is reset.
    if matches!(inward.look(), Look::Bytes(_)) {
        kernel::reset_at_end(carried.fd);
    }
}

/// Takes wake bytes in that were counted and are on their way. The other end counts, sees that this one is gone, and sends none.
fn take_in_last_wakes(carried: &CarriedEnd<'_>) {
    fence(Ordering::SeqCst);
    for _ in 0..LAST_LOOKS {
        carried.drain();
        if carried.inward.wakes() as u64 <= carried.inward.writer().owed.load(Ordering::Acquire) {
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
    table::for_each(|socket| {
        let is_last = socket.description().release() && socket.is_shared.load(Ordering::Relaxed) == 0;
        match socket.carried() {
            Some(carried) if is_last => announce_close(&carried),
            Some(carried) if matches!(carried.inward.phase(), Phase::Ring | Phase::Over) => {
                carried.drain();
            }
            _ => {}
        }
    });
}

/// Closes descriptors from one to another, as `close_range(2)` is about to.
pub fn closing_range(first: u32, last: u32) {
    let found = table::all(|socket| (first..=last).contains(&(socket.fd as u32)));
    found.into_iter().for_each(closing);
    epoll::forget_range(first, last);
}

/// Notes that directions are about to be shut down: the kernel carries from now on.
pub fn shutting(fd: c_int, how: c_int) {
    leave(fd);
    if how != libc::SHUT_WR
        && let Some(socket) = table::get(fd)
        && let Some(carried) = socket.carried()
    {
        // Threads that sleep are woken by the kernel.
        carried.inward.signals().want_data.store(0, Ordering::SeqCst);
    }
}

/// Leaves a socket to the kernel for good, since something is asked that cannot be done by reference.
pub fn leave(fd: c_int) {
    if let Some(socket) = table::get(fd) {
        socket.leave();
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
    if let Some(socket) = table::get(fd) {
        socket.description().nonblocking.store(u32::from(is_so), Ordering::Relaxed);
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
    wakeup::in_child();
}
