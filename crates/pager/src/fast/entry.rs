//! Entry from the kernel at a missing page (`SIGBUS`) and at a system call (`SIGSYS`, by Syscall User Dispatch),
//! and return to the program.
//!
//! Both handlers run on the thread's own block ([`Thread`]) with all signals blocked, and end before any code of
//! the program runs again: no code of the program ever stands on top of them.
//!
//! A call that proceeds by itself is made by `unrack_fast_call`, on the program's own stack, below its red zone,
//! where its return address waits. For unwinders and for interruptions this is a function call.
//!
//! Reference: `Documentation/admin-guide/syscall-user-dispatch.rst`.

use super::calls::{self, hold_again};
use super::engine::{Fault, resolve};
use super::hold::release;
use super::raw::{self, Args};
use super::signals;
use super::thread::{ALLOW, DISPATCH, Thread};
use crate::sys::now_ns;
use rustix::io::Errno;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

std::arch::global_asm!(
    ".pushsection .text.unrack_fast, \"ax\", @progbits",
    ".globl unrack_fast_call, unrack_fast_call_changed, unrack_fast_return",
    ".hidden unrack_fast_call, unrack_fast_call_changed, unrack_fast_return",
    // At [rsp]: where to go on; above it the program's red zone.
    "unrack_fast_call:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 136",
    ".cfi_offset rip, -136",
    "syscall",
    "ret 128",
    ".cfi_endproc",
    // The same with the arguments' registers as the program knows them, before the address.
    "unrack_fast_call_changed:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 184",
    ".cfi_offset rip, -136",
    "syscall",
    "pop rdi",
    "pop rsi",
    "pop rdx",
    "pop r10",
    "pop r8",
    "pop r9",
    "ret 128",
    ".cfi_endproc",
    // Unwinders recognize the frame of a signal by these very bytes.
    "unrack_fast_return:",
    ".byte 0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0",
    "syscall",
    ".popsection",
);

unsafe extern "C" {
    fn unrack_fast_call();
    fn unrack_fast_call_changed();
    fn unrack_fast_return();
}

const RED_ZONE: usize = 128;

/// State of an interrupted thread of the program; changes here take effect when it goes on.
#[repr(transparent)]
pub struct Context(pub libc::ucontext_t);

impl Context {
    /// Returns a register.
    pub fn register(&self, which: c_int) -> usize {
        self.0.uc_mcontext.gregs[which as usize] as usize
    }

    /// Changes a register.
    pub fn set_register(&mut self, which: c_int, value: usize) {
        self.0.uc_mcontext.gregs[which as usize] = value as i64;
    }

    /// Returns the number of the system call.
    pub fn number(&self) -> i64 {
        self.register(libc::REG_RAX) as i64
    }

    /// Returns the arguments of the system call.
    pub fn args(&self) -> Args {
        ARGUMENTS.map(|which| self.register(which))
    }

    /// Sets the result of the system call.
    pub fn set_result(&mut self, result: isize) {
        self.set_register(libc::REG_RAX, result as usize);
    }

    /// Returns the blocked signals: the kernel's sets have 64 bits.
    pub fn mask(&mut self) -> &mut u64 {
        // SAFETY: the C library's set begins with the kernel's, and any bits are valid.
        unsafe { &mut *(&raw mut self.0.uc_sigmask).cast() }
    }

    /// Returns whether the thread is about to make a call that was sent to [`go_on`].
    pub fn stands_at_call(&self) -> bool {
        let at = self.register(libc::REG_RIP);
        at == unrack_fast_call as *const () as usize || at == unrack_fast_call_changed as *const () as usize
    }
}

const ARGUMENTS: [c_int; 6] =
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];

/// Has the thread make its call by itself when the handler returns.
pub fn go_on(context: &mut Context, args: Args) {
    let before = context.args();
    let back = context.register(libc::REG_RIP);
    let mut stack = context.register(libc::REG_RSP) - RED_ZONE;
    let mut push = |value: usize| {
        stack -= 8;
        // SAFETY: the program's stack, where it has nothing yet. The page may be missing: a fault here is handled
        // like any other.
        unsafe { (stack as *mut usize).write(value) };
    };
    push(back);
    if args != before {
        before.iter().rev().for_each(|value| push(*value));
        ARGUMENTS.iter().zip(args).for_each(|(which, value)| context.set_register(*which, value));
        context.set_register(libc::REG_RIP, unrack_fast_call_changed as *const () as usize);
    } else {
        context.set_register(libc::REG_RIP, unrack_fast_call as *const () as usize);
    }
    context.set_register(libc::REG_RSP, stack);
}

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
        calls::refuse("a system call inside of another");
    } else {
        calls::handle(thread, context);
    }
    thread.selector.store(before, Relaxed);
}

