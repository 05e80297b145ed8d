//! A thread that asks to be traced.

use super::{FOLLOW, USUAL};
use crate::proc;
use crate::trace::raw;
use rustix::fd::OwnedFd;
use rustix::net::{RecvFlags, SendFlags, recv, send, sockopt};
use unrack_pager::control::SPAWN;
use unrack_pager::door::QUESTION;

/// Thread that waits at the door for an answer.
pub(super) struct Guest {
    pub thread: u32,
    /// It is about to start a program, and is of no interest itself.
    pub is_parent: bool,
    connection: OwnedFd,
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
        is_its_own.then_some(Guest { thread, is_parent: what == SPAWN, connection })
    }

    /// Traces the thread, and answers. Returns whether that was permitted.
    pub(super) fn seize(&self) -> bool {
        let options = if self.is_parent { FOLLOW } else { USUAL };
        let seized = raw::seize(self.thread, options);
        // A process that is gone needs no answer.
        let _ = send(&self.connection, &[0u8; 4], SendFlags::NOSIGNAL);
        seized.is_ok()
    }
}
