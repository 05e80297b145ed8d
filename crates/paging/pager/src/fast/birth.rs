//! Creation of threads, of forks, and of children that share the parent's memory until they run another program.
//!
//! The parent's handler makes the system call. A child that shares memory begins on the stack in the child's block. It has a copy of the
//! parent's signal frame, with a different stack pointer and result, and it continues the program from that copy.

use super::context::{ThreadContext, floating_point_len, resume};
use super::descriptors;
use super::dispatch::{dispatch, enable};
use super::engine::{FastMode, lock};
use super::hold::release;
use super::outcome::{CallEffect, refuse};
use super::prepare::{fetch, hold_some};
use super::raw::{self, Args};
use super::signals;
use super::start::{start_engine, start_local_engine, start_ticking};
use super::thread::Thread;
use crate::control::Unpaged;
use crate::sys::now_ns;
use crate::{attached, gate, heap, pins};
use rustix::io::Errno;

/// Parameters of a new thread or process: the fields of `struct clone_args` that all kernels know.
#[derive(Debug, Clone, Copy)]
struct CloneFields {
    flags: u64,
    pidfd: usize,
    child_tid: usize,
    parent_tid: usize,
    exit_signal: usize,
    stack: usize,
    stack_size: usize,
    tls: usize,
}

const CLEAR_SIGHAND: u64 = 0x1_0000_0000;

/// Handles system calls that create or end threads; returns `None` for other calls.
pub(super) fn outcome(
    thread: &Thread,
    context: &mut ThreadContext,
    number: i64,
    args: Args,
) -> Option<CallEffect> {
    let wish = match number {
        libc::SYS_clone => Ok(CloneFields::from_clone(args)),
        libc::SYS_clone3 => CloneFields::from_clone3(thread, args),
        libc::SYS_vfork => {
            let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
            Ok(CloneFields::from_clone([flags as usize, 0, 0, 0, 0, 0]))
        }
        libc::SYS_fork => Ok(CloneFields::from_clone([libc::SIGCHLD as usize, 0, 0, 0, 0, 0])),
        libc::SYS_exit => {
            // Also releases memory held for calls that handlers interrupted, because the thread ends inside these handlers.
            release(thread, usize::MAX);
            thread.leave();
            return Some(CallEffect::GoOn(args));
        }
        _ => return None,
    };
    Some(CallEffect::Made(wish.map_or_else(|error| error, |wish| begin(thread, context, wish))))
}

impl CloneFields {
    fn from_clone([flags, stack, parent_tid, child_tid, tls, _]: Args) -> CloneFields {
        const SIGNAL: u64 = 0xff;
        let flags = flags as u64;
        CloneFields {
            flags: flags & !(SIGNAL | libc::CLONE_DETACHED as u64),
            pidfd: parent_tid,
            child_tid,
            parent_tid,
            exit_signal: (flags & SIGNAL) as usize,
            stack,
            stack_size: 0,
            tls,
        }
    }

    fn from_clone3(thread: &Thread, [at, size, ..]: Args) -> Result<CloneFields, isize> {
        if size < 64 {
            return Err(raw::error(Errno::INVAL));
        }
        let [flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls] =
            fetch::<[usize; 8]>(thread, at)?;
        if size > 64 && fetch::<usize>(thread, at + 72)? != 0 {
            refuse("clone3 with chosen process numbers");
        }
        let flags = flags as u64;
        Ok(CloneFields { flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls })
    }

    fn has(&self, flag: i32) -> bool {
        self.flags & flag as u64 != 0
    }

    /// Returns whether the child shares memory with its parent only for a moment, while the parent waits.
    fn is_guest(&self) -> bool {
        self.has(libc::CLONE_VFORK) && !self.has(libc::CLONE_THREAD)
    }

    /// Returns the address where the child's stack begins, or 0 if the child uses its parent's stack.
    fn stack_top(&self) -> usize {
        self.stack + self.stack_size
    }
}

fn begin(thread: &Thread, context: &mut ThreadContext, wish: CloneFields) -> isize {
    for word in [wish.pidfd, wish.child_tid, wish.parent_tid] {
        hold_some(thread, word, 4);
    }
    if wish.has(libc::CLONE_CHILD_CLEARTID) {
        // The kernel writes to this address when the child has ended.
        pins::pin_range(wish.child_tid, wish.child_tid + 4);
    }
    if !wish.has(libc::CLONE_VM) {
        return fork(thread, context, wish);
    }
    if !wish.has(libc::CLONE_THREAD) && !wish.is_guest() {
        refuse("clone of a process that shares memory");
    }
    let Some(child) = Thread::take(&lock()) else { return raw::error(Errno::AGAIN) };
    // The child inherits its parent's mask. It has an alternate stack only if it continues on its parent's stack.
    child.blocked.set(thread.blocked.get());
    if wish.is_guest() {
        child.alternate.set(thread.alternate.get());
    }
    child.set_guest(wish.is_guest());
    let frame = copy_frame(context, child, wish.stack_top());
    let result = start(wish, child, frame);
    if raw::is_error(result) || wish.is_guest() {
        // The child was not created, runs another program, or has ended.
        release(child, usize::MAX);
        child.release();
    }
    result
}

