//! Requests of `ptrace(2)`, and waits for tracees.

use crate::proc;
use crate::program_end::ProgramEnd;
use rustix::io::Errno;
use std::ffi::{c_int, c_uint, c_void};

/// Waits for clones too, which deliver no signal when they end.
const ALL: c_int = libc::__WALL;

/// Options of `PTRACE_SEIZE` for every traced process: it is killed with its tracer, tells when it becomes another program,
/// and marks stops at system calls. A handler adds those that it needs.
pub(crate) const USUAL: c_int =
    libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACEEXEC | libc::PTRACE_O_TRACESYSGOOD;

fn request(request: c_uint, thread: u32, address: usize, data: usize) -> Result<(), Errno> {
    let thread = thread as libc::pid_t;
    // SAFETY: the requests here take numbers, or the address of a value that outlives the call and has the kind that
    // the kernel fills in or reads.
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
/// `EPERM` if that is not permitted, or the thread is traced already; `ESRCH` if there is none of this number.
pub(crate) fn seize(thread: u32, options: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_SEIZE, thread, 0, options as usize)
}

/// Continues a stopped thread, and delivers a signal to it; 0: none.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn run(thread: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_CONT, thread, 0, signal as usize)
}

/// Continues a stopped thread up to the end of its system call.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn run_to_syscall_exit(thread: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_SYSCALL, thread, 0, signal as usize)
}

/// Leaves a thread stopped, and hears when it is continued.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn listen(thread: u32) -> Result<(), Errno> {
    request(libc::PTRACE_LISTEN, thread, 0, 0)
}

/// Lets a stopped thread run without a tracer, and delivers a signal to it; 0: none.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
pub(crate) fn detach(thread: u32, signal: c_int) -> Result<(), Errno> {
    request(libc::PTRACE_DETACH, thread, 0, signal as usize)
}

/// Stops a traced thread as soon as it can, in a way that its program does not notice.
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

/// Returns the mask of blocked signals of a stopped thread: signal n is bit n - 1.
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

/// Longest vector state of any processor (with AMX).
#[cfg(target_arch = "x86_64")]
const LONGEST_STATE: usize = 16 << 10;
#[cfg(target_arch = "x86_64")]
const NT_X86_XSTATE: usize = 0x202;

/// Returns the floating-point and vector registers of a stopped thread, as the kernel saves them.
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

/// Sets what [`vector_state`] returned.
///
/// # Errors
/// `ESRCH` if the thread was killed meanwhile.
#[cfg(target_arch = "x86_64")]
pub(crate) fn set_vector_state(thread: u32, state: &[u8]) -> Result<(), Errno> {
    let part = libc::iovec { iov_base: state.as_ptr().cast_mut().cast(), iov_len: state.len() };
    request(libc::PTRACE_SETREGSET, thread, NT_X86_XSTATE, (&raw const part).addr())
}

/// Returns the address of a stopped thread's area for restartable sequences (`struct rseq`), if it has one that the kernel
/// knows of.
#[cfg(target_arch = "x86_64")]
pub(crate) fn sequence_area(thread: u32) -> Option<usize> {
    const PTRACE_GET_RSEQ_CONFIGURATION: c_uint = 0x420f;
    // `struct ptrace_rseq_configuration`: the address, and lengths and marks.
    let mut configuration = [0u64; 3];
    let (len, at) = (size_of_val(&configuration), (&raw mut configuration).addr());
    request(PTRACE_GET_RSEQ_CONFIGURATION, thread, len, at).ok()?;
    Some(configuration[0] as usize).filter(|area| *area != 0)
}

/// Takes the status of a stop, if the thread has stopped.
///
/// # Errors
/// `ESRCH` if it has ended instead, which [`look`] will find.
pub(super) fn stop_now(thread: u32) -> Result<Option<c_int>, Errno> {
    let options = libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::WNOHANG;
    match wait(libc::P_PID, thread, options).map_err(|_| Errno::SRCH)? {
        Some(Found { stop: None, .. }) => Err(Errno::SRCH),
        Some(_) => Ok(take_stop(thread)),
        None => Ok(None),
    }
}

/// Waits for the next stop of a thread that was continued, and takes its status.
///
/// # Errors
/// `ESRCH` if it ended instead, which [`look`] will find.
pub(super) fn next_stop(thread: u32) -> Result<c_int, Errno> {
    loop {
        let found = wait(libc::P_PID, thread, libc::WSTOPPED | libc::WEXITED | libc::WNOWAIT | libc::WNOHANG);
        match found.map_err(|_| Errno::SRCH)? {
            Some(Found { stop: None, .. }) => return Err(Errno::SRCH),
            Some(_) => {
                if let Some(status) = take_stop(thread) {
                    return Ok(status);
                }
            }
            None => await_any(thread)?,
        }
    }
}

