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
use crate::table::{self, Entry, Link};
use crate::{close, epoll, kernel, send, wait};
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
    let Some(entry) = table::get(fd) else { return true };
    close::stay(&entry);
    let Some(link) = entry.link() else { return true };
    let before = kernel::errno();
    let held = link.lock_recv();
    link.inward.freeze();
    let is_kernels = is_in_kernel(&entry, &link, fd);
    send::leave(&entry, &link, fd);
    drop(held);
    let is_done = is_kernels || relay::replace(&entry, fd);
    kernel::fail(before);
    is_done
}

/// Hands a socket to the kernel as [`take_back`] does, and forgets it: no call on it needs more than the kernel afterwards.
pub fn give_up(fd: c_int) -> bool {
    if !take_back(fd) {
        return false;
    }
    if let Some(entry) = table::get(fd) {
        if let Some(link) = entry.link() {
            send::pay_all(&link, fd);
        }
        let same = table::same(&entry);
        if entry.link().is_some() && close::is_last(&entry, same.len()) {
            close::mark_closed(&entry);
        }
        for fd in same {
            epoll::release(fd, || {});
            table::remove(fd);
        }
    }
    true
}

/// Hands all sockets of this process to the kernel, and has all later ones stay there: the process is about to give up calls
/// that this library needs. Returns false if one cannot be handed over.
pub fn give_up_all() -> bool {
    crate::ask::stop();
    let mut found = Vec::new();
    table::for_each(|fd, _| found.push(fd));
    let is_done = found.into_iter().all(give_up);
    epoll::forget_all();
    is_done
}

/// Prepares the sockets that a program may have which is about to begin, as `is_passed` says of each descriptor. `has_library`
/// says whether it will have this library, and so can receive from the rings. Returns false if a socket cannot be handed over.
pub fn before_program(has_library: impl FnOnce() -> bool, is_passed: impl Fn(c_int) -> bool) -> bool {
    let mut found = Vec::new();
    table::for_each(|fd, entry| {
        if entry.link().is_some() && is_passed(fd) {
            found.push(fd);
        }
    });
    let has_library = !found.is_empty() && has_library();
    found.into_iter().all(|fd| has_library && can_go_on(fd) || take_back(fd))
}

/// Returns true if a program with this library can receive what is in the ring: the broker knows of it.
fn can_go_on(fd: c_int) -> bool {
    let Some(entry) = table::get(fd) else { return true };
    let Some(link) = entry.link() else { return true };
    let is_needed = link.inward.phase() == Phase::Ring && matches!(link.inward.look(), Look::Bytes(_));
    is_needed && crate::ask::is_known(fd)
}

/// Returns true if the kernel's connection has, or gets, all that was not received, and nothing else. The lock of the receiving
/// end is held, and the direction frozen.
fn is_in_kernel(entry: &Entry, link: &Link<'_>, fd: c_int) -> bool {
    let begin = link.inward.begin();
    let is_before_ring = link.inward.phase() == Phase::Agreed
        && begin != UNSET
        && entry.description().received.load(Ordering::Acquire) < begin;
    match link.inward.phase() {
        Phase::Kernel => return true,
        Phase::Agreed if begin == UNSET => {}
        // What comes after these bytes cannot be taken in before them.
        Phase::Agreed if is_before_ring => {
            if link.inward.look() != Look::Ended || link.inward.wakes() > 0 {
                return false;
            }
        }
        Phase::Agreed | Phase::Ring | Phase::Over => {
            if let Look::Bytes(bytes) = link.inward.look()
                && !is_returned(link, fd, bytes)
            {
                return false;
            }
            if !takes_all_wakes(link, fd) {
                return false;
            }
        }
    }
    link.inward.set_phase(Phase::Over);
    true
}

/// Takes in all wake bytes that were counted. Returns false if some do not come: the other end could not send them, or was
/// stopped before it did.
fn takes_all_wakes(link: &Link<'_>, fd: c_int) -> bool {
    let deadline = Instant::now() + PATIENCE;
    loop {
        wait::drain(link, fd);
        let wakes = link.inward.wakes();
        if wakes == 0 || has_hung_up(fd) && kernel::readable(fd) == 0 {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(LOOK);
    }
}

/// Has the other end send what is in the ring through the kernel, so many bytes. Returns whether it sent all; what it sent of
/// fewer is skipped.
fn is_returned(link: &Link<'_>, fd: c_int, bytes: usize) -> bool {
    if has_hung_up(fd) {
        return false;
    }
    let state = &link.inward.signals().revert;
    state.store(revert::RETURN, Ordering::SeqCst);
    send::wake_for_return(link, fd);
    let deadline = Instant::now() + PATIENCE;
    loop {
        wait::drain(link, fd);
        // The other end may hand its own socket on as well.
        send::settle(link, fd);
        match state.load(Ordering::Acquire) {
            revert::RETURNED => break,
            revert::RETURNING if has_hung_up(fd) => {
                // It was killed meanwhile: all that it sent after the wake bytes is in the ring, too.
                wait::drain(link, fd);
                link.inward.skip_more(kernel::readable(fd) as u64);
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
    let returned = link.inward.writer().returned.load(Ordering::Acquire);
    if returned == bytes as u64 {
        link.inward.discard(bytes);
        return true;
    }
    link.inward.skip_more(returned.min(bytes as u64));
    false
}

/// Returns true if the other end can send no more through the kernel.
fn has_hung_up(fd: c_int) -> bool {
    let mut one = [libc::pollfd { fd, events: libc::POLLRDHUP, revents: 0 }];
    // SAFETY: no mask.
    unsafe { kernel::poll(&mut one, Some(Duration::ZERO), std::ptr::null()) };
    one[0].revents & (libc::POLLRDHUP | libc::POLLHUP | libc::POLLERR) != 0
}
