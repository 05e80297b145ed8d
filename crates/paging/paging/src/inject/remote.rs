//! What a stopped thread of a program is made to do: system calls, and functions of the agent.

use crate::proc;
use crate::trace::{Stop, raw};
use libc::user_regs_struct;
use rustix::io::Errno;
use unrack_pager::sys::OURS;

/// Number of no system call: the kernel makes none, and restarts none.
const NO_CALL: u64 = u64::MAX;
/// Bytes of the instruction that makes a system call.
const SYSCALL_LEN: u64 = 2;
const DIRECTION: u64 = 1 << 10;

/// State of a thread from which it goes on as if nothing had happened.
pub(super) struct Saved {
    pub registers: user_regs_struct,
    vector: Vec<u8>,
    mask: u64,
}

impl Saved {
    /// Reads the state, and blocks all signals of the thread.
    pub(super) fn take(thread: u32) -> Result<Saved, Errno> {
        let saved = Saved {
            registers: raw::registers(thread)?,
            vector: raw::vector_state(thread)?,
            mask: raw::signal_mask(thread)?,
        };
        raw::set_signal_mask(thread, u64::MAX)?;
        Ok(saved)
    }

    /// Lets the thread go on after its system call.
    pub(super) fn restore(&self, thread: u32) -> Result<(), Errno> {
        self.restore_signals(thread)?;
        self.restore_registers(thread, self.registers)
    }

    /// Lets the thread make its system call again. Signals stay blocked until [`Saved::restore_signals`], so that nothing
    /// comes between.
    pub(super) fn repeat(&self, thread: u32) -> Result<(), Errno> {
        self.restore_registers(thread, repeated(self.registers))
    }

    /// Lets the thread go on from the stop by `PTRACE_INTERRUPT` in which its state was saved: if it waited in the kernel, it
    /// waits again. It stays stopped.
    pub(super) fn return_to_wait(&self, thread: u32) -> Result<(), Errno> {
        raw::interrupt(thread)?;
        while Stop::Pause != {
            raw::run(thread, 0)?;
            Stop::next(thread)?
        } {}
        self.restore_signals(thread)?;
        raw::set_vector_state(thread, &self.vector)?;
        raw::set_registers(thread, &self.registers)
    }

    pub(super) fn restore_signals(&self, thread: u32) -> Result<(), Errno> {
        raw::set_signal_mask(thread, self.mask)
    }

    fn restore_registers(&self, thread: u32, mut registers: user_regs_struct) -> Result<(), Errno> {
        registers.orig_rax = NO_CALL;
        raw::set_vector_state(thread, &self.vector)?;
        raw::set_registers(thread, &registers)
    }
}

/// Returns the registers of a thread that is about to make its system call again.
pub(super) fn repeated(mut registers: user_regs_struct) -> user_regs_struct {
    registers.rip -= SYSCALL_LEN;
    registers.rax = registers.orig_rax;
    registers
}

/// Has a thread make its system call again that gave up because of our stop alone: some calls do (`epoll_wait(2)`,
/// `sigtimedwait(2)`, calls of sockets with a time limit), and the kernel does not repeat those. Their time begins anew.
pub(super) fn repeat_interrupted(thread: u32) -> Result<(), Errno> {
    let registers = raw::registers(thread)?;
    let gave_up = registers.rax as i64 == -i64::from(libc::EINTR) && registers.orig_rax as i64 >= 0;
    // The descriptor is closed however that ends.
    if gave_up && registers.orig_rax != libc::SYS_close as u64 {
        raw::set_registers(thread, &repeated(registers))?;
    }
    Ok(())
}

/// Lets a thread go on as if this signal, which its process ignores, had not woken it: without a tracer it would not have.
/// Returns false if the process does not ignore it.
pub(crate) fn pass_over(thread: u32, signal: i32) -> bool {
    proc::ignores(thread, signal) && repeat_interrupted(thread).is_ok()
}

