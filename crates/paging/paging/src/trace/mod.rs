//! Tracing of a program's processes by `ptrace(2)`: their stops, and the moment in which the program's end becomes known.
//!
//! A [`Tracer`] is a thread of this process. It takes a process over when that process asks for it ([`TraceRequest::send`]),
//! lets every stop be handled ([`StopHandler`]), and forwards every signal. Whether the process is our child, our parent or
//! neither makes no difference.
//!
//! ```text
//! let (request, acceptor) = trace::request_pair()?;  // before the fork, so that both have it
//! let tracer = Tracer::start(acceptor, handler)?;    // in the process that traces
//! request.send()?;                                   // in the process to trace, before it becomes the program
//! ```
//!
//! The end of the traced process has two steps. [`Tracer::ended`] tells how it ended, and leaves it unburied: its parent,
//! if that is another process, does not know yet. [`Tracer::release`] lets its parent know.
//!
//! # Choices
//! - **A thread of its own**, not a call in a loop that does other things: a stopped thread waits for the tracer, while
//!   a look at a program's memory takes milliseconds. Such a thread can tell its tracees from this process's children
//!   (`__WNOTHREAD`), and `Command::spawn`, which returns once the program runs, needs somebody to continue it.
//! - **`PTRACE_SEIZE`**: it stops nothing, and tells stops of job control from others, so that `SIGSTOP` and `SIGCONT` work.
//! - **`PTRACE_O_EXITKILL`**: when this process is killed, the kernel kills whatever it traces.
//!
//! # References
//! `ptrace(2)`, `wait(2)`; `kernel/ptrace.c` and `kernel/exit.c` (Linux 6.18).

#[cfg(target_arch = "x86_64")]
mod exit;
mod pump;
pub(crate) mod raw;
mod request;
mod stop;

#[cfg(target_arch = "x86_64")]
pub(crate) use exit::system_call_instruction;
pub(crate) use raw::{USUAL, bury, end_of};
pub(crate) use request::{TraceAcceptor, TraceRequest, request_pair};
pub(crate) use stop::{AnyHandler, Forward, Next, Stop, StopHandler};

use crate::PagingError;
use crate::program_end::ProgramEnd;
use crate::signals::{Asked, ENDS};
use rustix::process::{Pid, Signal};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Acquire, Ordering::Release};

/// A thread that traces a process, and those that its handler follows.
///
/// It ends when all of them have ended and the first was released. Dropping this releases the first.
pub(crate) struct Tracer {
    traced: Arc<Traced>,
}

/// State that a tracer and its thread share.
#[derive(Default)]
struct Traced {
    /// Number of the process; 0: none has asked yet.
    pid: AtomicU32,
    /// Exit status that the process is to end with, and [`WANTED`]; 0: none.
    status: AtomicU32,
    /// Number of signals that asked the process to end; below, the last.
    asked: AtomicU32,
    signal: AtomicI32,
}

const WANTED: u32 = 0x100;

impl Traced {
    /// Notes a signal that comes to the process.
    fn note(&self, signal: c_int) {
        if ENDS.contains(&signal) {
            self.signal.store(signal, Release);
            self.asked.fetch_add(1, Release);
        }
    }

    fn status(&self) -> Option<u8> {
        Some(self.status.load(Acquire)).filter(|status| *status != 0).map(|status| status as u8)
    }
}

impl Tracer {
    /// Starts the thread, which waits for the process that asks to be traced.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if this machine has no room for another thread.
    pub(crate) fn start(
        acceptor: TraceAcceptor,
        handler: impl StopHandler + 'static,
    ) -> Result<Tracer, PagingError> {
        let traced = Arc::new(Traced::default());
        let shared = traced.clone();
        std::thread::Builder::new()
            .name("tracer".into())
            .spawn(move || pump::run(acceptor, &shared, handler))
            .map_err(PagingError::failed("start the thread that traces the program"))?;
        Ok(Tracer { traced })
    }

    /// Returns the process that asked to be traced and is.
    pub(crate) fn traced(&self) -> Option<u32> {
        Some(self.traced.pid.load(Acquire)).filter(|pid| *pid != 0)
    }

    /// Returns how the traced process has ended, if all its threads have. Its parent does not know before
    /// [`Tracer::release`]. `SIGCHLD` comes to this process when the answer changes.
    pub(crate) fn ended(&self) -> Option<ProgramEnd> {
        raw::end_of(self.traced()?)
    }

    /// Returns the signals that asked the process to end so far, whether it handles them or not.
    pub(crate) fn asked_to_end(&self) -> Asked {
        Asked { times: self.traced.asked.load(Acquire), signal: self.traced.signal.load(Acquire) }
    }

    /// Has the traced process end with this exit status, if it can still be stopped: a thread that waits in the kernel for
    /// a page cannot.
    pub(crate) fn end_with(&self, status: u8) {
        self.traced.status.store(u32::from(status) | WANTED, Release);
        if let Some(pid) = self.traced().and_then(|pid| Pid::from_raw(pid as i32)) {
            // The thread hears of it. One that has ended meanwhile needs none.
            let _ = rustix::process::kill_process(pid, Signal::STOP);
        }
    }

    /// Lets the parent of the traced process know of its end. If that is us, the process is buried; if it has not ended,
    /// nothing happens.
    pub(crate) fn release(&self) {
        if let Some(pid) = self.traced() {
            raw::bury(pid);
        }
    }
}

/// Starts a thread that traces what `handler` seizes when it begins ([`StopHandler::begin`]), until nothing of it is left.
///
/// # Errors
/// [`PagingError::Failed`] if this machine has no room for another thread.
pub(crate) fn follow(mut handler: impl StopHandler + 'static) -> Result<(), PagingError> {
    let serve = move || {
        handler.begin();
        pump::serve(None, handler);
    };
    let thread = std::thread::Builder::new().name("tracer".into()).spawn(serve);
    thread.map(drop).map_err(PagingError::failed("start a thread that traces the program"))
}

impl Drop for Tracer {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests;
