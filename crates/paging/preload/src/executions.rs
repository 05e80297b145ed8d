//! Executions of programs: the tracer has to know each program into which this library cannot be preloaded.

use crate::{next, programs};
use std::ffi::{CStr, c_char, c_int};

type Texts = *const *const c_char;

/// Wraps `execve(2)`, because the tracer has to know a program into which this library cannot be preloaded.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: the caller guarantees a valid text.
    unsafe { named(path) }.into_iter().for_each(programs::becomes);
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts, Texts) -> c_int = unsafe { next::EXECVE.get() };
    next(path, arguments, environment)
}

/// Wraps `execv(3)`, for the same reason as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller guarantees a valid text.
    unsafe { named(path) }.into_iter().for_each(programs::becomes);
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts) -> c_int = unsafe { next::EXECV.get() };
    next(path, arguments)
}

/// Wraps `execvp(3)`, for the same reason as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: the caller guarantees a valid text.
    unsafe { named(name) }.into_iter().for_each(|name| programs::find(name, programs::becomes));
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts) -> c_int = unsafe { next::EXECVP.get() };
    next(name, arguments)
}

/// Wraps `execvpe(3)`, for the same reason as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(name: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: the caller guarantees a valid text.
    unsafe { named(name) }.into_iter().for_each(|name| programs::find(name, programs::becomes));
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts, Texts) -> c_int = unsafe { next::EXECVPE.get() };
    next(name, arguments, environment)
}

type SpawnCall = extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    Texts,
    Texts,
) -> c_int;

/// Wraps `posix_spawn(3)`, for the same reason as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    pid: *mut libc::pid_t,
    path: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    arguments: Texts,
    environment: Texts,
) -> c_int {
    // SAFETY: the caller guarantees a valid text.
    unsafe { named(path) }.into_iter().for_each(programs::starts);
    // SAFETY: this is its type in <spawn.h>.
    let next: SpawnCall = unsafe { next::POSIX_SPAWN.get() };
    next(pid, path, actions, attributes, arguments, environment)
}

/// Wraps `posix_spawnp(3)`, for the same reason as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    pid: *mut libc::pid_t,
    name: *const c_char,
    actions: *const libc::posix_spawn_file_actions_t,
    attributes: *const libc::posix_spawnattr_t,
    arguments: Texts,
    environment: Texts,
) -> c_int {
    // SAFETY: the caller guarantees a valid text.
    unsafe { named(name) }.into_iter().for_each(|name| programs::find(name, programs::starts));
    // SAFETY: this is its type in <spawn.h>.
    let next: SpawnCall = unsafe { next::POSIX_SPAWNP.get() };
    next(pid, name, actions, attributes, arguments, environment)
}

/// Returns a name as text, or `None` for a null pointer, which the kernel refuses.
///
/// # Safety
/// The pointer is null, or a text that ends in NUL and outlives the result.
unsafe fn named<'a>(name: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the caller guarantees a valid text.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}
