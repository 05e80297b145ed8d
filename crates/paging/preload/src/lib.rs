//! Preload library: puts the pager into an unmodified program.
//!
//! `unrack run` loads it through `LD_PRELOAD`, before the program's first instruction. It maps the control file that an
//! environment variable names, and starts the pager. It also wraps the C library's functions that fork, since a fork
//! copies the address space, and all pages must be in the program at that moment. In a process without the variable it
//! does nothing.

mod leaks;
mod limits;
mod programs;
mod sandbox;

use libc::rlimit;
use std::ffi::{CStr, c_char, c_int, c_long, c_uint, c_ulong, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use unrack_pager::control::{CONTROL_VARIABLE, Unpaged};
#[cfg(target_arch = "x86_64")]
use unrack_pager::fast;
use unrack_pager::{attached, blocking, door, gate, heap, pins, sys};

// Functions on bytes: a sanitizer's, which the program may have, touch memory that may be remote, for which a pager must
// not wait.
#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(include_str!("../../pager/bytes.s"));

/// Allocator of this library: the pager's own heap.
#[global_allocator]
static HEAP: heap::Heap = heap::Heap;

#[used]
#[unsafe(link_section = ".init_array")]
static AT_LOAD: extern "C" fn() = at_load;

#[used]
#[unsafe(link_section = ".fini_array")]
static AT_EXIT: extern "C" fn() = at_exit;

/// Gives a program that ends the status of a run in which a pager had to end a process, instead of its own.
extern "C" fn at_exit() {
    if let Some(status) = failed() {
        sys::exit(status);
    }
}

/// Returns the status of the run, if a pager had to end a process.
fn failed() -> Option<u8> {
    Some(attached::control()?.failed.load(Relaxed) as u8).filter(|status| *status != 0)
}

/// Wraps `_exit(2)`, as [`at_exit`] does `exit`.
#[unsafe(no_mangle)]
pub extern "C" fn _exit(status: c_int) -> ! {
    sys::exit(failed().unwrap_or(status as u8))
}

/// Wraps `_Exit(3)`, which is the same.
#[unsafe(no_mangle)]
pub extern "C" fn _Exit(status: c_int) -> ! {
    _exit(status)
}

extern "C" fn at_load() {
    let all = [
        &NEXT_FORK,
        &NEXT_SYSCALL,
        &NEXT_CLONE,
        &NEXT_MLOCKALL,
        &NEXT_PTHREAD_CREATE,
        &NEXT_THRD_CREATE,
        &NEXT_MREMAP,
        &NEXT_EXECVE,
        &NEXT_EXECV,
        &NEXT_EXECVP,
        &NEXT_EXECVPE,
        &NEXT_POSIX_SPAWN,
        &NEXT_POSIX_SPAWNP,
        &NEXT_PRCTL,
        &NEXT_SETRLIMIT,
        &NEXT_GETRLIMIT,
        &NEXT_PRLIMIT,
    ];
    for next in all {
        // SAFETY: the value is read as an address, whatever the function's type is.
        let _: usize = unsafe { next.get() };
    }
    let name = std::ffi::CString::new(CONTROL_VARIABLE).expect("no NUL in the name");
    // SAFETY: the program has only one thread so far.
    let path = unsafe { libc::getenv(name.as_ptr()) };
    if path.is_null() {
        return;
    }
    // SAFETY: a string of the environment ends in NUL.
    let path = unsafe { CStr::from_ptr(path) };
    if let Err(error) = begin(path) {
        let path = path.to_string_lossy();
        eprintln!("unrack: this process runs without remote memory: {path}: {error}");
    }
}

fn begin(path: &CStr) -> Result<(), rustix::io::Errno> {
    unrack_pager::den::reserve()?;
    let control = attached::attach(path)?;
    if control.settings.limit_pages.load(Relaxed) == u64::MAX {
        return Ok(());
    }
    if sandbox::is_filtered_from_outside() {
        gate::stay_local(control, Unpaged::Filter);
        gate::set_filtered(true);
        return Ok(());
    }
    sys::refuse_huge_pages();
    #[cfg(target_arch = "x86_64")]
    if fast::is_wanted() {
        return fast::start(control);
    }
    // These handlers are registered first, so they run last before the fork and first after it.
    // SAFETY: the handlers live as long as this library, which is never unloaded.
    unsafe { libc::pthread_atfork(Some(before_fork), Some(after_fork), Some(in_child)) };
    if leaks::are_looked_for() {
        door::guard_threads();
    }
    pins::pin_this_thread();
    if let Err(why) = blocking::start(control) {
        gate::stay_local(control, Unpaged::Limits);
        return Err(why);
    }
    blocking::wait_for_start();
    Ok(())
}

/// True if this process has a pager thread. In fast mode, the pager does this work at the system calls instead.
fn is_blocking() -> bool {
    #[cfg(target_arch = "x86_64")]
    if fast::is_wanted() {
        return false;
    }
    attached::control().is_some() && !gate::is_local()
}

extern "C" fn before_fork() {
    if !gate::is_local() {
        gate::close();
    }
}

extern "C" fn after_fork() {
    if !gate::is_local() {
        gate::open();
    }
}

extern "C" fn in_child() {
    pins::pin_this_thread();
    // SAFETY: this runs in the child of a fork, after `before_fork`.
    unsafe { blocking::start_in_child() };
}

/// Runs `fork`, one of the calls that bypass the handlers of `pthread_atfork`, between those handlers.
fn around<T: Copy + PartialEq + Default>(fork: impl FnOnce() -> T) -> T {
    if !is_blocking() {
        return fork();
    }
    before_fork();
    let result = fork();
    if result == T::default() {
        in_child()
    } else {
        after_fork()
    }
    result
}

/// Function of the C library that this library wraps.
struct Next {
    name: &'static CStr,
    address: AtomicUsize,
}

impl Next {
    const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicUsize::new(0) }
    }

    /// Returns the function, which is looked up once. [`at_load`] does so for all, while there is one thread, no
    /// lock is held and no fork is near.
    ///
    /// # Safety
    /// `F` must be the function's type.
    unsafe fn get<F: Copy>(&self) -> F {
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            // SAFETY: a lookup by name; the C library defines all names used here.
            address = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) } as usize;
            assert!(address != 0);
            self.address.store(address, Relaxed);
        }
        // SAFETY: a function pointer has the size of an address; the caller vouches for the type.
        unsafe { std::mem::transmute_copy(&address) }
    }
}

