//! The program's signals. Its masks never block `SIGBUS` and `SIGSYS`; its actions for those two are remembered,
//! and done when they are meant for it.

use super::context::{Context, resume};
use super::outcome::Outcome;
use super::prepare::{fetch, hold_again, hold_some, prepare, store};
use super::raw::{self, Args, Plain};
use super::thread::{ALLOW, DISPATCH, Stack, Thread};
use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use rustix::io::Errno;

pub(super) const SA_RESTORER: usize = 0x0400_0000;
/// Signals that must not be blocked while code of the program runs: a fault then would end the process.
pub(super) const OURS: u64 = bit(libc::SIGBUS) | bit(libc::SIGSYS);

const fn bit(signal: c_int) -> u64 {
    1 << (signal - 1)
}

/// The kernel's `struct sigaction`: handler, flags, restorer, mask.
type Action = [usize; 4];
const HANDLER: usize = 0;
const MASK: usize = 3;

// SAFETY: numbers, without padding except behind `flags`, which is written as zero.
unsafe impl Plain for Stack {
    const ZERO: Stack = Stack::NONE;
}

/// Actions that the program has set for our two signals.
static WISHES: [[AtomicUsize; 4]; 2] = [const { [const { AtomicUsize::new(0) }; 4] }; 2];

fn wish(signal: c_int) -> Option<&'static [AtomicUsize; 4]> {
    match signal {
        libc::SIGBUS => Some(&WISHES[0]),
        libc::SIGSYS => Some(&WISHES[1]),
        _ => None,
    }
}

/// Handles calls about signals; `None` for other calls.
pub(super) fn outcome(thread: &Thread, context: &mut Context, number: i64, args: Args) -> Option<Outcome> {
    let made = match number {
        libc::SYS_rt_sigaction => sigaction(thread, args),
        libc::SYS_rt_sigprocmask => sigprocmask(thread, context, args),
        libc::SYS_sigaltstack => sigaltstack(thread, context, args),
        libc::SYS_rt_sigreturn => return_from_signal(thread, context),
        libc::SYS_rt_sigsuspend | libc::SYS_ppoll | libc::SYS_pselect6 => {
            return masked(thread, number, args);
        }
        libc::SYS_epoll_pwait | libc::SYS_epoll_pwait2 => return masked(thread, number, args),
        _ => return None,
    };
    Some(Outcome::Made(made.unwrap_or_else(|error| error)))
}

fn sigaction(thread: &Thread, args: Args) -> Result<isize, isize> {
    let [signal, new, old, ..] = args;
    let mut action = Action::ZERO;
    if new != 0 {
        action = fetch(thread, new)?;
        action[MASK] &= !(OURS as usize);
    }
    let mut before = Action::ZERO;
    match wish(signal as c_int) {
        Some(wish) => {
            before = [0, 1, 2, 3].map(|n| wish[n].load(Relaxed));
            // A child that shares our memory until it becomes another program has actions of its own.
            if new != 0 && !thread.is_guest() {
                wish.iter().zip(action).for_each(|(kept, value)| kept.store(value, Relaxed));
            }
        }
        None => {
            let new = if new == 0 { 0 } else { action.as_ptr() as usize };
            let args = [signal, new, before.as_mut_ptr() as usize, args[3], 0, 0];
            // SAFETY: the program's own call, on our copies.
            let result = unsafe { raw::call(libc::SYS_rt_sigaction as usize, args) };
            if raw::is_error(result) {
                return Err(result);
            }
        }
    }
    if old != 0 {
        store(thread, old, before)?;
    }
    Ok(0)
}

/// Changes the mask with which the thread goes on.
fn sigprocmask(thread: &Thread, context: &mut Context, args: Args) -> Result<isize, isize> {
    let [how, new, old, size, ..] = args;
    if size != size_of::<u64>() {
        return Err(raw::error(Errno::INVAL));
    }
    let before = *context.mask();
    if new != 0 {
        let set = fetch::<usize>(thread, new)? as u64;
        let mask = match how as c_int {
            libc::SIG_BLOCK => before | set,
            libc::SIG_UNBLOCK => before & !set,
            libc::SIG_SETMASK => set,
            _ => return Err(raw::error(Errno::INVAL)),
        };
        *context.mask() = mask & !OURS;
    }
    if old != 0 {
        store(thread, old, before as usize)?;
    }
    Ok(0)
}

