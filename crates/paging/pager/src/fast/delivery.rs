//! Delivery of signals to the program.
//!
//! The kernel writes a signal's frame without involving the pager, and ends a program if the page of its stack is missing. Therefore all
//! frames of the kernel go to the thread's block: the handler that the kernel knows is fast mode's. This handler makes the frame that the
//! program expects, on the stack that the program's flags select, and continues in the program's handler. In this way, pages of the
//! program's stacks can be evicted like all its memory, and no code of the program ever runs on a block.

use super::action::Action;
use super::context::{RED_ZONE, ThreadContext, floating_point_len, resume};
use super::hold;
use super::prepare::{hold_again, hold_some};
use super::thread::{Stack, Thread};
use core::ffi::c_int;

/// Bytes of the kernel's `ucontext` in a signal frame.
const CONTEXT: usize = 304;
/// Bytes of the kernel's `siginfo`, which follows the `ucontext`.
const INFO: usize = size_of::<libc::siginfo_t>();
/// Flag of an alternate stack that is disarmed while a handler runs on it.
const SS_AUTODISARM: i32 = 1 << 31;
/// Processor flags that are cleared for a handler: direction, trap, resume.
const CLEARED: usize = 0x400 | 0x100 | 0x1_0000;

/// Makes the thread continue in the program's handler when the current handler returns. The interrupted state is in a new frame, through
/// which the program's handler returns.
pub(super) fn deliver(
    thread: &Thread,
    signal: c_int,
    info: &libc::siginfo_t,
    context: &mut ThreadContext,
    action: &Action,
) {
    let alternate = thread.alternate.get();
    let pointer = context.register(libc::REG_RSP);
    let is_alternate = action.has(libc::SA_ONSTACK) && alternate.is_armed() && !alternate.contains(pointer);
    let top = if is_alternate { alternate.base + alternate.size } else { pointer - RED_ZONE };
    let state = context.0.uc_mcontext.fpregs as usize;
    let state_len = floating_point_len(state);
    let state_at = (top - state_len) & !63;
    // The stack is aligned as after a call: a multiple of 16, and below it the return address.
    let frame = ((state_at - size_of::<usize>() - CONTEXT - INFO) & !15) - size_of::<usize>();
    let (context_at, info_at) = (frame + size_of::<usize>(), frame + size_of::<usize>() + CONTEXT);
    let blocked = context.blocked(thread);
    // SAFETY: an unused part of the program's stack. Pages may be missing: a fault here is handled like any other. If there is no memory at
    // all, the process ends by `SIGSEGV`, as it would in a native run.
    unsafe {
        (frame as *mut usize).write(action.restorer());
        core::ptr::copy_nonoverlapping(state as *const u8, state_at as *mut u8, state_len);
        core::ptr::copy_nonoverlapping(&raw const *context as *const u8, context_at as *mut u8, CONTEXT);
        core::ptr::copy_nonoverlapping(&raw const *info as *const u8, info_at as *mut u8, INFO);
        let copy = context_at as *mut ThreadContext;
        (&raw mut (*copy).0.uc_mcontext.fpregs).write(state_at as *mut _);
        (&raw mut (*copy).0.uc_stack).cast::<Stack>().write(alternate);
        (&raw mut (*copy).0.uc_sigmask).cast::<u64>().write(blocked);
    }
    if context.stands_at_call() {
        hold::keep(thread, frame);
    }
    if alternate.flags & SS_AUTODISARM != 0 {
        thread.alternate.set(Stack::NONE);
    }
    context.block(thread, blocked | action.blocks(signal));
    let registers = [
        (libc::REG_RIP, action.handler()),
        (libc::REG_RSP, frame),
        (libc::REG_RDI, signal as usize),
        (libc::REG_RSI, info_at),
        (libc::REG_RDX, context_at),
        (libc::REG_RAX, 0),
        (libc::REG_EFL, context.register(libc::REG_EFL) & !CLEARED),
    ];
    registers.iter().for_each(|(which, value)| context.set_register(*which, *value));
    // Handlers begin with the initial floating-point state. The null pointer makes the kernel use that state.
    context.0.uc_mcontext.fpregs = core::ptr::null_mut();
}

/// Returns from the program's signal handler to the interrupted code.
pub(super) fn return_from_signal(thread: &Thread, context: &ThreadContext) -> ! {
    /// Number of bytes that contain most of the floating-point state.
    const STATE: usize = 4096;
    let frame = context.register(libc::REG_RSP);
    hold_some(thread, frame, CONTEXT);
    // SAFETY: the program's frame, which `deliver` made. The program may have changed it, as in a native run.
    let target = unsafe { &mut *(frame as *mut ThreadContext) };
    hold_some(thread, target.0.uc_mcontext.fpregs as usize, STATE);
    // SAFETY: a part of the frame, in which any bytes are valid.
    let stack = unsafe { &mut *(&raw mut target.0.uc_stack).cast::<Stack>() };
    thread.alternate.set(if stack.flags & libc::SS_DISABLE == 0 { *stack } else { Stack::NONE });
    // The kernel sets the alternate stack from the frame. Therefore the frame must name the block's stack.
    *stack = thread.stack();
    let blocked = *target.mask();
    target.block(thread, blocked);
    hold_again(thread, target);
    hold::end(thread, frame - size_of::<usize>());
    // SAFETY: the kernel itself will read the same frame.
    unsafe { resume(thread, frame) }
}
