//! Traces the processes of a program by `ptrace(2)`: handles their stops, and decides when the program's end becomes visible.
//!
//! A [`Tracer`] is a thread of this process. It takes over a process that asks for it ([`TraceRequest::send`]), passes every stop to a
//! handler ([`StopHandler`]), and forwards every signal. It works equally for a child of this process, for its parent, and for an unrelated
//! process.
//!
//! ```text
//! let (request, acceptor) = trace::request_pair()?;  // before the fork, so that both have it
//! let tracer = Tracer::start(acceptor, handler)?;    // in the process that traces
//! request.send()?;                                   // in the process to trace, before it becomes the program
//! ```
//!
//! The end of the traced process has two steps. [`Tracer::ended`] returns how the process ended, but does not reap it. Its parent, if that
//! is another process, learns of the end only after [`Tracer::release`].
//!
//! # Choices
//! - **A separate thread**, not a call in a loop with other work: a stopped thread waits for the tracer, whereas an inspection of a
//!   program's memory takes milliseconds. Also, a separate thread can distinguish its tracees from this process's children (`__WNOTHREAD`),
//!   and can continue the program while `Command::spawn` waits for it to execute.
//! - **`PTRACE_SEIZE`**: it does not stop the thread, and it distinguishes job-control stops from other stops, so that `SIGSTOP` and
//!   `SIGCONT` work.
//! - **`PTRACE_O_EXITKILL`**: if this process is killed, the kernel kills all its tracees.
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
pub(crate) use stop::{AnyHandler, Forward, ResumeMode, Stop, StopHandler};

use crate::PagingError;
use crate::program_end::ProgramEnd;
use crate::signals::{ENDS, EndRequests};
use rustix::process::{Pid, Signal};
use std::ffi::c_int;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, Ordering::Acquire, Ordering::Release};

/// A thread that traces a process, and all processes that its handler follows.
///
/// The thread ends when all of them have ended and the first process was released. Dropping the tracer releases the first process.
pub(crate) struct Tracer {
    traced: Arc<TracerState>,
}

/// State that is shared by a tracer and its thread.
#[derive(Default)]
struct TracerState {
    /// Number of the traced process; 0 if no process has asked yet.
    pid: AtomicU32,
    /// Exit status with which the process is to end, plus [`WANTED`]; 0 if it need not end.
    status: AtomicU32,
    /// Number of signals that asked the process to end (`asked`), and the last of them (`signal`).
    asked: AtomicU32,
    signal: AtomicI32,
}

const WANTED: u32 = 0x100;

impl TracerState {
    /// Notes a signal that is delivered to the process.
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
    /// Starts the thread, which waits for a process that asks to be traced.
    ///
    /// # Errors
    /// [`PagingError::Failed`] if this machine has no room for another thread.
    pub(crate) fn start(
        acceptor: TraceAcceptor,
        handler: impl StopHandler + 'static,
    ) -> Result<Tracer, PagingError> {
        let traced = Arc::new(TracerState::default());
        let shared = traced.clone();
        std::thread::Builder::new()
            .name("tracer".into())
            .spawn(move || pump::run(acceptor, &shared, handler))
            .map_err(PagingError::failed("start the thread that traces the program"))?;
        Ok(Tracer { traced })
    }

    /// Returns the process that asked to be traced, once it is traced.
    pub(crate) fn traced(&self) -> Option<u32> {
        Some(self.traced.pid.load(Acquire)).filter(|pid| *pid != 0)
    }

    /// Returns how the traced process ended, once all its threads have ended. Its parent cannot see the end before [`Tracer::release`].
    /// This process gets `SIGCHLD` when the result changes.
    pub(crate) fn ended(&self) -> Option<ProgramEnd> {
        raw::end_of(self.traced()?)
    }

    /// Returns the requests to end that the process has received as signals, whether it handles them or not.
    pub(crate) fn asked_to_end(&self) -> EndRequests {
        EndRequests { times: self.traced.asked.load(Acquire), signal: self.traced.signal.load(Acquire) }
    }

    /// Makes the traced process end with this exit status, if it can still be stopped. A process whose thread waits in the kernel for a
    /// page cannot be stopped.
    pub(crate) fn end_with(&self, status: u8) {
        self.traced.status.store(u32::from(status) | WANTED, Release);
        if let Some(pid) = self.traced().and_then(|pid| Pid::from_raw(pid as i32)) {
            // The signal stops the process for its tracer thread. An error means that the process has ended, so no signal is needed.
            let _ = rustix::process::kill_process(pid, Signal::STOP);
        }
    }

    /// Makes the end of the traced process visible to its parent. If the parent is this process, the traced process is reaped. Does nothing
    /// if the process has not ended.
    pub(crate) fn release(&self) {
        if let Some(pid) = self.traced() {
            raw::bury(pid);
        }
    }
}

/// Starts a thread that traces the processes which `handler` seizes at its start ([`StopHandler::begin`]), until none of them is left.
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
