//! Threads made by `clone` directly, not by the threads library: for the library the program stays
//! single-threaded, and keeps its fast paths and its thread count.

use crate::den;
use core::ffi::{c_int, c_void};
use rustix::io::Errno;

/// Start of such a thread, with its argument.
pub(crate) type Main = extern "C" fn(*mut c_void) -> c_int;

const FLAGS: c_int =
    libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;

/// Starts a thread on stack `stack` of the den, with the caller's mask of signals. It shares the table of open
/// files only if `shares_files`: otherwise the program cannot see, close or inherit its descriptors, nor does it
/// keep any of the program's open.
///
/// # Safety
/// `main` never returns, uses only its own stack and memory, and touches no thread-local storage. Nothing else
/// uses that stack.
pub(crate) unsafe fn start(
    main: Main,
    stack: usize,
    shares_files: bool,
    argument: usize,
) -> Result<(), Errno> {
    let flags = if shares_files { FLAGS | libc::CLONE_FILES } else { FLAGS };
    // SAFETY: as the caller says.
    match unsafe { libc::clone(main, den::stack_top(stack) as *mut c_void, flags, argument as *mut c_void) } {
        -1 => Err(Errno::AGAIN),
        _ => Ok(()),
    }
}

/// Runs `f` with all signals blocked: a thread that starts in it blocks them for ever.
pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    // SAFETY: plain sets on our stack. Signals 32 and 33 belong to the C library, which cannot send them to a
    // thread that it does not know.
    unsafe {
        let (mut all, mut before) = (core::mem::zeroed(), core::mem::zeroed());
        libc::sigfillset(&mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &all, &mut before);
        let result = f();
        libc::pthread_sigmask(libc::SIG_SETMASK, &before, core::ptr::null_mut());
        result
    }
}
