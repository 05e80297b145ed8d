//! Handing sockets on: to a program that begins on them, to a process that they are passed to, to the kernel.
//!
//! What comes next on a socket may not have this library, and reads from the kernel only. So before a socket is handed on,
//! everything that was not received has to be readable there. The other end cannot be relied on for that: it may be busy,
//! stopped, or have shut down, closed or died. Therefore this end freezes its direction, which makes the sums of bytes final.
//! What is then left decides how the socket is handed on:
//!
//! | left | the socket that is handed on |
//! |---|---|
//! | nothing in the ring, no wake bytes | the kernel's connection itself |
//! | bytes in the ring, and the other end sends them through the kernel within [`PATIENCE`] | the same |
//! | anything else | one end of another connection, whose other end a [`relay`] has |

mod relay;

use crate::area::{Look, Phase, UNSET, revert};
use crate::carried::CarriedEnd;
use crate::{ask, epoll, kernel, table, uring};
use libc::c_int;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for the other end to send what is in the ring through the kernel.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time between two looks whether it has.
const LOOK: Duration = Duration::from_micros(50);

/// Hands a socket to the kernel for good, with all that was not received: a process may have it next that does not have this
/// library. This process's descriptors of it keep their numbers. Returns false if that cannot be done, because no process can
/// be made that relays what is left.
pub fn take_back(fd: c_int) -> bool {
    let Some(socket) = table::get(fd) else { return true };
    socket.stay();
    let Some(carried) = socket.carried() else { return true };
    let before = kernel::errno();
    let held = carried.lock_recv();
    carried.inward.freeze();
    let is_kernels = is_in_kernel(&carried);
    carried.leave();
    drop(held);
    let is_done = is_kernels || relay::replace(&socket);
    kernel::fail(before);
    is_done
}

/// Hands a socket to the kernel as [`take_back`] does, and forgets it: no call on it needs more than the kernel afterwards.
pub fn give_up(fd: c_int) -> bool {
    if !take_back(fd) {
        return false;
    }
    let Some(socket) = table::get(fd) else { return true };
    let same = socket.descriptors();
    if let Some(carried) = socket.carried() {
        // Waits for room, because no later call on this socket does.
        let _ = carried.pay(false);
        if socket.is_last(same.len()) {
            // The broker can have the memory back, once the other end is closed as well.
            carried.this_end().closed.store(1, Ordering::Release);
        }
    }
    for fd in same {
        epoll::release(fd, || {});
        table::remove(fd);
    }
    true
}

/// Hands all sockets of this process to the kernel, and leaves all later ones there: the process is about to give up calls that
/// this library needs. Returns false if one cannot be handed over.
pub fn give_up_all() -> bool {
    ask::stop();
    let is_done = table::all(|_| true).into_iter().all(give_up);
    epoll::forget_all();
    is_done
}

/// Hands all sockets of this process to the kernel, because the program is about to make an `io_uring`.
pub fn before_uring() {
    for fd in table::all(|_| true) {
        // One for which no relay can be made goes on by reference, and its ring is not seen: see the message.
        let _ = take_back(fd);
    }
    uring::set_used();
}

/// Prepares the sockets that a program may have which is about to begin, as `is_passed` says of each descriptor. `has_library`
/// says whether it will have this library, and so can receive from the rings. Returns false if a socket cannot be handed over.
pub fn before_program(has_library: impl FnOnce() -> bool, is_passed: impl Fn(c_int) -> bool) -> bool {
    let found = table::all(|socket| socket.has_area() && is_passed(socket.fd));
    let has_library = !found.is_empty() && has_library();
    found.into_iter().all(|fd| has_library && can_go_on(fd) || take_back(fd))
}

/// Returns true if a program with this library can receive what is in the ring: the broker knows of it.
fn can_go_on(fd: c_int) -> bool {
    let Some(socket) = table::get(fd) else { return true };
    let Some(carried) = socket.carried() else { return true };
    let inward = &carried.inward;
    let is_needed = inward.phase() == Phase::Ring && matches!(inward.look(), Look::Bytes(_));
    is_needed && ask::is_known(fd)
}

/// Returns true if the kernel's connection has, or gets, all that was not received, and nothing else. The lock of the receiving
/// end is held, and the direction frozen.
fn is_in_kernel(carried: &CarriedEnd<'_>) -> bool {
    let inward = &carried.inward;
    let begin = inward.begin();
    let is_before_ring = inward.phase() == Phase::Agreed
        && begin != UNSET
        && carried.entry.description().received.load(Ordering::Acquire) < begin;
    match inward.phase() {
        Phase::Kernel => return true,
        Phase::Agreed if begin == UNSET => {}
        // What comes after these bytes cannot be taken in before them.
        Phase::Agreed if is_before_ring => {
            if inward.look() != Look::Ended || inward.wakes() > 0 {
                return false;
            }
        }
        Phase::Agreed | Phase::Ring | Phase::Over => {
            if let Look::Bytes(bytes) = inward.look()
                && !is_returned(carried, bytes)
            {
                return false;
            }
            if !takes_all_wakes(carried) {
                return false;
            }
        }
    }
    inward.set_phase(Phase::Over);
    true
}

/// Takes in all wake bytes that were counted. Returns false if some do not come: the other end could not send them, or was
/// stopped before it did.
fn takes_all_wakes(carried: &CarriedEnd<'_>) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        carried.drain();
        let wakes = carried.inward.wakes();
        if wakes == 0 || has_hung_up(carried.fd) && kernel::readable(carried.fd) == 0 {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Makes the other end send what is in the ring through the kernel, so many bytes. Returns whether it sent all; what it sent of
/// fewer is skipped.
fn is_returned(carried: &CarriedEnd<'_>, bytes: usize) -> bool {
    let (fd, inward) = (carried.fd, &carried.inward);
    if has_hung_up(fd) {
        return false;
    }
    let state = &inward.signals().revert;
    state.store(revert::RETURN, Ordering::SeqCst);
    carried.wake_for_return();
    let deadline = Instant::now() + PATIENCE;
    loop {
        carried.drain();
        // The other end may hand its own socket on as well.
        carried.settle();
        match state.load(Ordering::Acquire) {
            revert::RETURNED => break,
            revert::RETURNING if has_hung_up(fd) => {
                // It was killed meanwhile: all that it sent after the wake bytes is in the ring, too.
                carried.drain();
                inward.skip_more(kernel::readable(fd) as u64);
                return false;
            }
            revert::RETURN if Instant::now() >= deadline => {
                let order = (Ordering::SeqCst, Ordering::Relaxed);
                if state.compare_exchange(revert::RETURN, revert::WISHED, order.0, order.1).is_ok() {
                    return false;
                }
            }
            _ => std::thread::sleep(LOOK),
        }
    }
    let returned = inward.writer().returned.load(Ordering::Acquire);
    if returned == bytes as u64 {
        inward.discard(bytes);
        return true;
    }
    inward.skip_more(returned.min(bytes as u64));
    false
}

/// Returns true if the other end can send no more through the kernel.
fn has_hung_up(fd: c_int) -> bool {
    kernel::events(fd, libc::POLLRDHUP) & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}
