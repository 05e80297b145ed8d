//! What crosses the border: checked pointers in, codes out, panics not at all.

use crate::error::{Failure, Status};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use unrack_rpc::Waiting;

/// Runs what a function of the header does, and turns its end into a code. What failed is left at `error`, unless
/// that is null.
///
/// # Safety
/// `error` is null or can be written.
pub(crate) unsafe fn run(error: *mut *mut Failure, body: impl FnOnce() -> Result<(), Failure>) -> Status {
    let ended = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(Failure::panicked()));
    let failure = match ended {
        Ok(()) => return Status::Ok,
        Err(failure) => failure,
    };
    let status = failure.status;
    if !error.is_null() {
        // SAFETY: as the caller says.
        unsafe { error.write(Box::into_raw(Box::new(failure))) };
    }
    status
}

/// A value for a function that has no way to say what went wrong but this value.
pub(crate) fn or<T>(otherwise: T, body: impl FnOnce() -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(body)).ok().flatten().unwrap_or(otherwise)
}

/// Frees what a function of the header made; nothing if it is null.
///
/// # Safety
/// It is null, or was made by `Box::into_raw` and is not used any more.
pub(crate) unsafe fn free<T>(made: *mut T) {
    if !made.is_null() {
        // SAFETY: as the caller says.
        let made = unsafe { Box::from_raw(made) };
        // Who frees cannot be told of a panic.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(made)));
    }
}

/// # Safety
/// The pointer is null, or to a value that nobody else uses meanwhile.
pub(crate) unsafe fn reach<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, Failure> {
    // SAFETY: as the caller says.
    unsafe { pointer.as_mut() }.ok_or_else(|| Failure::null(name))
}

/// Gives a new handle away.
///
/// # Safety
/// The pointer is null or can be written.
pub(crate) unsafe fn give<T>(
    place: *mut *mut T,
    name: &str,
    make: impl FnOnce() -> Result<T, Failure>,
) -> Result<(), Failure> {
    if place.is_null() {
        return Err(Failure::null(name));
    }
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: as the caller says.
    unsafe { place.write(made) };
    Ok(())
}

/// # Safety
/// The pointer is null, or to a text that ends with a zero and is not changed meanwhile.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, Failure> {
    if pointer.is_null() {
        return Err(Failure::null(name));
    }
    // SAFETY: as the caller says.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| Failure::invalid(format!("`{name}` is not UTF-8")))
}

/// The socket of a pool: the user's own if it is null.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn socket(pool: *const c_char) -> Result<PathBuf, Failure> {
    if pool.is_null() {
        return Ok(unrack_pool::socket::default_socket());
    }
    // SAFETY: as the caller says.
    unsafe { text(pool, "pool") }.map(PathBuf::from)
}

/// What waiting is to be good at, as a number: looks as long as that has been worth it lately (the default).
#[allow(unreachable_pub, reason = "the header has it")]
pub const WAITING_ADAPTIVE: u32 = 0;
/// Looks until it comes: lowest latency, a core for each who waits.
#[allow(unreachable_pub, reason = "the header has it")]
pub const WAITING_SPIN: u32 = 1;
/// Sleeps at once: lowest use of the processor.
#[allow(unreachable_pub, reason = "the header has it")]
pub const WAITING_SLEEP: u32 = 2;

pub(crate) fn waiting(number: u32) -> Result<Waiting, Failure> {
    match number {
        WAITING_ADAPTIVE => Ok(Waiting::Adaptive),
        WAITING_SPIN => Ok(Waiting::Spin),
        WAITING_SLEEP => Ok(Waiting::Sleep),
        _ => Err(Failure::invalid(format!("`waiting` is {number}: there is 0, 1 and 2"))),
    }
}
