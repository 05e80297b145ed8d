//! Wrappers of the calls that start processes and programs, and that end a process.
//!
//! A program that has this library continues with the connections that it inherits, because the broker knows them. Before a program without
//! this library starts, its connections are returned to the kernel.

use crate::next::{self, NextFunction};
use crate::programs;
use libc::{c_char, c_int, c_void, pid_t};
use std::sync::atomic::{AtomicU64, Ordering};
use unrack_socket::{close as ends, handover, kernel, make};

static FORK: NextFunction = NextFunction::new(c"fork");

/// Wraps `fork(2)`. Afterwards, parent and child both have the connections.
#[unsafe(no_mangle)]
pub extern "C" fn fork() -> pid_t {
    type Function = unsafe extern "C" fn() -> pid_t;
    ends::before_fork();
    let next = FORK.get();
    let made = if next.is_null() {
        // SAFETY: the call has no arguments.
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

/// Wraps `vfork(2)` as `fork`, because the child would otherwise change this library's state about the descriptors of the parent.
#[unsafe(no_mangle)]
pub extern "C" fn vfork() -> pid_t {
    fork()
}

/// Initializes the library in a new program.
extern "C" fn begin() {
    next::look_up();
    make::inherited();
}

// SAFETY: the loader calls each function that is listed here, after it has initialized the libraries that this one needs.
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = begin;

/// Announces the exit of the process. The connections remain usable, because functions of the program may still run.
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
        // SAFETY: only a plain number is passed.
        unsafe { libc::syscall(libc::SYS_exit_group, status) };
    }
}

/// Wraps `_Exit(3)`, which is the same as `_exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

/// How a program starts.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ProgramStart {
    /// In this process.
    Exec,
    /// In a child process.
    Spawn,
}

/// Prepares connections for a program that is about to start. Returns false, with `errno` set, if one of them cannot be handed over. In
/// that case the program must not start, because it would miss bytes.
///
/// # Safety
/// `path` is null or a string; `environment` is null or a list of strings that ends with a null pointer, as for `execve(2)`.
unsafe fn prepare(path: *const c_char, environment: *const *const c_char, start: ProgramStart) -> bool {
    // SAFETY: the caller's promise.
    let has_library = || unsafe { programs::has_library(path, environment) };
    let is_ready = handover::before_program(has_library, |fd| is_passed(fd, start));
    if !is_ready {
        kernel::fail(libc::ENOMEM);
    }
    is_ready
}

/// As [`prepare`], for a program that the C library searches for in `PATH`.
///
/// # Safety
/// As [`prepare`].
unsafe fn prepare_found(file: *const c_char, environment: *const *const c_char, start: ProgramStart) -> bool {
    let has_library = || {
        // SAFETY: the caller's promise.
        let found = unsafe { programs::find(file) };
        // SAFETY: the caller's promise.
        found.is_some_and(|path| unsafe { programs::has_library(path.as_ptr(), environment) })
    };
    let is_ready = handover::before_program(has_library, |fd| is_passed(fd, start));
    if !is_ready {
        kernel::fail(libc::ENOMEM);
    }
    is_ready
}

/// Bitmap of the descriptors that a spawned program may receive although they are marked close-on-exec.
static GIVEN: [AtomicU64; GIVEN_MOST / 64] = [const { AtomicU64::new(0) }; GIVEN_MOST / 64];
const GIVEN_MOST: usize = 1 << 16;

fn is_passed(fd: c_int, start: ProgramStart) -> bool {
    // SAFETY: only plain numbers are passed.
    let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD, 0) };
    let is_kept = flags >= 0 && flags & libc::c_long::from(libc::FD_CLOEXEC) == 0;
    let word = GIVEN.get(fd as usize / 64).map_or(0, |word| word.load(Ordering::Relaxed));
    is_kept || start == ProgramStart::Spawn && flags >= 0 && word >> (fd % 64) & 1 != 0
}

static ADDDUP2: NextFunction = NextFunction::new(c"posix_spawn_file_actions_adddup2");

/// Wraps `posix_spawn_file_actions_adddup2(3)`. It notes that a spawned program may receive the descriptor.
///
/// # Safety
/// As `posix_spawn_file_actions_adddup2(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_spawn_file_actions_adddup2(
    actions: *mut c_void,
    fd: c_int,
    to: c_int,
) -> c_int {
    type Function = unsafe extern "C" fn(*mut c_void, c_int, c_int) -> c_int;
    if let Some(word) = GIVEN.get(fd as usize / 64) {
        word.fetch_or(1 << (fd % 64), Ordering::Relaxed);
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Function>(ADDDUP2.get())(actions, fd, to) }
}

unsafe extern "C" {
    pub(crate) static environ: *const *const c_char;
}

type Execve = unsafe extern "C" fn(*const c_char, *const *const c_char, *const *const c_char) -> c_int;
type Execv = unsafe extern "C" fn(*const c_char, *const *const c_char) -> c_int;