/// Returns whether a stopped thread is inside a restartable sequence (`rseq(2)`). It must not make calls for us: the kernel
/// would think that it has left the sequence, and it would not begin that anew.
pub(super) fn is_in_sequence(thread: u32) -> bool {
    let word = |at: usize| {
        let mut word = [0u8; 8];
        raw::read_memory(thread, at, &mut word).ok().map(|()| u64::from_ne_bytes(word))
    };
    let inside = || {
        // `struct rseq` has the address of a `struct rseq_cs`, which has a beginning and a length.
        let sequence = word(raw::sequence_area(thread)? + 8).filter(|at| *at != 0)? as usize;
        let (start, len) = (word(sequence + 8)?, word(sequence + 16)?);
        Some(raw::registers(thread).ok()?.rip.wrapping_sub(start) < len)
    };
    inside().unwrap_or(false)
}

/// Ends a thread's system call before it is made.
pub(super) fn skip_call(thread: u32, result: u64) -> Result<(), Errno> {
    let mut registers = raw::registers(thread)?;
    (registers.orig_rax, registers.rax) = (NO_CALL, result);
    raw::set_registers(thread, &registers)
}

/// A function of the agent, to be called.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Address of the agent's `enter`; below, of the function.
    pub enter: usize,
    pub function: usize,
    pub arguments: [usize; 2],
    /// Highest address of the stack.
    pub stack: usize,
}

impl Call {
    /// Lets a thread, whose state is saved, call the function when it is continued.
    pub(super) fn begin(&self, thread: u32, saved: &Saved) -> Result<(), Errno> {
        let mut registers = saved.registers;
        registers.orig_rax = NO_CALL;
        registers.rip = self.enter as u64;
        registers.rax = self.function as u64;
        registers.rdi = self.arguments[0] as u64;
        registers.rsi = self.arguments[1] as u64;
        registers.rsp = self.stack as u64;
        registers.eflags &= !DIRECTION;
        raw::set_registers(thread, &registers)
    }

    /// Calls the function, and waits for its result.
    pub(super) fn make(&self, thread: u32, saved: &Saved) -> Result<isize, Errno> {
        self.begin(thread, saved)?;
        loop {
            raw::run(thread, 0)?;
            if let Stop::Seccomp { data: super::filter::OF_AGENT } = Stop::next(thread)? {
                return result(thread);
            }
        }
    }
}

impl Call {
    /// Calls the function as [`Call::make`] does, in a program without the filter: it stops at each system call.
    pub(super) fn make_unfiltered(&self, thread: u32, saved: &Saved) -> Result<isize, Errno> {
        self.begin(thread, saved)?;
        loop {
            to_syscall_stop(thread)?;
            let registers = raw::registers(thread)?;
            if registers.orig_rax == libc::SYS_getpid as u64 && registers.r9 == OURS as u64 {
                to_syscall_stop(thread)?;
                return Ok(registers.rdi as isize);
            }
        }
    }
}

/// Lets a thread go on to the next beginning or end of a system call.
fn to_syscall_stop(thread: u32) -> Result<(), Errno> {
    loop {
        raw::run_to_syscall_exit(thread, 0)?;
        if let Stop::SyscallExit = Stop::next(thread)? {
            return Ok(());
        }
    }
}

/// Returns the result of a function of the agent, at its end.
pub(super) fn result(thread: u32) -> Result<isize, Errno> {
    raw::registers(thread).map(|registers| registers.rdi as isize)
}

/// Makes a system call in a thread whose state is saved and that is at the end of one of its own, with the instruction at
/// `instruction`.
pub(super) fn system_call(
    thread: u32,
    saved: &Saved,
    instruction: usize,
    number: libc::c_long,
    [a, b, c, d, e, f]: [usize; 6],
) -> Result<usize, Errno> {
    let mut registers = saved.registers;
    registers.orig_rax = NO_CALL;
    registers.rip = instruction as u64;
    registers.rax = number as u64;
    (registers.rdi, registers.rsi, registers.rdx) = (a as u64, b as u64, c as u64);
    (registers.r10, registers.r8, registers.r9) = (d as u64, e as u64, f as u64);
    raw::set_registers(thread, &registers)?;
    // Its beginning, then its end.
    to_syscall_stop(thread)?;
    to_syscall_stop(thread)?;
    match raw::registers(thread)?.rax as isize {
        error @ -4095..0 => Err(Errno::from_raw_os_error(-error as i32)),
        result => Ok(result as usize),
    }
}
