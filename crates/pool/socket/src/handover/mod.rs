//! Handing sockets over: to a program that starts with them, to a process that receives them, or to the kernel.
//!
//! The next user of a socket may lack this library, and would then read from the kernel only. Therefore, before a socket is handed over,
//! all bytes that were not received must become readable from the kernel. The process cannot rely on the other end for this, because the
//! other end may be busy, stopped, shut down, closed or dead. Therefore this end freezes its direction, which makes the counts of bytes
//! final. The bytes that then remain determine how the socket is handed over:
//!
//! | remaining bytes | the socket that is handed over |
//! |---|---|
//! | no bytes in the ring and no wake bytes | the kernel's connection itself |
//! | bytes in the ring, and the other end sends them through the kernel within [`PATIENCE`] | the kernel's connection itself |
//! | any other case | one end of a new connection, whose other end belongs to a [`relay`] |

mod relay;

use crate::area::{RingReading, ByteSource, UNSET, revert};
use crate::carried::CarriedEnd;
use crate::{ask, epoll, kernel, table, uring};
use libc::c_int;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Longest wait for the other end to send the bytes of the ring through the kernel.
const PATIENCE: Duration = Duration::from_millis(100);
/// Time between two checks whether the other end has done so.
const LOOK: Duration = Duration::from_micros(50);

/// Hands a socket to the kernel for good, with all bytes that were not received, because its next user may be a process without this
/// library. The socket keeps its descriptor numbers in this process. Returns false if this fails because no relay process can be created
/// for the remaining bytes.
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

/// Hands a socket to the kernel as [`take_back`] does, and forgets it. Later calls on it go straight to the kernel.
pub fn give_up(fd: c_int) -> bool {
    if !take_back(fd) {
        return false;
    }
    let Some(socket) = table::get(fd) else { return true };
    let same = socket.descriptors();
    if let Some(carried) = socket.carried() {
        // Wait for room now, because no later call on this socket does.
        let _ = carried.pay(false);
        if socket.is_last(same.len()) {
            // The broker can free the area once the other end is closed as well.
            carried.this_end().closed.store(1, Ordering::Release);
        }
    }
    for fd in same {
        epoll::release(fd, || {});
        table::remove(fd);
    }
    true
}

/// Hands all sockets of this process to the kernel, and leaves all later ones there, because the process is about to give up system calls
/// that this library needs. Returns false if a socket cannot be handed over.
pub fn give_up_all() -> bool {
    ask::stop();
    let is_done = table::all(|_| true).into_iter().all(give_up);
    epoll::forget_all();
    is_done
}

/// Hands all sockets of this process to the kernel, because the program is about to make an `io_uring`.
pub fn before_uring() {
    for fd in table::all(|_| true) {
        // A socket for which no relay can be made stays by reference, although an `io_uring` cannot access its ring. `set_used` prints a
        // warning.
        let _ = take_back(fd);
    }
    uring::set_used();
}

/// Prepares the sockets that a new program inherits; `is_passed` returns whether it inherits a descriptor. `has_library` returns whether
/// the program will have this library, and can therefore receive from the rings. Returns false if a socket cannot be handed over.
pub fn before_program(has_library: impl FnOnce() -> bool, is_passed: impl Fn(c_int) -> bool) -> bool {
    let found = table::all(|socket| socket.has_area() && is_passed(socket.fd));
    let has_library = !found.is_empty() && has_library();
    found.into_iter().all(|fd| has_library && can_go_on(fd) || take_back(fd))
}

/// Returns whether a program with this library can receive the bytes in the ring, because the broker knows the connection.
fn can_go_on(fd: c_int) -> bool {
    let Some(socket) = table::get(fd) else { return true };
    let Some(carried) = socket.carried() else { return true };
    let inward = &carried.inward;
    let is_needed = inward.phase() == ByteSource::Ring && matches!(inward.look(), RingReading::Bytes(_));
    is_needed && ask::is_known(fd)
}

/// Returns whether the kernel's connection contains, or now receives, exactly the bytes that were not received. The caller holds the
/// receive lock and has frozen the direction.
fn is_in_kernel(carried: &CarriedEnd<'_>) -> bool {
    let inward = &carried.inward;
    let begin = inward.begin();
    let is_before_ring = inward.phase() == ByteSource::Agreed
        && begin != UNSET
        && carried.entry.description().received.load(Ordering::Acquire) < begin;
    match inward.phase() {
        ByteSource::Kernel => return true,
        ByteSource::Agreed if begin == UNSET => {}
        // Wake bytes that follow these bytes cannot be received before them.
        ByteSource::Agreed if is_before_ring => {
            if inward.look() != RingReading::Ended || inward.wakes() > 0 {
                return false;
            }
        }
        ByteSource::Agreed | ByteSource::Ring | ByteSource::Over => {
            if let RingReading::Bytes(bytes) = inward.look()
                && !is_returned(carried, bytes)
            {
                return false;
            }
            if !takes_all_wakes(carried) {
                return false;
            }
        }
    }
    inward.set_phase(ByteSource::Over);
    true
}

/// Receives all wake bytes that were counted. Returns false if some do not arrive, because the other end could not send them or was stopped
/// before it did.
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

/// Asks the other end to send the `bytes` bytes of the ring through the kernel. Returns whether it sent all of them. If it sent fewer, this
/// end skips the sent bytes in the kernel, because they are still in the ring.
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
        // The other end may be handing over its own socket at the same time.
        carried.settle();
        match state.load(Ordering::Acquire) {
            revert::RETURNED => break,
            revert::RETURNING if has_hung_up(fd) => {
                // The other end was killed while it sent. All that it sent after the wake bytes is in the ring as well.
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

/// Returns whether the other end can no longer send through the kernel.
fn has_hung_up(fd: c_int) -> bool {
    kernel::events(fd, libc::POLLRDHUP) & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}