static NEXT_FORK: Next = Next::new(c"_Fork");
static NEXT_SYSCALL: Next = Next::new(c"syscall");
static NEXT_CLONE: Next = Next::new(c"clone");
static NEXT_MLOCKALL: Next = Next::new(c"mlockall");
static NEXT_PTHREAD_CREATE: Next = Next::new(c"pthread_create");
static NEXT_THRD_CREATE: Next = Next::new(c"thrd_create");
static NEXT_MREMAP: Next = Next::new(c"mremap");
static NEXT_EXECVE: Next = Next::new(c"execve");
static NEXT_EXECV: Next = Next::new(c"execv");
static NEXT_EXECVP: Next = Next::new(c"execvp");
static NEXT_EXECVPE: Next = Next::new(c"execvpe");
static NEXT_POSIX_SPAWN: Next = Next::new(c"posix_spawn");
static NEXT_POSIX_SPAWNP: Next = Next::new(c"posix_spawnp");
static NEXT_PRCTL: Next = Next::new(c"prctl");
static NEXT_SETRLIMIT: Next = Next::new(c"setrlimit");
static NEXT_GETRLIMIT: Next = Next::new(c"getrlimit");
static NEXT_PRLIMIT: Next = Next::new(c"prlimit");

/// Wraps `_Fork(3)`, the fork without handlers.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Fork() -> libc::pid_t {
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn() -> libc::pid_t = unsafe { NEXT_FORK.get() };
    around(|| next())
}

/// Wraps `syscall(2)`, through which a program may fork.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn syscall(
    number: c_long,
    a: c_long,
    b: c_long,
    c: c_long,
    d: c_long,
    e: c_long,
    f: c_long,
) -> c_long {
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: extern "C" fn(c_long, c_long, c_long, c_long, c_long, c_long, c_long) -> c_long =
        unsafe { NEXT_SYSCALL.get() };
    let call = || next(number, a, b, c, d, e, f);
    if number == libc::SYS_userfaultfd
        && !gate::is_local()
        && let Some(control) = attached::control()
    {
        gate::die_of_own_pager(control);
    }
    match number {
        _ if is_fork(number, a) => around(call),
        _ if !is_blocking() => call(),
        libc::SYS_seccomp if a == libc::SECCOMP_SET_MODE_FILTER as c_long => {
            sandbox::seccomp(b, |flags| next(number, a, flags, c, d, e, f))
        }
        libc::SYS_prctl if sandbox::is_filter(a as c_int) => sandbox::filter(call),
        _ => call(),
    }
}

/// Wraps `prctl(2)`, by which a program may filter its system calls.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn prctl(option: c_int, a: c_ulong, b: c_ulong, c: c_ulong, d: c_ulong) -> c_int {
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: extern "C" fn(c_int, c_ulong, c_ulong, c_ulong, c_ulong) -> c_int = unsafe { NEXT_PRCTL.get() };
    let call = || next(option, a, b, c, d);
    if is_blocking() && sandbox::is_filter(option) {
        return sandbox::filter(|| call().into()) as c_int;
    }
    call()
}

