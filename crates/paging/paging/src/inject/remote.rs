//! Actions that a stopped thread of a program is made to do: system calls, and functions of the agent.

use crate::proc;
use crate::trace::{Stop, raw};
use libc::user_regs_struct;
use rustix::io::Errno;
use unrack_pager::sys::OURS;

/// Number that is not a system call: the kernel neither makes a call nor restarts one.
const NO_CALL: u64 = u64::MAX;
/// Bytes of the system call instruction.
const SYSCALL_LEN: u64 = 2;
const DIRECTION: u64 = 1 << 10;

/// Saved state of a thread, from which the thread later continues as if it had not been stopped.
pub(super) struct Saved {
    pub registers: user_regs_struct,
    vector: Vec<u8>,
    mask: u64,
}

impl Saved {
    /// Saves the state of a thread, and blocks all its signals.
    pub(super) fn take(thread: u32) -> Result<Saved, Errno> {
        let saved = Saved {
            registers: raw::registers(thread)?,
            vector: raw::vector_state(thread)?,
            mask: raw::signal_mask(thread)?,
        };
        raw::set_signal_mask(thread, u64::MAX)?;
        Ok(saved)
    }

    /// Restores the thread, so that it continues after its system call.
    pub(super) fn restore(&self, thread: u32) -> Result<(), Errno> {
        self.restore_signals(thread)?;
        self.restore_registers(thread, self.registers)
    }

    /// Restores the thread so that it makes its system call again. Signals stay blocked until [`Saved::restore_signals`], so that no signal
    /// handler runs before the call.
    pub(super) fn repeat(&self, thread: u32) -> Result<(), Errno> {
        self.restore_registers(thread, repeated(self.registers))
    }

    /// Returns the thread to the `PTRACE_INTERRUPT` stop in which its state was saved. If the thread waited in the kernel then, it waits
    /// again once it is continued. The thread stays stopped.
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

/// Returns the registers with which a thread makes its system call again.
pub(super) fn repeated(mut registers: user_regs_struct) -> user_regs_struct {
    registers.rip -= SYSCALL_LEN;
    registers.rax = registers.orig_rax;
    registers
}

/// Makes a thread repeat its system call if the call failed with `EINTR` only because of the tracer's stop. The kernel does not restart
/// some calls (`epoll_wait(2)`, `sigtimedwait(2)`, socket calls with a time limit), so they are repeated here. Their time limit starts
/// anew.
pub(super) fn repeat_interrupted(thread: u32) -> Result<(), Errno> {
    let registers = raw::registers(thread)?;
    let gave_up = registers.rax as i64 == -i64::from(libc::EINTR) && registers.orig_rax as i64 >= 0;
    // A `close` that fails has closed the descriptor nevertheless, so it must not be repeated.
    if gave_up && registers.orig_rax != libc::SYS_close as u64 {
        raw::set_registers(thread, &repeated(registers))?;
    }
    Ok(())
}

/// Continues a thread as if a signal that its process ignores had not woken it, because without a tracer the signal would not have woken
/// it. Returns false if the process does not ignore the signal.
pub(crate) fn pass_over(thread: u32, signal: i32) -> bool {
    proc::ignores(thread, signal) && repeat_interrupted(thread).is_ok()
}

/// Returns whether a stopped thread is inside a restartable sequence (`rseq(2)`). Such a thread must not make injected calls: the kernel
/// would consider the sequence left, and would not restart it.
pub(super) fn is_in_sequence(thread: u32) -> bool {
    let word = |at: usize| {
        let mut word = [0u8; 8];
        raw::read_memory(thread, at, &mut word).ok().map(|()| u64::from_ne_bytes(word))
    };
    let inside = || {
        // `struct rseq` contains the address of a `struct rseq_cs`, which contains the start and the length of the sequence.
        let sequence = word(raw::sequence_area(thread)? + 8).filter(|at| *at != 0)? as usize;
        let (start, len) = (word(sequence + 8)?, word(sequence + 16)?);
        Some(raw::registers(thread).ok()?.rip.wrapping_sub(start) < len)
    };
    inside().unwrap_or(false)
}

/// Makes a thread skip the system call at which it is stopped, with this result.
pub(super) fn skip_call(thread: u32, result: u64) -> Result<(), Errno> {
    let mut registers = raw::registers(thread)?;
    (registers.orig_rax, registers.rax) = (NO_CALL, result);
    raw::set_registers(thread, &registers)
}

/// A call of a function of the agent.
#[derive(Clone, Copy)]
pub(super) struct Call {
    /// Address of the agent's `enter`, which calls the function, and address of the function itself.
    pub enter: usize,
    pub function: usize,
    pub arguments: [usize; 2],
    /// Highest address of the stack on which the function runs.
    pub stack: usize,
}

impl Call {
    /// Sets the registers of a thread, whose state is saved, so that it calls the function when it is continued.
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

    /// Calls the function, waits until it returns, and returns its result.
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
    /// Calls the function like [`Call::make`], in a program without the filter. The thread therefore stops at each system call.
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

/// Continues a thread until it next enters or leaves a system call.
fn to_syscall_stop(thread: u32) -> Result<(), Errno> {
    loop {
        raw::run_to_syscall_exit(thread, 0)?;
        if let Stop::SyscallExit = Stop::next(thread)? {
            return Ok(());
        }
    }
}

/// Returns the result of a function of the agent. The thread must be stopped at the end of the function.
pub(super) fn result(thread: u32) -> Result<isize, Errno> {
    raw::registers(thread).map(|registers| registers.rdi as isize)
}

/// Makes a thread make a system call, with the system call instruction at address `instruction`. The state of the thread must be saved, and
/// the thread must be stopped at the end of a system call.
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
    // The first stop is at the entry of the call, the second at its end.
    to_syscall_stop(thread)?;
    to_syscall_stop(thread)?;
    match raw::registers(thread)?.rax as isize {
        error @ -4095..0 => Err(Errno::from_raw_os_error(-error as i32)),
        result => Ok(result as usize),
    }
}
