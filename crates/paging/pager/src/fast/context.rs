//! State of an interrupted thread of the program, and ways back to it.
//!
//! A call that proceeds by itself is made by `unrack_fast_call`, on the program's own stack, below its red zone,
//! where its return address waits. For unwinders and for interruptions this is a function call.

use super::raw::Args;
use super::thread::{DISPATCH, OURS, Thread};
use core::ffi::c_int;
use core::sync::atomic::Ordering::Relaxed;

core::arch::global_asm!(
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

/// Bytes below the stack pointer that belong to the program.
pub(super) const RED_ZONE: usize = 128;

/// State of an interrupted thread of the program; changes here take effect when it goes on.
#[repr(transparent)]
pub(super) struct Context(pub libc::ucontext_t);

impl Context {
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

    /// Returns the blocked signals: the kernel's sets have 64 bits.
    pub(super) fn mask(&mut self) -> &mut u64 {
        // SAFETY: the C library's set begins with the kernel's, and any bits are valid.
        unsafe { &mut *(&raw mut self.0.uc_sigmask).cast() }
    }

    /// Returns the signals that the program believes to be blocked.
    pub(super) fn blocked(&mut self, thread: &Thread) -> u64 {
        *self.mask() | thread.blocked.get()
    }

    /// Blocks these signals when the thread goes on, as far as the program can tell: a fault or a call with ours
    /// blocked would end the process.
    pub(super) fn block(&mut self, thread: &Thread, signals: u64) {
        thread.blocked.set(signals & OURS);
        *self.mask() = signals & !OURS;
    }

    /// Returns whether the thread is about to make a call that was sent to [`go_on`].
    pub(super) fn stands_at_call(&self) -> bool {
        let at = self.register(libc::REG_RIP);
        at == unrack_fast_call as *const () as usize || at == unrack_fast_call_changed as *const () as usize
    }
}

const ARGUMENTS: [c_int; 6] =
    [libc::REG_RDI, libc::REG_RSI, libc::REG_RDX, libc::REG_R10, libc::REG_R8, libc::REG_R9];

/// Returns the size of the state at `fpregs`: the kernel stores it in bytes that processors leave to software.
pub(super) fn floating_point_len(state: usize) -> usize {
    const PLAIN: usize = 512;
    const MAGIC_AT: usize = 464;
    const MAGIC: u32 = 0x4650_5853;
    // SAFETY: the frame holds at least the plain state.
    let [magic, len] = unsafe { *((state + MAGIC_AT) as *const [u32; 2]) };
    if magic == MAGIC { len as usize } else { PLAIN }
}

/// Has the thread make its call by itself when the handler returns.
pub(super) fn go_on(context: &mut Context, args: Args) {
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

/// Leaves our handler for the state in a frame that the kernel, or we, made.
///
/// # Safety
/// `frame` is the address of the `ucontext` of such a frame.
pub(super) unsafe fn resume(thread: &Thread, frame: usize) -> ! {
    thread.selector.store(DISPATCH, Relaxed);
    // SAFETY: as the caller says. This stack is not used again.
    unsafe {
        core::arch::asm!("mov rsp, {}", "jmp {}", in(reg) frame, sym unrack_fast_return, options(noreturn));
    }
}

/// Returns an address among this library's instructions.
pub(super) fn own_code() -> usize {
    unrack_fast_call as *const () as usize
}

/// Returns the address at which the kernel's frame of a signal is left.
pub(super) fn signal_return() -> usize {
    unrack_fast_return as *const () as usize
}
