//! Threads made by `clone` directly, not by the threads library. For the library, the program stays single-threaded if it was, and
//! therefore keeps its fast paths and its thread count.

use crate::{reserved_region, sys};
use core::ffi::{c_int, c_void};
use core::sync::atomic::{AtomicBool, Ordering::Relaxed};
use rustix::io::Errno;

/// Main function of such a thread, which receives one argument.
pub(crate) type Main = extern "C" fn(*mut c_void) -> c_int;

const FLAGS: c_int =
    libc::CLONE_VM | libc::CLONE_FS | libc::CLONE_SIGHAND | libc::CLONE_THREAD | libc::CLONE_SYSVSEM;

static UNTRACED: AtomicBool = AtomicBool::new(false);

/// Hides threads that start from now on from a tracer that follows all threads of the program. The tracer could not resume these threads
/// while it waits for them.
pub fn hide_threads() {
    UNTRACED.store(true, Relaxed);
}

/// Starts a thread on stack `stack` of the reserved region, with the caller's signal mask. The thread shares the program's table of open
/// files only if `shares_files` is set. Otherwise the program cannot see, close or inherit the thread's descriptors, and the thread keeps
/// none of the program's files open.
///
/// # Safety
/// `main` never returns, uses only its own stack and memory, and touches no thread-local storage. The stack is not used otherwise.
pub(crate) unsafe fn start(
    main: Main,
    stack: usize,
    shares_files: bool,
    argument: usize,
) -> Result<(), Errno> {
    let files = if shares_files { libc::CLONE_FILES } else { 0 };
    let untraced = if UNTRACED.load(Relaxed) { libc::CLONE_UNTRACED } else { 0 };
    // SAFETY: the caller guarantees what `clone` requires.
    match unsafe { sys::clone(FLAGS | files | untraced, reserved_region::stack_top(stack), main, argument) } {
        started if started > 0 => Ok(()),
        _ => Err(Errno::AGAIN),
    }
}

/// Runs `f` with all signals blocked. A thread that `f` starts inherits the mask and blocks them permanently.
pub(crate) fn with_signals_blocked<T>(f: impl FnOnce() -> T) -> T {
    // This includes signals 32 and 33, which the C library uses itself; it cannot send them to a thread that it does not know.
    let before = sys::set_signal_mask(u64::MAX);
    let result = f();
    sys::set_signal_mask(before);
    result
}

/// Ends the calling thread and unmaps `[at, at+len)`, which includes the thread's stack. No other thread of the address space may run in
/// this memory.
///
/// # Safety
/// This memory is not used any more.
pub(crate) unsafe fn end_with_memory(at: usize, len: usize) -> ! {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the caller guarantees that the memory is unused; neither call needs a stack.
    unsafe {
        core::arch::asm!("syscall", "mov eax, {exit}", "xor edi, edi", "syscall", "ud2", exit = const libc::SYS_exit,
            in("rax") libc::SYS_munmap, in("rdi") at, in("rsi") len, options(noreturn, nostack));
    }
    #[cfg(target_arch = "aarch64")]
    // SAFETY: the caller guarantees that the memory is unused; neither call needs a stack.
    unsafe {
        core::arch::asm!("svc 0", "mov x8, {exit}", "mov x0, 0", "svc 0", "brk 1", exit = const libc::SYS_exit,
            in("x8") libc::SYS_munmap, in("x0") at, in("x1") len, options(noreturn, nostack));
    }
}

/// Ends the calling thread.
pub(crate) fn end() -> ! {
    loop {
        // SAFETY: does not return.
        unsafe { sys::call(libc::SYS_exit, [0; 6]) };
    }
}

/// Returns whether a thread of this process is still running.
pub(crate) fn is_alive(thread: u32) -> bool {
    let process = rustix::process::getpid().as_raw_nonzero().get() as usize;
    // SAFETY: sends no signal.
    unsafe { sys::call(libc::SYS_tgkill, [process, thread as usize, 0, 0, 0, 0]) == 0 }
}