/// Returns from the program's handler of a signal to the interrupted code.
pub fn return_from_signal(thread: &Thread, context: &Context) -> ! {
    /// Bytes of a context that the kernel reads; below, of most of the floating-point state that it points to.
    const CONTEXT: usize = 304;
    const STATE: usize = 4096;
    let frame = context.register(libc::REG_RSP);
    calls::hold_some(thread, frame, CONTEXT);
    // SAFETY: the program's frame, as the kernel made it; the program may have changed it, as it always may.
    let target = unsafe { &mut *(frame as *mut Context) };
    calls::hold_some(thread, target.0.uc_mcontext.fpregs as usize, STATE);
    *target.mask() &= !signals::OURS;
    hold_again(thread, target);
    // SAFETY: the kernel itself will read the same frame.
    unsafe { resume(thread, frame) }
}

/// Leaves our handler for the state in a frame that the kernel, or we, made.
///
/// # Safety
/// `frame` is the address of the `ucontext` of such a frame.
pub unsafe fn resume(thread: &Thread, frame: usize) -> ! {
    thread.selector.store(DISPATCH, Relaxed);
    // SAFETY: as the caller says. This stack is not used again.
    unsafe {
        std::arch::asm!("mov rsp, {}", "jmp {}", in(reg) frame, sym unrack_fast_return, options(noreturn));
    }
}

/// Address and length from [`own_text`]: threads that begin cannot ask the loader.
static TEXT: [AtomicUsize; 2] = [AtomicUsize::new(0), AtomicUsize::new(0)];

/// Installs the handlers, for the whole process.
pub fn install() -> Result<(), Errno> {
    let (start, len) = own_text().ok_or(Errno::NOENT)?;
    TEXT[0].store(start, Relaxed);
    TEXT[1].store(len, Relaxed);
    let returns = unrack_fast_return as *const () as usize;
    for (signal, handler) in [(libc::SIGBUS, on_bus as *const ()), (libc::SIGSYS, on_call as *const ())] {
        const FLAGS: usize = (libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER) as usize;
        let mask = !signals::OURS as usize;
        let action = [handler as usize, FLAGS | signals::SA_RESTORER, returns, mask];
        let args = [signal as usize, action.as_ptr() as usize, 0, size_of::<u64>(), 0, 0];
        // SAFETY: the action is the kernel's `struct sigaction`, and the handlers are made for it.
        check(unsafe { raw::call(libc::SYS_rt_sigaction as usize, args) })?;
    }
    Ok(())
}

const PR_SET_SYSCALL_USER_DISPATCH: usize = 59;

/// Returns whether the kernel supports Syscall User Dispatch: switching it off has no other effect.
pub fn can_dispatch() -> bool {
    // SAFETY: it is off.
    unsafe { raw::call(libc::SYS_prctl as usize, [PR_SET_SYSCALL_USER_DISPATCH, 0, 0, 0, 0, 0]) == 0 }
}

/// Directs the calling thread's faults and calls here from now on.
///
/// # Safety
/// `thread` is the calling thread's, which does not stand on its block's stack or is about to leave it.
pub unsafe fn enable(thread: &Thread) -> Result<(), Errno> {
    let stack = thread.stack();
    // SAFETY: this thread's own memory, which stays.
    check(unsafe { raw::call(libc::SYS_sigaltstack as usize, [&raw const stack as usize, 0, 0, 0, 0, 0]) })?;
    dispatch(thread)
}

/// Does the part of [`enable`] that a fork does not copy.
pub fn dispatch(thread: &Thread) -> Result<(), Errno> {
    const PR_SYS_DISPATCH_ON: usize = 1;
    let [start, len] = TEXT.each_ref().map(|part| part.load(Relaxed));
    let selector = thread.selector.as_ptr() as usize;
    let dispatch = [PR_SET_SYSCALL_USER_DISPATCH, PR_SYS_DISPATCH_ON, start, len, selector, 0];
    // SAFETY: the selector is this thread's own, and stays.
    check(unsafe { raw::call(libc::SYS_prctl as usize, dispatch) })
}

fn check(result: isize) -> Result<(), Errno> {
    match result {
        0.. => Ok(()),
        error => Err(Errno::from_raw_os_error(-error as i32)),
    }
}

/// Returns the instructions of this library: the executable segment that holds these.
fn own_text() -> Option<(usize, usize)> {
    const FOLLOWING: usize = 16;
    let here = unrack_fast_call as *const () as usize;
    struct Found {
        here: usize,
        text: Option<(usize, usize)>,
    }
    extern "C" fn look(info: *mut libc::dl_phdr_info, _: usize, found: *mut c_void) -> c_int {
        // SAFETY: the loader's description of an object, and our own `Found`.
        let (info, found) = unsafe { (&*info, &mut *(found as *mut Found)) };
        for n in 0..info.dlpi_phnum as usize {
            // SAFETY: there are this many headers.
            let segment = unsafe { &*info.dlpi_phdr.add(n) };
            let start = info.dlpi_addr as usize + segment.p_vaddr as usize;
            let len = segment.p_memsz as usize;
            if segment.p_flags & libc::PF_X != 0 && (start..start + len).contains(&found.here) {
                // The kernel compares the address behind the instruction.
                found.text = Some((start, len + FOLLOWING));
            }
        }
        0
    }
    let mut found = Found { here, text: None };
    // SAFETY: `look` is made for this.
    unsafe { libc::dl_iterate_phdr(Some(look), (&raw mut found).cast()) };
    found.text
}
