//! Beginnings of connections: what `connect`, `accept` and `socketpair` made.

use crate::{ask, kernel, table};
use libc::c_int;

/// Notes a descriptor that is connected, or about to be. A later call for the same one changes nothing.
pub fn connected(fd: c_int) {
    let ask_at = ask::first();
    if ask_at != u32::MAX && fd >= 0 && !table::has(fd) {
        let before = kernel::errno();
        table::insert(fd, kernel::is_nonblocking(fd), ask_at);
        kernel::fail(before);
    }
}

/// Notes a descriptor that is new, and connected.
pub fn accepted(fd: c_int, nonblocking: bool) {
    let ask_at = ask::first();
    if ask_at != u32::MAX && fd >= 0 {
        table::insert(fd, nonblocking, ask_at);
    }
}