/// Forks the process. Because the whole address space is copied, every page must be in it, and the lock keeps the pages there. The child
/// has only this thread, no registered memory, and new bookkeeping.
fn fork(thread: &Thread, context: &mut ThreadContext, wish: CloneFields) -> isize {
    if thread.is_guest() {
        refuse("fork in a child of vfork");
    }
    let mut engine = lock();
    let handlers = signals::lock();
    thaw(&mut engine);
    let args = CloneArgs::new(wish, 0, 0);
    let request = [&raw const args as usize, size_of::<CloneArgs>(), 0, 0, 0, 0];
    // SAFETY: the program's own call; parent and child both continue here, each in its own memory.
    let result = unsafe { raw::call(libc::SYS_clone3 as usize, request) };
    if result != 0 {
        return result;
    }
    drop(handlers);
    let control = engine.space.control;
    engine.forget();
    // SAFETY: this process has one thread, which uses no earlier allocation.
    attached::keep_path_over(|| unsafe { heap::reset() });
    descriptors::close_all();
    thread.be_alone(rustix::thread::gettid().as_raw_nonzero().get() as u32);
    thread.holds.set(false);
    let started = start_engine(control);
    if let Err(why) = started {
        descriptors::close_all();
        start_local_engine(control, why);
    }
    if dispatch(thread).is_err() {
        gate::die(control, "cannot handle system calls in a forked process");
    }
    // Without these ticks, no page is ever evicted.
    if started.is_ok() && start_ticking().is_err() {
        control.note_unpaged(Unpaged::Limits);
    }
    if wish.stack != 0 {
        context.set_register(libc::REG_RSP, wish.stack_top());
    }
    0
}

/// Puts every page into the program. Fetches in flight are cancelled by this.
fn thaw(engine: &mut FastMode) {
    let now = now_ns();
    for id in engine.space.pages.thawing() {
        engine.space.put_back(id, false, now);
    }
    engine.forked_ns = now;
}

/// Makes a signal frame for the child on the stack of the child's block. The child continues the program from this frame. Returns the
/// frame's address.
fn copy_frame(context: &ThreadContext, child: &Thread, stack_top: usize) -> usize {
    let stack = child.stack();
    let state = context.0.uc_mcontext.fpregs as usize;
    let state_len = floating_point_len(state);
    let state_at = (stack.base + stack.size - state_len) & !63;
    let frame = (state_at - size_of::<ThreadContext>() - 64) & !63;
    // SAFETY: the kernel's frame exists during the handler. The block belongs to the child, which does not run yet, and has enough room,
    // because a frame takes a few KiB.
    unsafe {
        core::ptr::copy_nonoverlapping(state as *const u8, state_at as *mut u8, state_len);
        core::ptr::copy_nonoverlapping(context, frame as *mut ThreadContext, 1);
        let copy = &mut *(frame as *mut ThreadContext);
        copy.0.uc_mcontext.fpregs = state_at as *mut _;
        copy.0.uc_stack.ss_sp = stack.base as *mut _;
        copy.0.uc_stack.ss_flags = 0;
        copy.0.uc_stack.ss_size = stack.size;
        copy.set_result(0);
        if stack_top != 0 {
            copy.set_register(libc::REG_RSP, stack_top);
        }
    }
    frame
}

/// Creates the child. Returns only in the parent.
fn start(wish: CloneFields, child: &'static Thread, frame: usize) -> isize {
    let bottom = child.stack().base;
    let args = CloneArgs::new(wish, bottom, (frame - bottom) & !63);
    let result;
    // SAFETY: the child begins on its block's stack, below its frame, and never returns here. It shares all memory, and the kernel keeps
    // the parent's registers.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 2f",
            "xor ebp, ebp",
            "mov rdi, r12",
            "mov rsi, r13",
            "call {live}",
            "ud2",
            "2:",
            live = sym live,
            inlateout("rax") libc::SYS_clone3 as usize => result,
            in("rdi") &raw const args,
            in("rsi") size_of::<CloneArgs>(),
            in("r12") child,
            in("r13") frame,
            out("rcx") _,
            out("r11") _,
        );
    }
    result
}

#[repr(C)]
struct CloneArgs {
    flags: u64,
    pidfd: usize,
    child_tid: usize,
    parent_tid: usize,
    exit_signal: usize,
    stack: usize,
    stack_size: usize,
    tls: usize,
}

impl CloneArgs {
    fn new(wish: CloneFields, stack: usize, stack_size: usize) -> CloneArgs {
        let CloneFields { flags, pidfd, child_tid, parent_tid, exit_signal, tls, .. } = wish;
        // The installed handlers are fast mode's. They stay until the child runs another program.
        let flags = flags & !CLEAR_SIGHAND;
        CloneArgs { flags, pidfd, child_tid, parent_tid, exit_signal, stack, stack_size, tls }
    }
}

/// Runs first in the new child: sets up the child's thread, then continues the program.
extern "C" fn live(thread: &'static Thread, frame: usize) -> ! {
    let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
    thread.settle(tid);
    pins::pin_this_thread();
    // SAFETY: this thread's own block, whose stack the thread leaves below.
    if unsafe { enable(thread) }.is_err() {
        gate::die(
            attached::control().expect("attached before"),
            "a new thread cannot have its faults handled",
        );
    }
    // SAFETY: made by `copy_frame`.
    unsafe { resume(thread, frame) }
}
