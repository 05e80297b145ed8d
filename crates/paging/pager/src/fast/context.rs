//! State of an interrupted thread of the program, and the ways to resume it.
//!
//! If a thread makes a system call itself, it does so in `unrack_fast_call`, on the program's own stack. The return address is below the
//! red zone of that stack. For unwinders and for interruptions, this looks like a function call.

use super::raw::Args;
use super::thread::{DISPATCH, OURS, Thread};
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

core::arch::global_asm!(
    ".pushsection .text.unrack_fast, \"ax\", @progbits",
    ".globl unrack_fast_call, unrack_fast_call_changed, unrack_fast_return",
    ".hidden unrack_fast_call, unrack_fast_call_changed, unrack_fast_return",
    // At [rsp]: the address at which to continue; above it, the program's red zone.
    "unrack_fast_call:",
    ".cfi_startproc",
    ".cfi_def_cfa rsp, 136",
    ".cfi_offset rip, -136",
    "syscall",
    "ret 128",
    ".cfi_endproc",
    // The same, but the program's original values of the argument registers are on the stack before the address.
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
    // Unwinders recognize the frame of a signal by exactly these bytes.
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

/// Number of bytes below the stack pointer that belong to the program.
pub(super) const RED_ZONE: usize = 128;

/// State of an interrupted thread of the program. Changes take effect when the thread resumes.
#[repr(transparent)]
pub(super) struct ThreadContext(pub libc::ucontext_t);

impl ThreadContext {
    /// Returns a register.
    pub(super) fn register(&self, which: c_int) -> usize {
        self.0.uc_mcontext.gregs[which as usize] as usize
    }

    /// Changes a register.
    pub(super) fn set_register(&mut self, which: c_int, value: usize) {
        self.0.uc_mcontext.gregs[which as usize] = value as i64;
    }

    /// Returns the number of the system call.
    pub(super) fn number(&self) -> i64 {
        self.register(libc::REG_RAX) as i64
    }

    /// Returns the arguments of the system call.
    pub(super) fn args(&self) -> Args {
        ARGUMENTS.map(|which| self.register(which))
    }

    /// Sets the result of the system call.
    pub(super) fn set_result(&mut self, result: isize) {
        self.set_register(libc::REG_RAX, result as usize);
    }

    /// Returns the set of blocked signals, for modification. The kernel's sets have 64 bits.
    pub(super) fn mask(&mut self) -> &mut u64 {
        // SAFETY: the C library's set begins with the kernel's, and any bits are valid.
        unsafe { &mut *(&raw mut self.0.uc_sigmask).cast() }
    }

    /// Returns the signals that the program believes to be blocked.
    pub(super) fn blocked(&mut self, thread: &Thread) -> u64 {
        *self.mask() | thread.blocked.get()
    }

    /// Blocks these signals when the thread resumes. `SIGBUS` and `SIGSYS` are blocked only from the program's view, because a fault or a
    /// system call would end the process if they were really blocked.
    pub(super) fn block(&mut self, thread: &Thread, signals: u64) {
        thread.blocked.set(signals & OURS);
        *self.mask() = signals & !OURS;
    }

    /// Returns whether the thread is about to make a call for which it was sent to [`go_on`].
    pub(super) fn stands_at_call(&self) -> bool {
        let at = self.register(libc::REG_RIP);
        at == unrack_fast_call as *const () as usize || at == unrack_fast_call_changed as *const () as usize
    }
}

const ARGUMENTS: [c_int; 6] =
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];

/// Returns the size of the floating-point state at `fpregs`. The kernel stores this size in bytes that processors leave to software.
pub(super) fn floating_point_len(state: usize) -> usize {
    const PLAIN: usize = 512;
    const MAGIC_AT: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    // SAFETY: the frame holds at least the plain state.
    let [magic, len] = unsafe { *((state + MAGIC_AT) as *const [u32; 2]) };
    if magic == MAGIC { len as usize } else { PLAIN }
}

/// Makes the thread perform its system call itself, with these arguments, when the handler returns.
pub(super) fn go_on(context: &mut ThreadContext, args: Args) {
    let before = context.args();
    let back = context.register(libc::REG_RIP);
    let mut stack = context.register(libc::REG_RSP) - RED_ZONE;
    let mut push = |value: usize| {
        stack -= 8;
        // SAFETY: an unused part of the program's stack. The page may be missing: a fault here is handled like any other.
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

/// Leaves the current handler and resumes the state in a frame that the kernel or fast mode made.
///
/// # Safety
/// `frame` is the address of the `ucontext` of such a frame.
pub(super) unsafe fn resume(thread: &Thread, frame: usize) -> ! {
    thread.selector.store(DISPATCH, Relaxed);
    // SAFETY: the caller guarantees that the frame is valid. This stack is not used again.
    unsafe {
        core::arch::asm!("mov rsp, {}", "jmp {}", in(reg) frame, sym unrack_fast_return, options(noreturn));
    }
}

/// Returns an address in this library's code.
pub(super) fn own_code() -> usize {
    unrack_fast_call as *const () as usize
}

/// Returns the address of the code through which a handler returns from the kernel's signal frame.
pub(super) fn signal_return() -> usize {
    unrack_fast_return as *const () as usize
}
