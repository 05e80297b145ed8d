//! The program's signals. Its masks never really block `SIGBUS` and `SIGSYS`, the two signals of fast mode. For each signal that the
//! program handles, the kernel has a handler of fast mode instead. Fast mode remembers the action that the program has set, returns it when
//! the program asks for it, and performs it when the signal comes.

use super::action::{Action, bit};
use super::context::ThreadContext;
use super::delivery::{deliver, return_from_signal};
use super::lock::{Lock, LockGuard};
use super::outcome::CallEffect;
use super::prepare::{fetch, hold_some, prepare, store};
use super::raw::{self, Args, Plain};
use super::thread::{OURS, Stack, Thread};
use core::ffi::c_int;
use rustix::io::Errno;

// SAFETY: numbers, without padding except behind `flags`, which is written as zero.
unsafe impl Plain for Stack {
    const ZERO: Stack = Stack::NONE;
}

const SIGNALS: usize = 65;

/// Handlers of the process.
pub(super) struct Handlers {
    /// Action that the kernel gets in place of each handler of the program.
    any: Action,
    /// Last handler that the program set for each signal; for `SIGBUS` and `SIGSYS`, the last action of any kind.
    of_program: [Action; SIGNALS],
}

static HANDLERS: Lock<Handlers> = Lock::new();

/// Waits for the lock on the table of handlers. A fork has to hold it; otherwise the child could wait forever for a thread that exists only
/// in the parent.
pub(super) fn lock() -> LockGuard<Handlers> {
    HANDLERS.lock()
}

/// Begins to remember handlers; the program has not set any yet. The kernel gets `any` in place of each.
pub(super) fn start(any: Action) {
    HANDLERS.put(Handlers { any, of_program: [Action::DEFAULT; SIGNALS] });
}

fn is_ours(signal: c_int) -> bool {
    OURS & bit(signal) != 0
}

/// Unblocks `SIGBUS` and `SIGSYS`, which the program may have inherited as blocked.
pub(super) fn unblock_ours(thread: &Thread) {
    let (ours, mut before) = (OURS, 0u64);
    let sets = [&raw const ours as usize, &raw mut before as usize];
    let args = [libc::SIG_UNBLOCK as usize, sets[0], sets[1], size_of::<u64>(), 0, 0];
    // SAFETY: reads and writes 8 bytes of this function's memory each.
    unsafe { raw::call(libc::SYS_rt_sigprocmask as usize, args) };
    thread.blocked.set(before & OURS);
}

/// Handles system calls about signals; returns `None` for other calls.
pub(super) fn outcome(
    thread: &Thread,
    context: &mut ThreadContext,
    number: i64,
    args: Args,
) -> Option<CallEffect> {
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
    Some(CallEffect::Made(made.unwrap_or_else(|error| error)))
}

fn sigaction(thread: &Thread, args: Args) -> Result<isize, isize> {
    let [signal, new, old, size, ..] = args;
    let signal = signal as u32 as usize;
    if size != size_of::<u64>() || !(1..SIGNALS).contains(&signal) {
        return Err(raw::error(Errno::INVAL));
    }
    let new = if new == 0 { None } else { Some(fetch::<Action>(thread, new)?) };
    let before = lock().set(thread, signal as c_int, new)?;
    if old != 0 {
        store(thread, old, before)?;
    }
    Ok(0)
}

impl Handlers {
    /// Sets an action as the program requested, and returns the previous one from the program's view.
    fn set(&mut self, thread: &Thread, signal: c_int, new: Option<Action>) -> Result<Action, isize> {
        let known = self.of_program[signal as usize];
        let before = if is_ours(signal) {
            known
        } else {
            let told = new.map(|action| action.for_kernel(&self.any, thread.is_guest()));
            let before = Action::exchange(signal, told.as_ref())?;
            before.as_program_knows(&self.any, known)
        };
        // A child that shares memory until it runs another program has separate actions in the kernel. Therefore its actions must not be
        // stored in the shared table.
        if let Some(action) =
            new.filter(|action| !thread.is_guest() && (is_ours(signal) || action.is_handler()))
        {
            self.of_program[signal as usize] = action;
        }
        Ok(before)
    }

    /// Returns the program's action for a `SIGBUS` or `SIGSYS` that is meant for the program.
    fn take(&mut self, signal: c_int) -> Action {
        let action = self.of_program[signal as usize];
        if action.is_handler() && action.has(libc::SA_RESETHAND) {
            self.of_program[signal as usize] = Action::DEFAULT;
        }
        action
    }
}

