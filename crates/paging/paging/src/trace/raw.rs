//! Wrappers of `ptrace(2)` requests, and waits for tracees.

use crate::proc;
use crate::program_end::ProgramEnd;
use rustix::io::Errno;
use std::ffi::{c_int, c_uint, c_void};

/// Waits also for clones, which send no signal when they end.
const ALL: c_int = libc::__WALL;

/// Options of `PTRACE_SEIZE` for every traced process: it is killed together with its tracer, reports `execve`, and marks its stops at
/// system calls. A handler adds the options that it needs.
pub(crate) const USUAL: c_int =
    libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;

fn request(request: c_uint, thread: u32, address: usize, data: usize) -> Result<(), Errno> {
    let thread = thread as libc::pid_t;
    // SAFETY: each request here takes numbers, or the address of a value that outlives the call and has the type that the kernel reads or
    // fills in.
    match unsafe { libc::ptrace(request, thread, address as *mut c_void, data as *mut c_void) } {
        -1 => Err(last_error()),
        _ => Ok(()),
    }
}

fn last_error() -> Errno {
    Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)
}

/// Traces a thread, without stopping it.
///
/// # Errors
/// `EPERM` if tracing is not permitted or the thread is traced already; `ESRCH` if no thread has this number.
pub(crate) fn seize(thread: u32, options: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, thread, 0, options as usize)
}

/// Continues a stopped thread, and delivers a signal to it; 0 delivers none.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn run(thread: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, thread, 0, signal as usize)
}

/// Continues a stopped thread until it leaves its system call.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn run_to_syscall_exit(thread: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_SYSCALL, thread, 0, signal as usize)
}

/// Leaves a thread stopped, but lets its tracer learn when the thread is continued (`SIGCONT`).
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn listen(thread: u32) -> Result<(), Errno> {
    request(libc::PTRACE_LISTEN, thread, 0, 0)
}

/// Detaches from a stopped thread, which continues, and delivers a signal to it; 0 delivers none.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn detach(thread: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, thread, 0, signal as usize)
}

/// Stops a traced thread as soon as possible, without an effect that its program notices.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn interrupt(thread: u32) -> Result<(), Errno> {
    request(libc::PTRACE_INTERRUPT, thread, 0, 0)
}

/// Sets the options of a traced, stopped thread.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn set_options(thread: u32, options: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_SETOPTIONS, thread, 0, options as usize)
}

/// Returns the mask of blocked signals of a stopped thread; bit n - 1 is signal n.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn signal_mask(thread: u32) -> Result<u64, Errno> {
    let mut mask = 0u64;
    request(libc::PTRACE_GETSIGMASK, thread, size_of_val(&mask), (&raw mut mask).addr())?;
    Ok(mask)
}

/// Sets the mask of blocked signals of a stopped thread.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn set_signal_mask(thread: u32, mask: u64) -> Result<(), Errno> {
    request(libc::PTRACE_SETSIGMASK, thread, size_of_val(&mask), (&raw const mask).addr())
}

/// Returns the general registers of a stopped thread.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
#[cfg(target_arch = "x86_64")]
pub(crate) fn registers(thread: u32) -> Result<libc::user_regs_struct, Errno> {
    // SAFETY: plain numbers, for which zero is valid.
    let mut registers: libc::user_regs_struct = unsafe { std::mem::zeroed() };
    request(libc::PTRACE_GETREGS, thread, 0, (&raw mut registers).addr())?;
    Ok(registers)
}

/// Sets the general registers of a stopped thread.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_registers(thread: u32, registers: &libc::user_regs_struct) -> Result<(), Errno> {
    request(libc::PTRACE_SETREGS, thread, 0, (&raw const *registers).addr())
}

/// Size of the largest vector state of any processor (with AMX), in bytes.
#[cfg(target_arch = "x86_64")]
const LONGEST_STATE: usize = 16 << 10;
#[cfg(target_arch = "x86_64")]
const NT_X86_XSTATE: usize = 0x202;

