//! System calls by number, and `prctl`: some of these calls fork or set filters, and then the pager has to act as well.

use crate::forks::{around, is_blocking, is_fork};
use crate::{next, sandbox};
use std::ffi::{c_int, c_long, c_ulong};
use unrack_pager::{attached, gate};

/// Wraps `syscall(2)`, because a program may fork through it.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long =
        unsafe { next::SYSCALL.get() };
    let call = || next(number, a, b, c, d, e, f);
    if number == libc::SYS_userfaultfd
        && !gate::is_local()
        && let Some(control) = attached::control()
    {
        gate::die_of_own_pager(control);
    }
    match number {
        _ if is_fork(number, a) => around(call),
        _ if !is_blocking() => call(),
        libc::SYS_seccomp if a == libc::SECCOMP_SET_MODE_FILTER as c_long => {
            sandbox::seccomp(b, |flags| next(number, a, flags, c, d, e, f))
        }
        libc::SYS_prctl if sandbox::is_filter(a as c_int) => sandbox::filter(call),
        _ => call(),
    }
}

/// Wraps `prctl(2)`, because a program may filter its system calls through it.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int =
        unsafe { next::PRCTL.get() };
    let call = || next(option, a, b, c, d);
    if is_blocking() && sandbox::is_filter(option) {
        return sandbox::filter(|| call().into()) as c_int;
    }
    call()
}
