//! Calls on memory whose effect under a pager differs from the effect that the program expects.

use crate::forks::is_blocking;
use crate::next;
use std::ffi::{c_int, c_void};
use unrack_pager::{attached, gate};

/// Wraps `mlockall(2)`, which would lock pages that the pager has to evict. The call is accepted and ignored, because the results of a
/// program do not depend on it.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(flags: c_int) -> c_int {
    if attached::control().is_some() && !gate::is_local() {
        return 0;
    }
    // SAFETY: this is its type in <sys/mman.h>.
    let next: extern "C" fn(c_int) -> c_int = unsafe { next::MLOCKALL.get() };
    next(flags)
}

/// Wraps `mremap(2)`. The kernel refuses a range of several mappings, and the pager may have split one mapping in two. Therefore the
/// wrapper has the pager merge the parts, and tries again.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mremap(
    old: *mut c_void,
    old_len: usize,
    new_len: usize,
    flags: c_int,
    new: *mut c_void,
) -> *mut c_void {
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: extern "C" fn(*mut c_void, usize, usize, c_int, *mut c_void) -> *mut c_void =
        unsafe { next::MREMAP.get() };
    let result = next(old, old_len, new_len, flags, new);
    // SAFETY: this is the thread's own error number.
    let refused = result == libc::MAP_FAILED && unsafe { *libc::__errno_location() } == libc::EFAULT;
    if !refused || !is_blocking() {
        return result;
    }
    gate::merge(old as usize, old_len);
    next(old, old_len, new_len, flags, new)
}
