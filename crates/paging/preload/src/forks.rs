//! Forks: because a fork copies the address space, all pages must be in the program at that moment.

use crate::next;
use std::ffi::{c_int, c_long, c_void};
#[cfg(target_arch = "x86_64")]
use unrack_pager::fast;
use unrack_pager::{attached, blocking, gate, pins};

/// Returns whether this process has a pager thread. In fast mode there is no such thread, and the pager prepares forks at the system calls
/// instead.
pub(crate) fn is_blocking() -> bool {
    #[cfg(target_arch = "x86_64")]
    if fast::is_wanted() {
        return false;
    }
    attached::control().is_some() && !gate::is_local()
}

pub(crate) extern "C" fn before_fork() {
    gate::close();
}

pub(crate) extern "C" fn after_fork() {
    gate::open();
}

pub(crate) extern "C" fn in_child() {
    pins::pin_this_thread();
    // SAFETY: this runs in the child of a fork, after `before_fork`.
    unsafe { blocking::start_in_child() };
}

/// Runs `fork`, a call that bypasses the handlers of `pthread_atfork`, between the same handlers.
pub(crate) fn around<T: Copy + PartialEq + Default>(fork: impl FnOnce() -> T) -> T {
    if !is_blocking() {
        return fork();
    }
    before_fork();
    let result = fork();
    if result == T::default() {
        in_child()
    } else {
        after_fork()
    }
    result
}

/// Wraps `_Fork(3)`, a fork that does not call the handlers of `pthread_atfork`.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> libc::pid_t {
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn() -> libc::pid_t = unsafe { next::FORK.get() };
    around(|| next())
}

/// Returns whether a system call with this number and this first argument is a fork.
pub(crate) fn is_fork(number: c_long, first: c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_fork {
        return true;
    }
    let copies_memory = |flags: u64| flags & libc::CLONE_VM as u64 == 0;
    match number {
        libc::SYS_clone => copies_memory(first as u64),
        // SAFETY: the first argument points to `struct clone_args`, which begins with the flags.
        libc::SYS_clone3 if first != 0 => copies_memory(unsafe { *(first as *const u64) }),
        _ => false,
    }
}

struct ForkStart {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// Wraps `clone(2)`, which is a fork if the child does not share memory.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    type Clone = extern "C" fn(
        extern "C" fn(*mut c_void) -> c_int,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: Clone = unsafe { next::CLONE.get() };
    if flags & libc::CLONE_VM != 0 || !is_blocking() {
        return next(function, stack, flags, argument, parent_tid, tls, child_tid);
    }
    extern "C" fn begin_child(start: *mut c_void) -> c_int {
        // SAFETY: this is the child's copy of the parent's frame below.
        let ForkStart { function, argument } = unsafe { std::ptr::read(start as *const ForkStart) };
        in_child();
        function(argument)
    }
    let start = ForkStart { function, argument };
    before_fork();
    let child =
        next(begin_child, stack, flags, (&raw const start) as *mut c_void, parent_tid, tls, child_tid);
    after_fork();
    child
}