/// Handles `sigaltstack`. The kernel's alternate stack is ours; the program's is remembered, and its handlers run
/// on ours.
fn sigaltstack(thread: &Thread, context: &Context, args: Args) -> Result<isize, isize> {
    let [new, old, ..] = args;
    let is_on = thread.is_on_stack(context.register(libc::REG_RSP));
    let mut before = thread.alternate.get();
    if is_on && before.flags & libc::SS_DISABLE == 0 {
        before.flags |= libc::SS_ONSTACK;
    }
    if new != 0 {
        let stack: Stack = fetch(thread, new)?;
        if is_on {
            return Err(raw::error(Errno::PERM));
        }
        if stack.flags & libc::SS_DISABLE != 0 {
            thread.alternate.set(Stack::NONE);
        } else if stack.size < libc::MINSIGSTKSZ {
            return Err(raw::error(Errno::NOMEM));
        } else {
            thread.alternate.set(Stack { flags: 0, ..stack });
        }
    }
    if old != 0 {
        store(thread, old, before)?;
    }
    Ok(0)
}

/// Handles calls that set a mask of their own: removes our signals from it.
fn masked(thread: &Thread, number: i64, mut args: Args) -> Option<Outcome> {
    prepare(thread, number, args);
    let mut scratch = [0u64; 3];
    let own = thread.scratch.as_ptr() as usize;
    let (at, argument) = match number {
        libc::SYS_rt_sigsuspend => (args[0], 0),
        libc::SYS_ppoll => (args[3], 3),
        libc::SYS_pselect6 => {
            let Ok([set, size]) = raw::read::<[usize; 2]>(args[5]) else { return Some(Outcome::GoOn(args)) };
            (scratch[1], scratch[2]) = (own as u64, size as u64);
            hold_some(thread, set, size_of::<u64>());
            (set, 5)
        }
        _ => (args[4], 4),
    };
    let Ok(mask) = raw::read::<usize>(at) else { return Some(Outcome::GoOn(args)) };
    if mask as u64 & OURS != 0 {
        scratch[0] = mask as u64 & !OURS;
        thread.scratch.set(scratch);
        args[argument] = if number == libc::SYS_pselect6 { own + 8 } else { own };
    }
    Some(Outcome::GoOn(args))
}

/// Returns from the program's handler of a signal to the interrupted code.
fn return_from_signal(thread: &Thread, context: &Context) -> ! {
    /// Bytes of a context that the kernel reads; below, of most of the floating-point state that it points to.
    const CONTEXT: usize = 304;
    const STATE: usize = 4096;
    let frame = context.register(libc::REG_RSP);
    hold_some(thread, frame, CONTEXT);
    // SAFETY: the program's frame, as the kernel made it; the program may have changed it, as it always may.
    let target = unsafe { &mut *(frame as *mut Context) };
    hold_some(thread, target.0.uc_mcontext.fpregs as usize, STATE);
    *target.mask() &= !OURS;
    hold_again(thread, target);
    // SAFETY: the kernel itself will read the same frame.
    unsafe { resume(thread, frame) }
}

/// Passes one of our signals on to the program, as if its own handler had been installed.
pub(super) fn pass_on(thread: &Thread, signal: c_int, info: &libc::siginfo_t, context: &mut Context) {
    let wish = wish(signal).expect("a signal of ours").each_ref().map(|part| part.load(Relaxed));
    let is_fault = info.si_code > 0;
    match wish[HANDLER] {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal),
        handler => {
            let mask = *context.mask() | wish[MASK] as u64 & !OURS;
            set_mask(mask);
            thread.selector.store(DISPATCH, Relaxed);
            // SAFETY: the handler that the program set; a plain one ignores the further arguments.
            unsafe {
                let handler: extern "C" fn(c_int, &libc::siginfo_t, &mut Context) =
                    core::mem::transmute(handler);
                handler(signal, info, context);
            }
            set_mask(!OURS);
            *context.mask() &= !OURS;
        }
    }
}

/// Blocks these signals in the calling thread, and no others.
fn set_mask(mask: u64) {
    let args = [libc::SIG_SETMASK as usize, &raw const mask as usize, 0, size_of::<u64>(), 0, 0];
    // SAFETY: reads 8 bytes of ours.
    unsafe { raw::call(libc::SYS_rt_sigprocmask as usize, args) };
}

/// Makes a call right here, with all signals blocked.
pub(super) fn call_here(thread: &Thread, number: i64, args: Args) -> isize {
    thread.selector.store(DISPATCH, Relaxed);
    // SAFETY: the program's own call.
    let result = unsafe { raw::call(number as usize, args) };
    thread.selector.store(ALLOW, Relaxed);
    result
}

/// Ends the process as the kernel would have.
fn end_by(signal: c_int) {
    let action = Action::ZERO;
    let args = [signal as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
    let (pid, tid) = (rustix::process::getpid(), rustix::thread::gettid());
    let [pid, tid] = [pid, tid].map(|id| id.as_raw_nonzero().get() as usize);
    // SAFETY: the default action, and this thread, which the signal ends when the handler is left.
    unsafe {
        raw::call(libc::SYS_rt_sigaction as usize, args);
        raw::call(libc::SYS_tgkill as usize, [pid, tid, signal as usize, 0, 0, 0]);
    }
}