/// Changes the signal mask with which the thread resumes.
fn sigprocmask(thread: &Thread, context: &mut ThreadContext, args: Args) -> Result<isize, isize> {
    let [how, new, old, size, ..] = args;
    if size != size_of::<u64>() {
        return Err(raw::error(Errno::INVAL));
    }
    let before = context.blocked(thread);
    if new != 0 {
        let set = fetch::<usize>(thread, new)? as u64;
        let blocked = match how as c_int {
            libc::SIG_BLOCK => before | set,
            libc::SIG_UNBLOCK => before & !set,
            libc::SIG_SETMASK => set,
            _ => return Err(raw::error(Errno::INVAL)),
        };
        context.block(thread, blocked & !(bit(libc::SIGKILL) | bit(libc::SIGSTOP)));
    }
    if old != 0 {
        store(thread, old, before as usize)?;
    }
    Ok(0)
}

/// Handles `sigaltstack`. The kernel's alternate stack is that of the thread's block; the program's is remembered.
fn sigaltstack(thread: &Thread, context: &ThreadContext, args: Args) -> Result<isize, isize> {
    let [new, old, ..] = args;
    let mut before = thread.alternate.get();
    let is_on = before.contains(context.register(libc::REG_RSP));
    if is_on {
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
            thread.alternate.set(Stack { flags: stack.flags & !libc::SS_ONSTACK, ..stack });
        }
    }
    if old != 0 {
        store(thread, old, before)?;
    }
    Ok(0)
}

/// Handles calls that set a temporary signal mask: removes `SIGBUS` and `SIGSYS` from the mask.
fn masked(thread: &Thread, number: i64, mut args: Args) -> Option<CallEffect> {
    prepare(thread, number, args);
    let mut scratch = [0u64; 3];
    let own = thread.scratch.as_ptr() as usize;
    let (at, argument) = match number {
        libc::SYS_rt_sigsuspend => (args[0], 0),
        libc::SYS_ppoll => (args[3], 3),
        libc::SYS_pselect6 => {
            let Ok([set, size]) = raw::read::<[usize; 2]>(args[5]) else {
                return Some(CallEffect::GoOn(args));
            };
            (scratch[1], scratch[2]) = (own as u64, size as u64);
            hold_some(thread, set, size_of::<u64>());
            (set, 5)
        }
        _ => (args[4], 4),
    };
    let Ok(mask) = raw::read::<usize>(at) else { return Some(CallEffect::GoOn(args)) };
    if mask as u64 & OURS != 0 {
        scratch[0] = mask as u64 & !OURS;
        thread.scratch.set(scratch);
        args[argument] = if number == libc::SYS_pselect6 { own + 8 } else { own };
    }
    Some(CallEffect::GoOn(args))
}

/// Passes a signal on to the handler that the program has set.
pub(super) fn pass_on(thread: &Thread, signal: c_int, info: &libc::siginfo_t, context: &mut ThreadContext) {
    let action = lock().of_program[signal as usize];
    deliver(thread, signal, info, context, &action);
}

/// Passes a `SIGBUS` or `SIGSYS` on to the program, as if the kernel had the program's action.
pub(super) fn pass_on_ours(
    thread: &Thread,
    signal: c_int,
    info: &libc::siginfo_t,
    context: &mut ThreadContext,
) {
    let is_fault = info.si_code > 0;
    // The kernel does not let a program block or ignore a fault.
    if is_fault && thread.blocked.get() & bit(signal) != 0 {
        return end_by(signal);
    }
    let action = lock().take(signal);
    match action.handler() {
        libc::SIG_IGN if !is_fault => {}
        libc::SIG_DFL | libc::SIG_IGN => end_by(signal),
        _ => deliver(thread, signal, info, context, &action),
    }
}

/// Ends the process as the kernel would have done.
fn end_by(signal: c_int) {
    let (pid, tid) = (rustix::process::getpid(), rustix::thread::gettid());
    let [pid, tid] = [pid, tid].map(|id| id.as_raw_nonzero().get() as usize);
    let _ = Action::DEFAULT.install(signal);
    // SAFETY: signals this thread, and the signal takes effect when the handler returns.
    unsafe { raw::call(libc::SYS_tgkill as usize, [pid, tid, signal as usize, 0, 0, 0]) };
}
