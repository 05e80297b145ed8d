//! Starts of threads: the control block of a thread must not be evicted, because the kernel writes to it in situations where it cannot wait
//! for the pager.

use crate::forks::is_blocking;
use crate::next;
use std::ffi::{c_int, c_void};
use unrack_pager::pins;

struct ThreadStart {
    function: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
}

/// Wraps `pthread_create(3)`, because the new thread's control block must not be evicted.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pthread_create(
    thread: *mut libc::pthread_t,
    attributes: *const libc::pthread_attr_t,
    function: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
) -> c_int {
    type Create = extern "C" fn(
        *mut libc::pthread_t,
        *const libc::pthread_attr_t,
        extern "C-unwind" fn(*mut c_void) -> *mut c_void,
        *mut c_void,
    ) -> c_int;
    // SAFETY: this is its type in <pthread.h>.
    let next: Create = unsafe { next::PTHREAD_CREATE.get() };
    if !is_blocking() {
        return next(thread, attributes, function, argument);
    }
    extern "C-unwind" fn begin_thread(start: *mut c_void) -> *mut c_void {
        // SAFETY: made below, and passed to this thread alone.
        let start = unsafe { Box::from_raw(start as *mut ThreadStart) };
        let ThreadStart { function, argument } = *start;
        pins::pin_this_thread();
        function(argument)
    }
    let start = Box::into_raw(Box::new(ThreadStart { function, argument }));
    let result = next(thread, attributes, begin_thread, start.cast());
    if result != 0 {
        // SAFETY: no thread was started that could have taken it.
        drop(unsafe { Box::from_raw(start) });
    }
    result
}

struct StandardStart {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// Wraps `thrd_create` of C11, which does not call [`pthread_create`] by name.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thrd_create(
    thread: *mut libc::pthread_t,
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
) -> c_int {
    type Create =
        extern "C" fn(*mut libc::pthread_t, extern "C" fn(*mut c_void) -> c_int, *mut c_void) -> c_int;
    // SAFETY: this is its type in <threads.h>.
    let next: Create = unsafe { next::THRD_CREATE.get() };
    if !is_blocking() {
        return next(thread, function, argument);
    }
    extern "C" fn begin_thread(start: *mut c_void) -> c_int {
        // SAFETY: made below, and passed to this thread alone.
        let start = unsafe { Box::from_raw(start as *mut StandardStart) };
        let StandardStart { function, argument } = *start;
        pins::pin_this_thread();
        function(argument)
    }
    let start = Box::into_raw(Box::new(StandardStart { function, argument }));
    let result = next(thread, begin_thread, start.cast());
    if result != THRD_SUCCESS {
        // SAFETY: no thread was started that could have taken it.
        drop(unsafe { Box::from_raw(start) });
    }
    result
}

const THRD_SUCCESS: c_int = 0;
