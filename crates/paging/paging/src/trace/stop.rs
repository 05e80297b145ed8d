//! Stops of traced threads, and how a thread continues after a stop.

use super::raw;
use rustix::io::Errno;
use std::ffi::c_int;

/// Reason why a traced thread stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A signal is about to be delivered.
    Signal(c_int),
    /// A job-control signal stopped the whole process.
    Group(c_int),
    /// One of three: the first stop of a followed thread, before its first instruction; the response to `PTRACE_INTERRUPT`; or `SIGCONT`
    /// after [`Stop::Group`].
    Pause,
    /// The thread has executed another program. The other threads of the process are gone, and the thread's number has become that of the
    /// process; `before` is its number before.
    Exec { before: u32 },
    /// The thread has created this process or thread, which stops before its first instruction. The two stops arrive in any order. `child`
    /// is 0 if its number cannot be read.
    Birth { child: u32 },
    /// A system call filter stopped the thread before it makes a call.
    Seccomp { data: u32 },
    /// The thread has finished a system call; only after [`Next::ToSyscallExit`].
    SyscallExit,
}

/// How a stopped thread continues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ResumeMode {
    /// The thread runs, and gets this signal; 0 means no signal.
    Run(c_int),
    /// Like [`Next::Run`], but the thread stops again at the end of its system call.
    ToSyscallExit(c_int),
    /// The thread stays stopped until `SIGCONT`.
    Listen,
    /// The thread stays stopped until the handler continues it ([`raw::run`]).
    Hold,
    /// The thread runs, and is no longer traced.
    Leave,
}

/// Handler of stops, called in the tracer's thread. While the handler works, all stopped threads wait.
///
/// A thread may be killed at any time. Therefore each request for a thread may fail with `ESRCH`, which is not an error.
pub(crate) trait StopHandler: Send {
    /// Seizes running processes, for [`super::follow`].
    fn begin(&mut self) {}

    /// Handles a stop of a thread, and returns how the thread continues.
    fn stopped(&mut self, thread: u32, stop: Stop) -> ResumeMode;

    /// Called after a thread has ended.
    fn ended(&mut self, _thread: u32) {}
}

/// A handler of any type.
pub(crate) type AnyHandler = Box<dyn StopHandler>;

impl StopHandler for AnyHandler {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn stopped(&mut self, thread: u32, stop: Stop) -> ResumeMode {
        (**self).stopped(thread, stop)
    }

    fn ended(&mut self, thread: u32) {
        (**self).ended(thread);
    }
}

/// Handler that changes no behavior: signals are delivered, and job-control stops last.
pub(crate) struct Forward;

impl StopHandler for Forward {
    fn stopped(&mut self, _: u32, stop: Stop) -> ResumeMode {
        stop.onward()
    }
}

const EVENT_STOP: c_int = 128;

impl Stop {
    /// Decodes the status that `wait` returned: a signal, and in the upper bits an event.
    pub(crate) fn of(thread: u32, status: c_int) -> Stop {
        let signal = status & 0xff;
        let number = || raw::message(thread).unwrap_or(0) as u32;
        match status >> 8 {
            EVENT_STOP if signal == libc::SIGTRAP => Stop::Pause,
            EVENT_STOP => Stop::Group(signal),
            libc::PTRACE_EVENT_EXEC => Stop::Exec { before: number() },
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                Stop::Birth { child: number() }
            }
            libc::PTRACE_EVENT_SECCOMP => Stop::Seccomp { data: number() },
            _ if signal == libc::SIGTRAP | 0x80 => Stop::SyscallExit,
            _ => Stop::Signal(signal),
        }
    }

    /// Waits for the next stop of a continued thread. For handlers, in the tracer's thread.
    ///
    /// # Errors
    /// `ESRCH` if the thread has ended instead.
    pub(crate) fn next(thread: u32) -> Result<Stop, Errno> {
        raw::next_stop(thread).map(|status| Stop::of(thread, status))
    }

    /// Returns the next stop of a continued thread, if it has occurred already.
    ///
    /// # Errors
    /// `ESRCH` if the thread ended instead.
    pub(crate) fn now(thread: u32) -> Result<Option<Stop>, Errno> {
        Ok(raw::stop_now(thread)?.map(|status| Stop::of(thread, status)))
    }

    /// Returns how the thread would continue without a tracer.
    pub(crate) fn onward(self) -> ResumeMode {
        match self {
            Stop::Signal(signal) => ResumeMode::Run(signal),
            Stop::Group(_) => ResumeMode::Listen,
            _ => ResumeMode::Run(0),
        }
    }
}
