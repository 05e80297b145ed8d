//! Stops of traced threads, and how a thread goes on.

use super::raw;
use rustix::io::Errno;
use std::ffi::c_int;

/// Reason why a traced thread stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// A signal is about to be delivered.
    Signal(c_int),
    /// A signal of job control stopped the whole process.
    Group(c_int),
    /// The first stop of a thread that is followed, before its first instruction; the answer to `PTRACE_INTERRUPT`; or
    /// `SIGCONT` after [`Stop::Group`].
    Pause,
    /// It runs another program now. Its other threads are gone, and its number is that of the process; the number before
    /// is given.
    Exec { before: u32 },
    /// It made this process or thread, which stops before its first instruction; the two stops come in any order. The
    /// number is 0 if it names nothing here.
    Birth { child: u32 },
    /// A filter of system calls asks about a call that was not yet made.
    Seccomp { data: u32 },
    /// A system call was made; only after [`Next::ToSyscallExit`].
    SyscallExit,
}

/// How a stopped thread goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// It runs, and is delivered this signal; 0: none.
    Run(c_int),
    /// Like [`Next::Run`], until its system call was made.
    ToSyscallExit(c_int),
    /// It stays stopped until `SIGCONT`.
    Listen,
    /// It stays stopped until the handler continues it ([`raw::run`]).
    Hold,
    /// It runs, and is traced no more.
    Leave,
}

/// Handler of stops, called in the tracer's thread. While it works, all stopped threads wait.
///
/// A thread may vanish at any time: each request for it may fail with `ESRCH`, which is no error.
pub(crate) trait StopHandler: Send {
    /// Seizes processes that run, for [`super::follow`].
    fn begin(&mut self) {}

    /// Handles the stop of a thread.
    fn stopped(&mut self, thread: u32, stop: Stop) -> Next;

    /// Hears that a thread has ended.
    fn ended(&mut self, _thread: u32) {}
}

/// Any handler.
pub(crate) type AnyHandler = Box<dyn StopHandler>;

impl StopHandler for AnyHandler {
    fn begin(&mut self) {
        (**self).begin();
    }

    fn stopped(&mut self, thread: u32, stop: Stop) -> Next {
        (**self).stopped(thread, stop)
    }

    fn ended(&mut self, thread: u32) {
        (**self).ended(thread);
    }
}

/// Handler that changes nothing: signals are delivered, stops of job control last.
pub(crate) struct Forward;

impl StopHandler for Forward {
    fn stopped(&mut self, _: u32, stop: Stop) -> Next {
        stop.onward()
    }
}

const EVENT_STOP: c_int = 128;

impl Stop {
    /// Reads the kind from the status that `wait` gave: a signal, and above it an event.
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

    /// Waits for the next stop of a thread that was continued. For handlers, in the tracer's thread.
    ///
    /// # Errors
    /// `ESRCH` if it ended instead.
    pub(crate) fn next(thread: u32) -> Result<Stop, Errno> {
        raw::next_stop(thread).map(|status| Stop::of(thread, status))
    }

    /// Returns the next stop of a thread that was continued, if it has come already.
    ///
    /// # Errors
    /// `ESRCH` if the thread ended instead.
    pub(crate) fn now(thread: u32) -> Result<Option<Stop>, Errno> {
        Ok(raw::stop_now(thread)?.map(|status| Stop::of(thread, status)))
    }

    /// Returns how the thread would go on without a tracer.
    pub(crate) fn onward(self) -> Next {
        match self {
            Stop::Signal(signal) => Next::Run(signal),
            Stop::Group(_) => Next::Listen,
            _ => Next::Run(0),
        }
    }
}