/// Waits until something happens to a thread, or to another that the calling thread traces. A wait for the thread alone could last
/// for ever: that for the first thread of a process that was killed ends only when all others have been waited for.
///
/// # Errors
/// `ESRCH` if the thread has ended.
fn await_any(thread: u32) -> Result<(), Errno> {
    const NAP: std::time::Duration = std::time::Duration::from_micros(50);
    match look(true, true).map_err(|_| Errno::SRCH)? {
        Some(found) if found.thread == thread => Ok(()),
        _ if proc::is_zombie(thread) => Err(Errno::SRCH),
        // That of another stays there for later, and would end the next wait at once.
        _ => {
            std::thread::sleep(NAP);
            Ok(())
        }
    }
}

/// Reads a process's memory.
///
/// # Errors
/// `EFAULT` if not all of it is there.
pub(crate) fn read_memory(process: u32, at: usize, bytes: &mut [u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: bytes.as_mut_ptr().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: bytes.len() };
    // SAFETY: our side is the caller's, and the kernel checks the other.
    let done = unsafe { libc::process_vm_readv(process as i32, &local, 1, &remote, 1, 0) };
    whole(done, bytes.len())
}

/// Writes to a process's memory.
///
/// # Errors
/// `EFAULT` if not all of it is there and writable.
pub(crate) fn write_memory(process: u32, at: usize, bytes: &[u8]) -> Result<(), Errno> {
    let local = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let remote = libc::iovec { iov_base: at as *mut c_void, iov_len: bytes.len() };
    // SAFETY: our side is the caller's and is only read, and the kernel checks the other.
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

/// Returns the number that belongs to an event.
pub(crate) fn message(thread: u32) -> Option<u64> {
    let mut message = 0u64;
    request(libc::PTRACE_GETEVENTMSG as c_uint, thread, 0, (&raw mut message).addr()).ok()?;
    Some(message)
}

/// What a wait found.
pub(crate) struct Found {
    pub thread: u32,
    /// Status of the stop; `None` if the thread has ended.
    pub stop: Option<c_int>,
}

/// Looks for a stop, or also an end, of a thread that the calling thread traces, and leaves it there.
///
/// # Errors
/// `ECHILD` if it traces none.
pub(crate) fn look(also_ends: bool, block: bool) -> Result<Option<Found>, Errno> {
    let ends = if also_ends { libc::WEXITED } else { 0 };
    let hang = if block { 0 } else { libc::WNOHANG };
    let options = libc::WSTOPPED | libc::WNOWAIT | libc::__WNOTHREAD | ends | hang;
    wait(libc::P_ALL, 0, options)
}

/// Takes the stop of a thread that [`look`] found. Returns its status, or `None` if the thread was killed meanwhile.
pub(crate) fn take_stop(thread: u32) -> Option<c_int> {
    wait(libc::P_PID, thread, libc::WSTOPPED | libc::WNOHANG).ok().flatten()?.stop
}

/// Returns how a child or tracee has ended, and leaves it there.
pub(crate) fn end_of(pid: u32) -> Option<ProgramEnd> {
    let mut info = empty_info();
    waitid(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG | libc::WNOWAIT, &mut info).ok()?;
    // SAFETY: `waitid` fills it in, or leaves zeros.
    let status = unsafe { info.si_status() };
    match info.si_code {
        libc::CLD_EXITED => Some(ProgramEnd::Exited(status as u8)),
        libc::CLD_KILLED | libc::CLD_DUMPED => Some(ProgramEnd::Signaled((status & 0x7f) as u8)),
        // A stop: waits for a tracee find those, too, whatever they ask for.
        _ => None,
    }
}

/// Takes the end of a child or tracee, if it has ended.
pub(crate) fn bury(pid: u32) {
    if end_of(pid).is_some() {
        // Another thread of ours may have been faster.
        let _ = wait(libc::P_PID, pid, libc::WEXITED | libc::WNOHANG);
    }
}

fn wait(kind: libc::idtype_t, id: u32, options: c_int) -> Result<Option<Found>, Errno> {
    let mut info = empty_info();
    waitid(kind, id, options, &mut info)?;
    // SAFETY: `waitid` fills both in, or leaves zeros.
    let (thread, status) = unsafe { (info.si_pid() as u32, info.si_status()) };
    let stop = matches!(info.si_code, libc::CLD_TRAPPED | libc::CLD_STOPPED).then_some(status);
    Ok((thread != 0).then_some(Found { thread, stop }))
}

fn empty_info() -> libc::siginfo_t {
    // SAFETY: plain numbers and addresses, for which zero is valid.
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
