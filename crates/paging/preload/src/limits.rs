//! The limit on address space (`RLIMIT_AS`). The kernel counts the more than 300 GiB that the pager reserves, but the program's limit
//! should apply to the program's own memory only. Therefore this module raises the limit by the pager's amount when the program sets it,
//! and subtracts that amount when the program reads it.

use crate::next;
use libc::rlimit;
use std::ffi::{c_int, c_uint};
use unrack_pager::{attached, reserved_region};

/// Bytes that the kernel counts although the program does not know about them.
const RESERVED: u64 = reserved_region::LEN as u64;

fn is_counted(resource: libc::c_uint) -> bool {
    resource == libc::RLIMIT_AS as libc::c_uint && attached::control().is_some()
}

/// Returns the limits to set in the kernel so that the program gets the limits that it requested.
fn raised(resource: libc::c_uint, asked: rlimit) -> rlimit {
    match is_counted(resource) {
        true => rlimit { rlim_cur: more(asked.rlim_cur), rlim_max: more(asked.rlim_max) },
        false => asked,
    }
}

/// Returns the kernel's limits as the program should see them.
fn lowered(resource: libc::c_uint, kernels: rlimit) -> rlimit {
    match is_counted(resource) {
        true => rlimit { rlim_cur: less(kernels.rlim_cur), rlim_max: less(kernels.rlim_max) },
        false => kernels,
    }
}

fn more(limit: u64) -> u64 {
    // Infinity is the largest limit, so it cannot be raised.
    if limit == libc::RLIM_INFINITY { limit } else { limit.saturating_add(RESERVED) }
}

fn less(limit: u64) -> u64 {
    // If a limit is smaller than the pager's amount, it was not set through this module.
    match limit.checked_sub(RESERVED) {
        Some(less) if limit != libc::RLIM_INFINITY => less,
        _ => limit,
    }
}

/// Wraps `setrlimit(2)`: see [the module](self).
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: this is its type in <sys/resource.h>.
    let next: extern "C" fn(c_uint, *const rlimit) -> c_int = unsafe { next::SETRLIMIT.get() };
    if limit.is_null() {
        return next(resource, limit);
    }
    // SAFETY: the caller guarantees a valid limit.
    let more = raised(resource, unsafe { *limit });
    next(resource, &more)
}

/// Wraps `setrlimit64`, which is equivalent to [`setrlimit`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: the caller guarantees the same as for `setrlimit`.
    unsafe { setrlimit(resource, limit) }
}

/// Wraps `getrlimit(2)`: see [the module](self).
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrlimit(resource: c_uint, limit: *mut rlimit) -> c_int {
    // SAFETY: this is its type in <sys/resource.h>.
    let next: extern "C" fn(c_uint, *mut rlimit) -> c_int = unsafe { next::GETRLIMIT.get() };
    let result = next(resource, limit);
    if result == 0 {
        // SAFETY: the call has just written there.
        unsafe { *limit = lowered(resource, *limit) };
    }
    result
}

/// Wraps `getrlimit64`, which is equivalent to [`getrlimit`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrlimit64(resource: c_uint, limit: *mut rlimit) -> c_int {
    // SAFETY: the caller guarantees the same as for `getrlimit`.
    unsafe { getrlimit(resource, limit) }
}

/// Wraps `prlimit(2)`: see [the module](self). Limits of other processes are passed on unchanged.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit(
    pid: libc::pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: this is its type in <sys/resource.h>.
    let next: extern "C" fn(libc::pid_t, c_uint, *const rlimit, *mut rlimit) -> c_int =
        unsafe { next::PRLIMIT.get() };
    if pid != 0 && pid != std::process::id() as libc::pid_t {
        return next(pid, resource, new, old);
    }
    // SAFETY: the caller guarantees that it is null or a limit.
    let more = unsafe { new.as_ref() }.map(|new| raised(resource, *new));
    let result = next(pid, resource, more.as_ref().map_or(std::ptr::null(), |new| new), old);
    // SAFETY: the caller guarantees that it is null, or the place that the call has just written.
    if let (0, Some(old)) = (result, unsafe { old.as_mut() }) {
        *old = lowered(resource, *old);
    }
    result
}

/// Wraps `prlimit64`, which is equivalent to [`prlimit`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prlimit64(
    pid: libc::pid_t,
    resource: c_uint,
    new: *const rlimit,
    old: *mut rlimit,
) -> c_int {
    // SAFETY: the caller guarantees the same as for `prlimit`.
    unsafe { prlimit(pid, resource, new, old) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_for_the_programs_own_and_infinity_stays() {
        for limit in [0, 400 << 20, libc::RLIM_INFINITY] {
            assert_eq!(less(more(limit)), limit);
        }
        assert_eq!(more(400 << 20), (400 << 20) + RESERVED);
        assert_eq!(less(400 << 20), 400 << 20, "not set through here");
    }
}
