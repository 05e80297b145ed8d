//! Entry from the kernel: at a missing page (`SIGBUS`), at a system call (`SIGSYS`, by Syscall User Dispatch), and at a signal for which
//! the program has a handler.
//!
//! All handlers run on the thread's own block ([`Thread`]) with all signals blocked, and end before any code of the program runs again.
//! Therefore the program's code never runs on top of a handler of fast mode.

use super::action::Action;
use super::calls;
use super::context::{ThreadContext, signal_return};
use super::fault::{ThreadFault, resolve};
use super::hold::release;
use super::outcome::refuse;
use super::signals;
use super::thread::{ALLOW, DISPATCH, Thread};
use crate::sys::now_ns;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

/// Handles `SIGBUS`: a missing page, or an error of the program.
extern "C" fn on_bus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let entered_ns = now_ns();
    let thread = Thread::current();
    let before = thread.selector.swap(ALLOW, Relaxed);
    // SAFETY: the kernel passes both pointers, and this handler alone uses them.
    let (info, context) = unsafe { (&*info, &mut *(context as *mut ThreadContext)) };
    if before == DISPATCH {
        // The fault did not happen inside a handler of fast mode. Therefore the last system call is over.
        release(thread, context.register(libc::REG_RSP));
    }
    let is_fault = info.si_code == libc::BUS_ADRERR && {
        const WRITE: usize = 2;
        // SAFETY: this signal code comes with an address.
        let address = unsafe { info.si_addr() } as usize;
        let write = context.register(libc::REG_ERR) & WRITE != 0;
        resolve(thread, ThreadFault { address, write, entered_ns })
    };
    if !is_fault {
        signals::pass_on_ours(thread, signal, info, context);
    }
    thread.selector.store(before, Relaxed);
}

/// Handles `SIGSYS`: a system call of the program.
extern "C" fn on_call(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const SYS_USER_DISPATCH: c_int = 2;
    let thread = Thread::current();
    let before = thread.selector.swap(ALLOW, Relaxed);
    // SAFETY: the kernel passes both pointers, and this handler alone uses them.
    let (info, context) = unsafe { (&*info, &mut *(context as *mut ThreadContext)) };
    if info.si_code != SYS_USER_DISPATCH {
        signals::pass_on_ours(thread, signal, info, context);
    } else if before == ALLOW {
        refuse("a system call inside of another");
    } else {
        calls::handle(thread, context);
    }
    thread.selector.store(before, Relaxed);
}

/// Handles a signal for which the program has a handler.
extern "C" fn on_signal(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let thread = Thread::current();
    let before = thread.selector.swap(ALLOW, Relaxed);
    // SAFETY: the kernel passes both pointers, and this handler alone uses them.
    let (info, context) = unsafe { (&*info, &mut *(context as *mut ThreadContext)) };
    signals::pass_on(thread, signal, info, context);
    thread.selector.store(before, Relaxed);
}

/// Installs the handlers of fast mode, for the whole process.
pub(super) fn install() -> Result<(), Errno> {
    let ours = |handler: *const ()| Action::ours(handler as usize, signal_return());
    signals::start(ours(on_signal as *const ()));
    for (signal, handler) in [(libc::SIGBUS, on_bus as *const ()), (libc::SIGSYS, on_call as *const ())] {
        ours(handler).install(signal).map_err(|error| Errno::from_raw_os_error(-error as i32))?;
    }
    Ok(())
}
