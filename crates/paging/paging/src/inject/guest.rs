//! A thread that has asked to be traced.

use super::{FOLLOW, USUAL};
use crate::proc;
use crate::trace::raw;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::sync::{Mutex, PoisonError};
use unrack_pager::control::SPAWN;
use unrack_pager::door::QUESTION;

/// A thread that waits at the reception socket for an answer.
pub(super) struct GuestThread {
    pub thread: u32,
    /// The thread is about to start a program; only that program is to be traced, not the thread itself.
    pub is_parent: bool,
    process: u32,
    connection: OwnedFd,
}

/// Waiting threads that a tracer of this process traces already: the first thread of the program in its seat.
static WAITING: Mutex<Vec<GuestThread>> = Mutex::new(Vec::new());

/// Returns the guest for a thread that waits to be followed by its tracer; `None` if the thread does not wait.
pub(super) fn waiting(thread: u32) -> Option<GuestThread> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let at = waiting.iter().position(|guest| guest.thread == thread)?;
    Some(waiting.swap_remove(at))
}

impl GuestThread {
    /// Reads a request from a connection. Returns `None` if the request is not valid.
    pub(super) fn from_question(connection: OwnedFd) -> Option<GuestThread> {
        let process = sockopt::socket_peercred(&connection).ok()?.pid.as_raw_nonzero().get() as u32;
        let mut question = [0u8; QUESTION];
        if recv(&connection, &mut question[..], RecvFlags::empty()).ok()?.0 != question.len() {
            return None;
        }
        let [thread, what] = [&question[..4], &question[4..]]
            .map(|part| u32::from_ne_bytes(part.try_into().expect("four bytes")));
        let thread = if thread == 0 { process } else { thread };
        let is_its_own = thread == process || proc::threads(process).contains(&thread);
        is_its_own.then_some(GuestThread { thread, is_parent: what == SPAWN, process, connection })
    }

    /// Traces the thread, and answers it. Returns whether tracing was permitted.
    pub(super) fn seize(&self) -> bool {
        let options = if self.is_parent { FOLLOW } else { USUAL };
        let seized = raw::seize(self.thread, options);
        self.answer();
        seized.is_ok()
    }

    /// Returns whether a thread of this process traces the thread already.
    pub(super) fn is_traced(&self) -> bool {
        let is_ours = |tracer| std::path::Path::new(&format!("/proc/self/task/{tracer}")).exists();
        proc::tracer(self.thread).is_some_and(is_ours)
    }

    /// Hands the thread to its existing tracer. The tracer sees by itself what program the thread executes, but must be asked to follow the
    /// processes that the thread starts.
    pub(super) fn meet_its_tracer(self) {
        if !self.is_parent {
            return self.answer();
        }
        let (process, thread) = (self.process as i32, self.thread as i32);
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        // The signal stops the thread for its tracer, which does not deliver the signal.
        // SAFETY: sends a signal. A thread that has ended needs none.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSTOP) };
    }

    /// Answers the thread, which then continues.
    pub(super) fn answer(&self) {
        // A process that has ended needs no answer.
        let _ = send(&self.connection, &[0u8; 4], SendFlags::NOSIGNAL);
    }
}
