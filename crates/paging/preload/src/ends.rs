//! End of a process: the run's status takes precedence over the program's.

use std::ffi::c_int;
use std::sync::atomic::Ordering::Relaxed;
use unrack_pager::{attached, sys};

/// Makes a program that ends exit with the status of the run instead of the program's status, if a pager had to end a process of the run.
pub(crate) extern "C" fn at_exit() {
    if let Some(status) = failed() {
        sys::exit(status);
    }
}

/// Returns the status of the run if a pager had to end a process.
fn failed() -> Option<u8> {
    Some(attached::control()?.failed.load(Relaxed) as u8).filter(|status| *status != 0)
}

/// Wraps `_exit(2)`, with the same effect that [`at_exit`] has on `exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    sys::exit(failed().unwrap_or(status as u8))
}

/// Wraps `_Exit(3)`, which is equivalent to [`_exit`].
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}
