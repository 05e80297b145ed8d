//! Entry from the kernel at a missing page (`SIGBUS`) and at a system call (`SIGSYS`, by Syscall User Dispatch).
//!
//! Both handlers run on the thread's own block ([`Thread`]) with all signals blocked, and end before any code of
//! the program runs again: no code of the program ever stands on top of them.

use super::calls;
use super::context::{Context, signal_return};
use super::fault::{Fault, resolve};
use super::hold::release;
use super::outcome::refuse;
use super::raw;
use super::signals;
use super::thread::{ALLOW, DISPATCH, Thread};
use crate::sys::now_ns;
use core::ffi::{c_int, c_void};
use core::sync::atomic::Ordering::Relaxed;
use rustix::io::Errno;

/// Handles `SIGBUS`: a missing page, or an error of the program's.
extern "C" fn on_bus(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    let entered_ns = now_ns();
    let thread = Thread::current();
    let before = thread.selector.swap(ALLOW, Relaxed);
    // SAFETY: the kernel passes both, and nothing else has them.
    let (info, context) = unsafe { (&*info, &mut *(context as *mut Context)) };
    if before == DISPATCH {
        // Not inside our own handler: the last call is over.
        release(thread);
    }
    let is_fault = info.si_code == libc::BUS_ADRERR && {
        const WRITE: usize = 2;
        // SAFETY: this code comes with an address.
        let address = unsafe { info.si_addr() } as usize;
        let write = context.register(libc::REG_ERR) & WRITE != 0;
        resolve(thread, Fault { address, write, entered_ns })
    };
    if !is_fault {
        signals::pass_on(thread, signal, info, context);
    }
    thread.selector.store(before, Relaxed);
}

/// Handles `SIGSYS`: a system call of the program.
extern "C" fn on_call(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    const SYS_USER_DISPATCH: c_int = 2;
    let thread = Thread::current();
    let before = thread.selector.swap(ALLOW, Relaxed);
    // SAFETY: the kernel passes both, and nothing else has them.
    let (info, context) = unsafe { (&*info, &mut *(context as *mut Context)) };
    if info.si_code != SYS_USER_DISPATCH {
        signals::pass_on(thread, signal, info, context);
    } else if before == ALLOW {
        refuse("a system call inside of another");
    } else {
        calls::handle(thread, context);
    }
    thread.selector.store(before, Relaxed);
}

/// Installs the handlers, for the whole process.
pub(super) fn install() -> Result<(), Errno> {
    for (signal, handler) in [(libc::SIGBUS, on_bus as *const ()), (libc::SIGSYS, on_call as *const ())] {
        const FLAGS: usize = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as usize;
        let mask = !signals::OURS as usize;
        let action = [handler as usize, FLAGS | signals::SA_RESTORER, signal_return(), mask];
        let args = [signal as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
        // SAFETY: the action is the kernel's `struct sigaction`, and the handlers are made for it.
        raw::check(unsafe { raw::call(libc::SYS_rt_sigaction as usize, args) })?;
    }
    Ok(())
}
