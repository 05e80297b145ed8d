//! Requests of `ptrace(2)`, and waits for tracees.

use crate::job::ProgramEnd;
use rustix::io::Errno;
use std::ffi::{c_int, c_uint, c_void};

/// Waits for clones too, which deliver no signal when they end.
const ALL: c_int = libc::__WALL;

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

/// Returns the number that belongs to an event.
pub(crate) fn message(thread: u32) -> Option<u64> {
    let mut message = 0u64;
    request(libc::PTRACE_GETEVENTMSG as c_uint, thread, 0, (&raw mut message).addr()).ok()?;
    Some(message)
}

/// What a wait found.
pub(super) struct Found {
    pub thread: u32,
    /// Status of the stop; `None` if the thread has ended.
    pub stop: Option<c_int>,
}

/// Looks for a stop, or also an end, of a thread that the calling thread traces, and leaves it there.
///
/// # Errors
/// `ECHILD` if it traces none.
pub(super) fn look(also_ends: bool, block: bool) -> Result<Option<Found>, Errno> {
    let ends = if also_ends { libc::WEXITED } else { 0 };
    let hang = if block { 0 } else { libc::WNOHANG };
    let options = libc::WSTOPPED | libc::WNOWAIT | libc::__WNOTHREAD | ends | hang;
    wait(libc::P_ALL, 0, options)
}

/// Takes the stop of a thread that [`look`] found. Returns its status, or `None` if the thread was killed meanwhile.
pub(super) fn take_stop(thread: u32) -> Option<c_int> {
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