/// Returns the floating-point and vector registers of a stopped thread, in the kernel's format.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
#[cfg(target_arch = "x86_64")]
pub(crate) fn vector_state(thread: u32) -> Result<Vec<u8>, Errno> {
    let mut state = vec![0u8; LONGEST_STATE];
    let mut part = libc::iovec { iov_base: state.as_mut_ptr().cast(), iov_len: state.len() };
    request(libc::PTRACE_GETREGSET, thread, NT_X86_XSTATE, (&raw mut part).addr())?;
    state.truncate(part.iov_len);
    Ok(state)
}

/// Restores the registers that [`vector_state`] returned.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_vector_state(thread: u32, state: &[u8]) -> Result<(), Errno> {
    let part = libc::iovec { iov_base: state.as_ptr().cast_mut().cast(), iov_len: state.len() };
    request(libc::PTRACE_SETREGSET, thread, NT_X86_XSTATE, (&raw const part).addr())
}

/// Returns the address of a stopped thread's area for restartable sequences (`struct rseq`), if the thread has registered one with the
/// kernel.
#[cfg(target_arch = "x86_64")]
pub(crate) fn sequence_area(thread: u32) -> Option<usize> {
    const PTRACE_GET_RSEQ_CONFIGURATION: c_uint = 0x420f;
    // `struct ptrace_rseq_configuration`: the address, followed by lengths and flags.
    let mut configuration = [0u64; 3];
    let (len, at) = (size_of_val(&configuration), (&raw mut configuration).addr());
    request(PTRACE_GET_RSEQ_CONFIGURATION, thread, len, at).ok()?;
    Some(configuration[0] as usize).filter(|area| *area != 0)
}

/// Returns the status of a stop, and consumes the stop, if the thread has stopped.
///
/// # Errors
/// `ESRCH` if the thread has ended instead; [`look`] will find its exit.
pub(super) fn stop_now(thread: u32) -> Result<Option<c_int>, Errno> {
    let options = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    match wait(libc::P_PID, thread, options).map_err(|_| Errno::SRCH)? {
        Some(RawWaitResult { stop: None, .. }) => Err(Errno::SRCH),
        Some(_) => Ok(take_stop(thread)),
        None => Ok(None),
    }
}

/// Waits for the next stop of a continued thread, consumes the stop, and returns its status.
///
/// # Errors
/// `ESRCH` if the thread has ended instead; [`look`] will find its exit.
pub(super) fn next_stop(thread: u32) -> Result<c_int, Errno> {
    loop {
        let found = wait(libc::P_PID, thread, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::WNOHANG);
        match found.map_err(|_| Errno::SRCH)? {
            Some(RawWaitResult { stop: None, .. }) => return Err(Errno::SRCH),
            Some(_) => {
                if let Some(status) = take_stop(thread) {
                    return Ok(status);
                }
            }
            None => await_any(thread)?,
        }
    }
}

/// Waits for an event of a thread, or of any other thread that the calling thread traces. It does not wait for the one thread alone,
/// because such a wait could last forever: for the first thread of a process that was killed, it returns only after all other threads have
/// been waited for.
///
/// # Errors
/// `ESRCH` if the thread has ended.
fn await_any(thread: u32) -> Result<(), Errno> {
    const NAP: std::time::Duration = std::time::Duration::from_micros(50);
    match look(true, true).map_err(|_| Errno::SRCH)? {
        Some(found) if found.thread == thread => Ok(()),
        _ if proc::is_zombie(thread) => Err(Errno::SRCH),
        // An event of another thread stays pending for later, and would make the next wait return at once. Therefore this sleeps.
        _ => {
            std::thread::sleep(NAP);
            Ok(())
        }
    }
}

/// Reads memory of a process.
///
/// # Errors
/// `EFAULT` if part of the range is not mapped.
pub(crate) fn read_memory(process: u32, at: usize, bytes: &mut [u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: bytes.len() };
    // SAFETY: the local buffer is the caller's, and the kernel checks the remote range.
    let done = unsafe { libc::process_vm_readv(process as i32, &local, 1, &remote, 1, 0) };
    whole(done, bytes.len())
}