/// Wraps `setrlimit(2)`: see [`limits`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: this is its type in <sys/resource.h>.
    let next: extern "C" fn(c_uint, *const rlimit) -> c_int = unsafe { NEXT_SETRLIMIT.get() };
    if limit.is_null() {
        return next(resource, limit);
    }
    // SAFETY: as the caller says.
    let raised = limits::raised(resource, unsafe { *limit });
    next(resource, &raised)
}

/// Wraps `setrlimit64`, which is the same.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn setrlimit64(resource: c_uint, limit: *const rlimit) -> c_int {
    // SAFETY: as the caller says.
    unsafe { setrlimit(resource, limit) }
}

/// Wraps `getrlimit(2)`: see [`limits`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrlimit(resource: c_uint, limit: *mut rlimit) -> c_int {
    // SAFETY: this is its type in <sys/resource.h>.
    let next: extern "C" fn(c_uint, *mut rlimit) -> c_int = unsafe { NEXT_GETRLIMIT.get() };
    let result = next(resource, limit);
    if result == 0 {
        // SAFETY: the call has just written there.
        unsafe { *limit = limits::lowered(resource, *limit) };
    }
    result
}

/// Wraps `getrlimit64`, which is the same.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getrlimit64(resource: c_uint, limit: *mut rlimit) -> c_int {
    // SAFETY: as the caller says.
    unsafe { getrlimit(resource, limit) }
}

/// Wraps `prlimit(2)`: see [`limits`]. Limits of other processes are passed on.
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
        unsafe { NEXT_PRLIMIT.get() };
    if pid != 0 && pid != std::process::id() as libc::pid_t {
        return next(pid, resource, new, old);
    }
    // SAFETY: as the caller says: null, or a limit.
    let raised = unsafe { new.as_ref() }.map(|new| limits::raised(resource, *new));
    let result = next(pid, resource, raised.as_ref().map_or(std::ptr::null(), |new| new), old);
    // SAFETY: as the caller says: null, or what the call has just written.
    if let (0, Some(old)) = (result, unsafe { old.as_mut() }) {
        *old = limits::lowered(resource, *old);
    }
    result
}

/// Wraps `prlimit64`, which is the same.
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
    // SAFETY: as the caller says.
    unsafe { prlimit(pid, resource, new, old) }
}

fn is_fork(number: c_long, first: c_long) -> bool {
    #[cfg(target_arch = "x86_64")]
    if number == libc::SYS_fork {
        return true;
    }
    let copies_memory = |flags: u64| flags & libc::CLONE_VM as u64 == 0;
    match number {
        libc::SYS_clone => copies_memory(first as u64),
        // SAFETY: the first argument points to `struct clone_args`, which begins with the flags.
        libc::SYS_clone3 if first != 0 => copies_memory(unsafe { *(first as *const u64) }),
        _ => false,
    }
}

struct Start {
    function: extern "C" fn(*mut c_void) -> c_int,
    argument: *mut c_void,
}

/// Wraps `clone(2)`, which is a fork if it does not share memory.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn clone(
    function: extern "C" fn(*mut c_void) -> c_int,
    stack: *mut c_void,
    flags: c_int,
    argument: *mut c_void,
    parent_tid: *mut c_void,
    tls: *mut c_void,
    child_tid: *mut c_void,
) -> c_int {
    type Clone = extern "C" fn(
        extern "C" fn(*mut c_void) -> c_int,
        *mut c_void,
        c_int,
        *mut c_void,
        *mut c_void,
        *mut c_void,
        *mut c_void,
    ) -> c_int;
    // SAFETY: variadic in C; all arguments are registers on the supported machines.
    let next: Clone = unsafe { NEXT_CLONE.get() };
    if flags & libc::CLONE_VM != 0 || !is_blocking() {
        return next(function, stack, flags, argument, parent_tid, tls, child_tid);
    }
    extern "C" fn begin_child(start: *mut c_void) -> c_int {
        // SAFETY: this is the child's copy of the parent's frame below.
        let Start { function, argument } = unsafe { std::ptr::read(start as *const Start) };
        in_child();
        function(argument)
    }
    let start = Start { function, argument };
    before_fork();
    let child =
        next(begin_child, stack, flags, (&raw const start) as *mut c_void, parent_tid, tls, child_tid);
    after_fork();
    child
}

type Texts = *const *const c_char;

