//! Creation of connections: this library notes the descriptors that `connect`, `accept` and `socketpair` return.

use crate::{ask, kernel, request, silence, table};
use libc::c_int;

/// Notes that a descriptor is connected, or is about to be. A further call for the same descriptor has no effect.
pub fn connected(fd: c_int) {
    let ask_at = ask::first();
    if ask_at == u32::MAX {
        return request::say_why_not();
    }
    if fd >= 0 && !table::has(fd) {
        let before = kernel::errno();
        table::insert(fd, kernel::is_nonblocking(fd), ask_at);
        kernel::fail(before);
    }
}

/// Notes a new descriptor that is already connected.
pub fn accepted(fd: c_int, nonblocking: bool) {
    let ask_at = ask::first();
    if ask_at == u32::MAX {
        return request::say_why_not();
    }
    if fd >= 0 {
        table::insert(fd, nonblocking, ask_at);
    }
}

/// Takes over the connections that were carried by the program which ran in this process before `exec`.
pub fn inherited() {
    if ask::first() == u32::MAX {
        return;
    }
    silence::prepare();
    let Ok(open) = std::fs::read_dir("/proc/self/fd") else { return };
    let numbers: Vec<c_int> =
        open.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for fd in numbers {
        if kernel::option(fd, libc::SOL_SOCKET, libc::SO_TYPE) == Some(libc::SOCK_STREAM) {
            ask::again(fd);
        }
    }
}