/// Writes to the memory of a process.
///
/// # Errors
/// `EFAULT` if part of the range is not mapped or not writable.
pub(crate) fn write_memory(process: u32, at: usize, bytes: &[u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: bytes.len() };
    // SAFETY: the local buffer is the caller's and is only read; the kernel checks the remote range.
    let done = unsafe { libc::process_vm_writev(process as i32, &local, 1, &remote, 1, 0) };
    whole(done, bytes.len())
}

fn whole(done: isize, len: usize) -> Result<(), Errno> {
    match done {
        -1 => Err(last_error()),
        done if done as usize == len => Ok(()),
        _ => Err(Errno::FAULT),
    }
}

/// Returns the message of a ptrace event, for example the number of a new thread.
pub(crate) fn message(thread: u32) -> Option<u64> {
    let mut message = 0u64;
    request(libc::PTRACE_GETEVENTMSG as c_uint, thread, 0, (&raw mut message).addr()).ok()?;
    Some(message)
}

/// Result of a wait for a tracee.
pub(crate) struct RawWaitResult {
    pub thread: u32,
    /// Status of the stop; `None` if the thread has ended.
    pub stop: Option<c_int>,
}

/// Looks for a stop of any thread that the calling thread traces, with `also_ends` also for an exit. Does not consume the stop or exit.
///
/// # Errors
/// `ECHILD` if the calling thread traces no thread.
pub(crate) fn look(also_ends: bool, block: bool) -> Result<Option<RawWaitResult>, Errno> {
    let ends = if also_ends { libc::WEXITED } else { 0 };
    let hang = if block { 0 } else { libc::WNOHANG };
    let options = libc::WSTOPPED | libc::WNOWAIT | libc::__WNOTHREAD | ends | hang;
    wait(libc::P_ALL, 0, options)
}

/// Consumes the stop of a thread that [`look`] found. Returns its status, or `None` if the thread was killed meanwhile.
pub(crate) fn take_stop(thread: u32) -> Option<c_int> {
    wait(libc::P_PID, thread, libc::WSTOPPED | libc::WNOHANG).ok().flatten()?.stop
}

/// Returns how a child or tracee has ended, without reaping it; `None` if it has not ended.
pub(crate) fn end_of(pid: u32) -> Option<ProgramEnd> {
    let mut info = empty_info();
    waitid(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT, &mut info).ok()?;
    // SAFETY: `waitid` fills the field in, or leaves it zero.
    let status = unsafe { info.si_status() };
    match info.si_code {
        libc::CLD_EXITED => Some(ProgramEnd::Exited(status as u8)),
        libc::CLD_KILLED | libc::CLD_DUMPED => Some(ProgramEnd::Signaled((status & 0x7f) as u8)),
        // A stop, because waits for a tracee return stops even if only exits were requested.
        _ => None,
    }
}

/// Reaps a child or tracee, if it has ended.
pub(crate) fn bury(pid: u32) {
    if end_of(pid).is_some() {
        // An error is ignored, because another thread of this process may have reaped it first.
        let _ = wait(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG);
    }
}

fn wait(kind: libc::idtype_t, id: u32, options: c_int) -> Result<Option<RawWaitResult>, Errno> {
    let mut info = empty_info();
    waitid(kind, id, options, &mut info)?;
    // SAFETY: `waitid` fills both fields in, or leaves them zero.
    let (thread, status) = unsafe { (info.si_pid() as u32, info.si_status()) };
    let stop = matches!(info.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED).then_some(status);
    Ok((thread != 0).then_some(RawWaitResult { thread, stop }))
}

fn empty_info() -> libc::siginfo_t {
    // SAFETY: the struct consists of plain numbers and addresses, for which zero is valid.
    unsafe { std::mem::zeroed() }
}

fn waitid(kind: libc::idtype_t, id: u32, options: c_int, info: &mut libc::siginfo_t) -> Result<(), Errno> {
    loop {
        // SAFETY: `info` is writable.
        match unsafe { libc::waitid(kind, id, info, options | ALL) } {
            0 => return Ok(()),
            _ => match last_error() {
                Errno::INTR => {}
                error => return Err(error),
            },
        }
    }
}