/// Wraps `execve(2)`, since the tracer has to know of a program into which nothing can be preloaded.
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execve(path: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: as the caller says.
    unsafe { named(path) }.into_iter().for_each(programs::becomes);
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts, Texts) -> c_int = unsafe { NEXT_EXECVE.get() };
    next(path, arguments, environment)
}

/// Wraps `execv(3)`, as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execv(path: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as the caller says.
    unsafe { named(path) }.into_iter().for_each(programs::becomes);
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts) -> c_int = unsafe { NEXT_EXECV.get() };
    next(path, arguments)
}

/// Wraps `execvp(3)`, as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvp(name: *const c_char, arguments: Texts) -> c_int {
    // SAFETY: as the caller says.
    unsafe { named(name) }.into_iter().for_each(|name| programs::find(name, programs::becomes));
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts) -> c_int = unsafe { NEXT_EXECVP.get() };
    next(name, arguments)
}

/// Wraps `execvpe(3)`, as [`execve`].
///
/// # Safety
/// Like the C library's function.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn execvpe(name: *const c_char, arguments: Texts, environment: Texts) -> c_int {
    // SAFETY: as the caller says.
    unsafe { named(name) }.into_iter().for_each(|name| programs::find(name, programs::becomes));
    // SAFETY: this is its type in <unistd.h>.
    let next: extern "C" fn(*const c_char, Texts, Texts) -> c_int = unsafe { NEXT_EXECVPE.get() };
    next(name, arguments, environment)
}

type Spawn = extern "C" fn(
    *mut libc::pid_t,
    *const c_char,
    *const libc::posix_spawn_file_actions_t,
    *const libc::posix_spawnattr_t,
    Texts,
    Texts,
) -> c_int;

/// Wraps `posix_spawn(3)`, as [`execve`].
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
    // SAFETY: as the caller says.
    unsafe { named(path) }.into_iter().for_each(programs::starts);
    // SAFETY: this is its type in <spawn.h>.
    let next: Spawn = unsafe { NEXT_POSIX_SPAWN.get() };
    next(pid, path, actions, attributes, arguments, environment)
}

/// Wraps `posix_spawnp(3)`, as [`execve`].
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
    // SAFETY: as the caller says.
    unsafe { named(name) }.into_iter().for_each(|name| programs::find(name, programs::starts));
    // SAFETY: this is its type in <spawn.h>.
    let next: Spawn = unsafe { NEXT_POSIX_SPAWNP.get() };
    next(pid, name, actions, attributes, arguments, environment)
}

/// Returns a name as text; the kernel refuses an address of nothing.
///
/// # Safety
/// It is 0, or a text that ends in NUL and outlives the result.
unsafe fn named<'a>(name: *const c_char) -> Option<&'a CStr> {
    // SAFETY: as the caller says.
    (!name.is_null()).then(|| unsafe { CStr::from_ptr(name) })
}

struct ThreadStart {
    function: extern "C-unwind" fn(*mut c_void) -> *mut c_void,
    argument: *mut c_void,
}

/// Wraps `pthread_create(3)`, since the thread's control block must not be evicted.
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
    let next: Create = unsafe { NEXT_PTHREAD_CREATE.get() };
    if !is_blocking() {
        return next(thread, attributes, function, argument);
    }
    extern "C-unwind" fn begin_thread(start: *mut c_void) -> *mut c_void {
        // SAFETY: made below, and given to this thread alone.
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
    let next: Create = unsafe { NEXT_THRD_CREATE.get() };
    if !is_blocking() {
        return next(thread, function, argument);
    }
    extern "C" fn begin_thread(start: *mut c_void) -> c_int {
        // SAFETY: made below, and given to this thread alone.
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

/// Wraps `mlockall(2)`, which would lock pages that the pager has to evict. The call is accepted and ignored,
/// since no result of a program depends on it.
#[unsafe(no_mangle)]
pub extern "C" fn mlockall(flags: c_int) -> c_int {
    if attached::control().is_some() && !gate::is_local() {
        return 0;
    }
    // SAFETY: this is its type in <sys/mman.h>.
    let next: extern "C" fn(c_int) -> c_int = unsafe { NEXT_MLOCKALL.get() };
    next(flags)
}

/// Wraps `mremap(2)`, which refuses a range of several mappings, since the pager may have split one mapping in
/// two.
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
        unsafe { NEXT_MREMAP.get() };
    let result = next(old, old_len, new_len, flags, new);
    // SAFETY: this is the thread's own error number.
    let refused = result == libc::MAP_FAILED && unsafe { *libc::__errno_location() } == libc::EFAULT;
    if !refused || !is_blocking() {
        return result;
    }
    gate::merge(old as usize, old_len);
    next(old, old_len, new_len, flags, new)
}
