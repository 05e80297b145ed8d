//! Calls that make processes, and programs of them.
//!
//! A program that begins with this library goes on with the connections that it inherits: the broker knows them. For one that
//! begins without, they are taken back to the kernel before.

use crate::next::{self, Next};
use libc::{c_char, c_int, c_void, pid_t};
use std::ffi::CStr;
use unrack_socket::{close as ends, make};

/// Part of the library's path, by which an environment is known to preload it.
const NAME: &[u8] = b"libunrack_sockets";

static FORK: Next = Next::new(c"fork");

/// Wraps `fork(2)`: both processes keep their connections.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> pid_t {
    type Function = unsafe extern "C" fn() -> pid_t;
    ends::before_fork();
    let next = FORK.get();
    let made = if next.is_null() {
        // SAFETY: a call without arguments.
        unsafe { libc::syscall(libc::SYS_fork) as pid_t }
    } else {
        // SAFETY: the C library's function of that name.
        unsafe { std::mem::transmute::<*mut c_void, Function>(next)() }
    };
    match made {
        0 => ends::in_child(),
        ..0 => ends::fork_failed(),
        _ => {}
    }
    made
}

/// Wraps `vfork(2)`: as `fork`, since the child would otherwise change what this library knows of the parent's descriptors.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> pid_t {
    fork()
}

/// Begins in a new program.
extern "C" fn begin() {
    next::look_up();
    make::inherited();
}

// SAFETY: the loader calls each function that is listed here, once the libraries that this one needs are there.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Ends with the process: functions of the program have run, and may yet, so connections stay as they are.
extern "C" fn end() {
    ends::exiting();
}

// SAFETY: the loader calls each function that is listed here when the process exits.
#[used]
#[unsafe(link_section = ".fini_array")]
static END: extern "C" fn() = end;

/// Wraps `_exit(2)`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    ends::exiting();
    loop {
        // SAFETY: a plain number.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Wraps `_Exit(3)`, which is `_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// Prepares connections for the program that this process is about to become, or to spawn.
///
/// # Safety
/// `environment` is null or a list of strings that ends in null, as `execve(2)` takes it.
unsafe fn prepare(environment: *const *const c_char, is_spawn: bool) {
    let mut next = environment;
    // SAFETY: the caller's list.
    while !next.is_null() && unsafe { !(*next).is_null() } {
        // SAFETY: the caller's list.
        let variable = unsafe { CStr::from_ptr(*next) }.to_bytes();
        if variable.starts_with(b"LD_PRELOAD=") && variable.windows(NAME.len()).any(|part| part == NAME) {
            return;
        }
        // SAFETY: the caller's list.
        next = unsafe { next.add(1) };
    }
    ends::before_stranger(is_spawn);
}

unsafe extern "C" {
    static environ: *const *const c_char;
}

type Execve = unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;
type Execv = unsafe extern "C" fn(*const c_char, *const *const c_char) -> c_int;

static EXECVE: Next = Next::new(c"execve");
static EXECV: Next = Next::new(c"execv");
static EXECVP: Next = Next::new(c"execvp");
static EXECVPE: Next = Next::new(c"execvpe");

/// Wraps `execve(2)`.
///
/// # Safety
/// As `execve(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's list.
    unsafe { prepare(environment, false) };
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execve>(EXECVE.get())(path, arguments, environment) }
}

/// Wraps `execvpe(3)`.
///
/// # Safety
/// As `execvpe(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(
    file: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's list.
    unsafe { prepare(environment, false) };
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execve>(EXECVPE.get())(file, arguments, environment) }
}

/// Wraps `execv(3)`.
///
/// # Safety
/// As `execv(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: this process's own environment.
    unsafe { prepare(environ, false) };
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execv>(EXECV.get())(path, arguments) }
}

/// Wraps `execvp(3)`.
///
/// # Safety
/// As `execvp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: this process's own environment.
    unsafe { prepare(environ, false) };
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execv>(EXECVP.get())(file, arguments) }
}

type Spawn = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

static SPAWN: Next = Next::new(c"posix_spawn");
static SPAWNP: Next = Next::new(c"posix_spawnp");

/// Wraps `posix_spawn(3)`.
///
/// # Safety
/// As `posix_spawn(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn(
    made: *mut pid_t,
    path: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's list.
    unsafe { prepare(environment, true) };
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, Spawn>(SPAWN.get());
        next(made, path, actions, attributes, arguments, environment)
    }
}

/// Wraps `posix_spawnp(3)`.
///
/// # Safety
/// As `posix_spawnp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawnp(
    made: *mut pid_t,
    file: *const c_char,
    actions: *const c_void,
    attributes: *const c_void,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    // SAFETY: the caller's list.
    unsafe { prepare(environment, true) };
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, Spawn>(SPAWNP.get());
        next(made, file, actions, attributes, arguments, environment)
    }
}
