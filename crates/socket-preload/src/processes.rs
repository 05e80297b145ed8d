//! Calls that make processes.

use crate::Next;
use libc::{c_void, pid_t};
use unrack_socket::close as ends;

static FORK: Next = Next::new(c"fork");

/// Wraps `fork(2)`: both processes keep their connections.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> pid_t {
    type Function = unsafe extern "C" fn() -> pid_t;
    ends::before_fork();
    let next = FORK.get();
    let made = if next.is_null() {
        // SAFETY: a call without arguments.
        unsafe { libc::syscall(libc::SYS_fork) as pid_t }
    } else {
        // SAFETY: the C library's function of that name.
        unsafe { std::mem::transmute::<*mut c_void, Function>(next)() }
    };
    match made {
        0 => ends::in_child(),
        ..0 => ends::fork_failed(),
        _ => {}
    }
    made
}

/// Wraps `vfork(2)`: as `fork`, since the child would otherwise change what this library knows of the parent's descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> pid_t {
    fork()
}
