//! Duplication and closing of descriptors, forks, and exits of processes.

use crate::area::{RingReading, ByteSource};
use crate::carried::CarriedEnd;
use crate::table::{self, Socket};
use crate::{description, epoll, kernel, lock, wakeup};
use libc::c_int;
use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::time::Duration;

/// Number of checks for wake bytes that are in flight to an end that is being closed.
const LAST_LOOKS: u32 = 100;
/// Time between two of these checks.
const LOOK: Duration = Duration::from_micros(50);

/// Notes that a descriptor is about to be closed, or replaced by `dup2`.
pub fn closing(fd: c_int) {
    if EXITING.load(Ordering::Acquire) {
        // `exiting` has already counted this descriptor as closed.
        return;
    }
    epoll::forget(fd);
    let Some(socket) = table::get(fd) else { return };
    part(&socket);
    table::remove(fd);
}

/// Announces to the other end that this end is closed, unless another descriptor of this end is left.
pub(crate) fn part(socket: &Socket) {
    if let Some(carried) = socket.carried().filter(|_| socket.is_last(1)) {
        announce_close(&carried);
    }
}

/// Announces to the other end that this end is closed.
fn announce_close(carried: &CarriedEnd<'_>) {
    let inward = &carried.inward;
    carried.this_end().closed.store(1, Ordering::Release);
    // Pairs with the load of `gone` in `CarriedEnd::wake`.
    inward.signals().gone.store(1, Ordering::SeqCst);
    carried.wake_sender();
    // The kernel resets a connection that is closed with bytes unread. To the kernel, unread wake bytes are such bytes.
    inward.signals().want_data.store(0, Ordering::SeqCst);
    if matches!(inward.phase(), ByteSource::Ring | ByteSource::Over) {
        take_in_last_wakes(carried);
    }
    // The kernel also resets a connection when bytes are lost.
    if matches!(inward.look(), RingReading::Bytes(_)) {
        kernel::reset_at_end(carried.fd);
    }
}

/// Receives wake bytes that the other end has counted and that are still in flight. The other end counts a byte first, then sees that this
/// end is gone, and does not send it.
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

/// True once this process has announced that it exits.
static EXITING: AtomicBool = AtomicBool::new(false);

/// Prepares for the exit of the process, in which the kernel closes all descriptors. The wake bytes are received now, because the kernel
/// would reset a connection with unread bytes, although these bytes are not the program's. Connections remain usable, because functions of
/// the program may still run.
pub fn exiting() {
    if EXITING.swap(true, Ordering::AcqRel) {
        return;
    }
    table::for_each(|socket| {
        let is_last = socket.description().release() && socket.is_shared.load(Ordering::Relaxed) == 0;
        match socket.carried() {
            Some(carried) if is_last => announce_close(&carried),
            Some(carried) if matches!(carried.inward.phase(), ByteSource::Ring | ByteSource::Over) => {
                carried.drain();
            }
            _ => {}
        }
    });
}

/// Notes that `close_range(2)` is about to close the descriptors from `first` to `last`.
pub fn closing_range(first: u32, last: u32) {
    let found = table::all(|socket| (first..=last).contains(&(socket.fd as u32)));
    found.into_iter().for_each(closing);
    epoll::forget_range(first, last);
}

/// Notes that directions of a socket are about to be shut down. The kernel carries the connection from now on.
pub fn shutting(fd: c_int, how: c_int) {
    leave(fd);
    if how != libc::SHUT_WR
        && let Some(socket) = table::get(fd)
        && let Some(carried) = socket.carried()
    {
        // The kernel wakes the threads that sleep.
        carried.inward.signals().want_data.store(0, Ordering::SeqCst);
    }
}

/// Leaves a socket to the kernel for good, because the program asked for something that cannot be done by reference.
pub fn leave(fd: c_int) {
    if let Some(socket) = table::get(fd) {
        socket.leave();
    }
}

/// Notes that `to` is now a duplicate of the descriptor `from`.
pub fn duplicated(from: c_int, to: c_int) {
    if from != to && to >= 0 {
        table::duplicate(from, to);
        epoll::duplicate(from, to);
    }
}

/// Notes whether calls on a descriptor do not wait.
pub fn nonblocking(fd: c_int, is_so: bool) {
    if let Some(socket) = table::get(fd) {
        socket.description().nonblocking.store(u32::from(is_so), Ordering::Relaxed);
    }
}

/// Counts all descriptors once more, for the child of a fork that is about to be made.
pub fn before_fork() {
    table::count_for_child(true);
}

/// Reverts the counting of [`before_fork`], because the fork failed.
pub fn fork_failed() {
    let before = kernel::errno();
    table::count_for_child(false);
    kernel::fail(before);
}

/// Resets the state that must differ from the parent's, in the child of a fork.
pub fn in_child() {
    EXITING.store(false, Ordering::Release);
    lock::forget_thread_number();
    description::forget_free();
    wakeup::in_child();
}
