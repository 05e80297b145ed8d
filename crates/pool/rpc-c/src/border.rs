//! Conversions at the C boundary: checked pointers in, error codes out, no panics.

use crate::error::{CallFailure, CallStatus};
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use unrack_rpc::WaitPolicy;

/// Runs the body of a function of the header and converts its result to a code. If the body failed or panicked, writes
/// the failure to `error`, unless that is null.
///
/// # Safety
/// `error` must be null or writable.
pub(crate) unsafe fn run(
    error: *mut *mut CallFailure,
    body: impl FnOnce() -> Result<(), CallFailure>,
) -> CallStatus {
    let ended = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| Err(CallFailure::panicked()));
    let failure = match ended {
        Ok(()) => return CallStatus::Ok,
        Err(failure) => failure,
    };
    let status = failure.status;
    if !error.is_null() {
        // SAFETY: the caller guarantees it.
        unsafe { error.write(Box::into_raw(Box::new(failure))) };
    }
    status
}

/// Returns the result of the body; or `otherwise`, if the body has none or panics. This is for functions that report a
/// failure only by their result.
pub(crate) fn or<T>(otherwise: T, body: impl FnOnce() -> Option<T>) -> T {
    catch_unwind(AssertUnwindSafe(body)).ok().flatten().unwrap_or(otherwise)
}

/// Frees a value that a function of the header made. Does nothing if the pointer is null.
///
/// # Safety
/// The pointer must be null, or made by `Box::into_raw` and not used any more.
pub(crate) unsafe fn free<T>(made: *mut T) {
    if !made.is_null() {
        // SAFETY: the caller guarantees it.
        let made = unsafe { Box::from_raw(made) };
        // A panic is ignored, because the function that frees a value cannot report it.
        let _ = catch_unwind(AssertUnwindSafe(|| drop(made)));
    }
}

/// # Safety
/// The pointer must be null, or point to a value that no other code uses meanwhile.
pub(crate) unsafe fn reach<'a, T>(pointer: *mut T, name: &str) -> Result<&'a mut T, CallFailure> {
    // SAFETY: the caller guarantees it.
    unsafe { pointer.as_mut() }.ok_or_else(|| CallFailure::null(name))
}

/// Makes a value and writes the handle to `place`; the caller then owns it.
///
/// # Safety
/// The pointer must be null or writable.
pub(crate) unsafe fn give<T>(
    place: *mut *mut T,
    name: &str,
    make: impl FnOnce() -> Result<T, CallFailure>,
) -> Result<(), CallFailure> {
    if place.is_null() {
        return Err(CallFailure::null(name));
    }
    let made = Box::into_raw(Box::new(make()?));
    // SAFETY: the caller guarantees it.
    unsafe { place.write(made) };
    Ok(())
}

/// # Safety
/// The pointer must be null, or point to a text that ends with a zero and is not changed meanwhile.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, name: &str) -> Result<&'a str, CallFailure> {
    if pointer.is_null() {
        return Err(CallFailure::null(name));
    }
    // SAFETY: the caller guarantees it.
    let text = unsafe { CStr::from_ptr(pointer) };
    text.to_str().map_err(|_| CallFailure::invalid(format!("`{name}` is not UTF-8")))
}

/// Returns the socket of a pool, which is the user's default pool if the pointer is null.
///
/// # Safety
/// As for [`text`].
pub(crate) unsafe fn socket(pool: *const c_char) -> Result<PathBuf, CallFailure> {
    if pool.is_null() {
        return Ok(unrack_pool::socket::default_socket());
    }
    // SAFETY: the caller guarantees it.
    unsafe { text(pool, "pool") }.map(PathBuf::from)
}

/// How to wait: polls for as long as polling has paid off recently, then sleeps. This is the default.
#[allow(unreachable_pub, reason = "the header has it")]
pub const WAITING_ADAPTIVE: u32 = 0;
/// How to wait: polls until the event comes. This has the lowest latency, but each waiting thread keeps a core busy.
#[allow(unreachable_pub, reason = "the header has it")]
pub const WAITING_SPIN: u32 = 1;
/// How to wait: sleeps at once, which uses the processor least.
#[allow(unreachable_pub, reason = "the header has it")]
pub const WAITING_SLEEP: u32 = 2;

pub(crate) fn waiting(number: u32) -> Result<WaitPolicy, CallFailure> {
    match number {
        WAITING_ADAPTIVE => Ok(WaitPolicy::Adaptive),
        WAITING_SPIN => Ok(WaitPolicy::Spin),
        WAITING_SLEEP => Ok(WaitPolicy::Sleep),
        _ => Err(CallFailure::invalid(format!("`waiting` is {number}: there is 0, 1 and 2"))),
    }
}