static EXECVE: NextFunction = NextFunction::new(c"execve");
static EXECV: NextFunction = NextFunction::new(c"execv");
static EXECVP: NextFunction = NextFunction::new(c"execvp");
static EXECVPE: NextFunction = NextFunction::new(c"execvpe");

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
    // SAFETY: the caller's own arguments.
    if unsafe { !prepare(path, environment, ProgramStart::Exec) } {
        return -1;
    }
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
    // SAFETY: the caller's own arguments.
    if unsafe { !prepare_found(file, environment, ProgramStart::Exec) } {
        return -1;
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execve>(EXECVPE.get())(file, arguments, environment) }
}

/// Wraps `execv(3)`.
///
/// # Safety
/// As `execv(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's path, and the environment of this process.
    if unsafe { !prepare(path, environ, ProgramStart::Exec) } {
        return -1;
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execv>(EXECV.get())(path, arguments) }
}

/// Wraps `execvp(3)`.
///
/// # Safety
/// As `execvp(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(file: *const c_char, arguments: *const *const c_char) -> c_int {
    // SAFETY: the caller's name, and the environment of this process.
    if unsafe { !prepare_found(file, environ, ProgramStart::Exec) } {
        return -1;
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Execv>(EXECVP.get())(file, arguments) }
}

type SpawnFunction = unsafe extern "C" fn(
    *mut pid_t,
    *const c_char,
    *const c_void,
    *const c_void,
    *const *const c_char,
    *const *const c_char,
) -> c_int;

static SPAWN: NextFunction = NextFunction::new(c"posix_spawn");
static SPAWNP: NextFunction = NextFunction::new(c"posix_spawnp");

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
    // SAFETY: the caller's own arguments.
    if unsafe { !prepare(path, environment, ProgramStart::Spawn) } {
        return kernel::errno();
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, SpawnFunction>(SPAWN.get());
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
    // SAFETY: the caller's own arguments.
    if unsafe { !prepare_found(file, environment, ProgramStart::Spawn) } {
        return kernel::errno();
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, SpawnFunction>(SPAWNP.get());
        next(made, file, actions, attributes, arguments, environment)
    }
}

static SYSTEM: NextFunction = NextFunction::new(c"system");
static POPEN: NextFunction = NextFunction::new(c"popen");

/// Wraps `system(3)`, because the C library starts the shell without calling this library's wrappers.
///
/// # Safety
/// As `system(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn system(command: *const c_char) -> c_int {
    type Function = unsafe extern "C" fn(*const c_char) -> c_int;
    // SAFETY: a string, and the environment of this process.
    if !command.is_null() && unsafe { !prepare(SHELL.as_ptr(), environ, ProgramStart::Exec) } {
        return -1;
    }
    // SAFETY: the C library's function of that name, and the caller's own argument.
    unsafe { std::mem::transmute::<*mut c_void, Function>(SYSTEM.get())(command) }
}

/// Wraps `popen(3)`, because the C library starts the shell without calling this library's wrappers.
///
/// # Safety
/// As `popen(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn popen(command: *const c_char, mode: *const c_char) -> *mut libc::FILE {
    type Function = unsafe extern "C" fn(*const c_char, *const c_char) -> *mut libc::FILE;
    // SAFETY: a string, and the environment of this process.
    if unsafe { !prepare(SHELL.as_ptr(), environ, ProgramStart::Exec) } {
        return std::ptr::null_mut();
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Function>(POPEN.get())(command, mode) }
}

/// Program that `system(3)` and `popen(3)` start.
const SHELL: &std::ffi::CStr = c"/bin/sh";

static FEXECVE: NextFunction = NextFunction::new(c"fexecve");
static EXECVEAT: NextFunction = NextFunction::new(c"execveat");

/// Wraps `fexecve(3)`.
///
/// # Safety
/// As `fexecve(3)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn fexecve(
    fd: c_int,
    arguments: *const *const c_char,
    environment: *const *const c_char,
) -> c_int {
    type Function = unsafe extern "C" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;
    // SAFETY: the path is null, which means an unknown program.
    if unsafe { !prepare(std::ptr::null(), environment, ProgramStart::Exec) } {
        return -1;
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe { std::mem::transmute::<*mut c_void, Function>(FEXECVE.get())(fd, arguments, environment) }
}

/// Wraps `execveat(2)`.
///
/// # Safety
/// As `execveat(2)`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execveat(
    folder: c_int,
    path: *const c_char,
    arguments: *const *const c_char,
    environment: *const *const c_char,
    flags: c_int,
) -> c_int {
    type Function = unsafe extern "C" fn(
        c_int,
        *const c_char,
        *const *const c_char,
        *const *const c_char,
        c_int,
    ) -> c_int;
    // SAFETY: the path is null, which means an unknown program.
    if unsafe { !prepare(std::ptr::null(), environment, ProgramStart::Exec) } {
        return -1;
    }
    // SAFETY: the C library's function of that name, and the caller's own arguments.
    unsafe {
        let next = std::mem::transmute::<*mut c_void, Function>(EXECVEAT.get());
        next(folder, path, arguments, environment, flags)
    }
}

/// Prepares connections for a program that a bare system call starts. Returns false, with `errno` set, if it must not start.
///
/// # Safety
/// As [`prepare`].
pub(crate) unsafe fn prepare_bare(path: *const c_char, environment: *const *const c_char) -> bool {
    // SAFETY: the caller's promise.
    unsafe { prepare(path, environment, ProgramStart::Exec) }
}
