//! A thread that asks to be traced.

use super::{FOLLOW, USUAL};
use crate::proc;
use crate::trace::raw;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use std::sync::{Mutex, PoisonError};
use unrack_pager::control::SPAWN;
use unrack_pager::door::QUESTION;

/// Thread that waits at the door for an answer.
pub(super) struct Guest {
    pub thread: u32,
    /// It is about to start a program, and is of no interest itself.
    pub is_parent: bool,
    process: u32,
    connection: OwnedFd,
}

/// Threads that wait, and that a tracer of ours traces already: the first of the program in its seat.
static WAITING: Mutex<Vec<Guest>> = Mutex::new(Vec::new());

/// Returns the guest that a thread is, if it waits to be followed by its tracer.
pub(super) fn waiting(thread: u32) -> Option<Guest> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    let at = waiting.iter().position(|guest| guest.thread == thread)?;
    Some(waiting.swap_remove(at))
}

impl Guest {
    /// Reads the question. `None` if it is none.
    pub(super) fn from_question(connection: OwnedFd) -> Option<Guest> {
        let process = sockopt::socket_peercred(&connection).ok()?.pid.as_raw_nonzero().get() as u32;
        let mut question = [0u8; QUESTION];
        if recv(&connection, &mut question[..], RecvFlags::empty()).ok()?.0 != question.len() {
            return None;
        }
        let [thread, what] = [&question[..4], &question[4..]]
            .map(|part| u32::from_ne_bytes(part.try_into().expect("four bytes")));
        let thread = if thread == 0 { process } else { thread };
        let is_its_own = thread == process || proc::threads(process).contains(&thread);
        is_its_own.then_some(Guest { thread, is_parent: what == SPAWN, process, connection })
    }

    /// Traces the thread, and answers. Returns whether that was permitted.
    pub(super) fn seize(&self) -> bool {
        let options = if self.is_parent { FOLLOW } else { USUAL };
        let seized = raw::seize(self.thread, options);
        self.answer();
        seized.is_ok()
    }

    /// Returns whether a thread of ours traces it already.
    pub(super) fn is_traced(&self) -> bool {
        let is_ours = |tracer| std::path::Path::new(&format!("/proc/self/task/{tracer}")).exists();
        proc::tracer(self.thread).is_some_and(is_ours)
    }

    /// Hands it to its tracer, which sees by itself what it becomes, but has to follow what it starts.
    pub(super) fn meet_its_tracer(self) {
        if !self.is_parent {
            return self.answer();
        }
        let (process, thread) = (self.process as i32, self.thread as i32);
        WAITING.lock().unwrap_or_else(PoisonError::into_inner).push(self);
        // The tracer hears of it, and does not deliver it.
        // SAFETY: sends a signal. A thread that is gone needs none.
        unsafe { libc::syscall(libc::SYS_tgkill, process, thread, libc::SIGSTOP) };
    }

    /// Lets it go on.
    pub(super) fn answer(&self) {
        // A process that is gone needs no answer.
        let _ = send(&self.connection, &[0u8; 4], SendFlags::NOSIGNAL);
    }
}
