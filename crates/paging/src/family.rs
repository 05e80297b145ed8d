//! All processes of a run: the program and its descendants, including orphans, which the kernel gives to us as
//! their *subreaper*.

use crate::job::ProgramEnd;
use crate::{PagingError, proc, trace};
use rustix::process::{Pid, Signal};

/// The processes of a run.
pub(crate) struct Family {
    /// Children that this process had before the run.
    strangers: Vec<u32>,
    own: u32,
}

impl Family {
    /// Makes this process a subreaper. Call before the program is started.
    pub(crate) fn claim() -> Result<Family, PagingError> {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own))
            .map_err(PagingError::failed("follow the program's processes"))?;
        let own = own.as_raw_nonzero().get() as u32;
        Ok(Family { strangers: proc::children(own), own })
    }

    /// Returns our own children: the program, and orphans of its descendants.
    fn roots(&self) -> Vec<u32> {
        let mut roots = proc::children(self.own);
        roots.retain(|pid| !self.strangers.contains(pid));
        roots
    }

    /// Returns all processes of the run, ended or not.
    pub(crate) fn members(&self) -> Vec<u32> {
        let mut members = self.roots();
        let mut next = 0;
        while next < members.len() {
            let found = proc::children(members[next]);
            // A process may change its parent meanwhile.
            let new: Vec<_> = found.into_iter().filter(|pid| !members.contains(pid)).collect();
            members.extend(new);
            next += 1;
        }
        members
    }

    /// Reaps orphans that have ended.
    pub(crate) fn bury_orphans(&self, program: u32) {
        for pid in self.roots().into_iter().filter(|pid| *pid != program) {
            ended(pid);
        }
    }

    /// Sends a signal to all processes, except those that have ended.
    pub(crate) fn signal_all(&self, signal: Signal) {
        for pid in self.members() {
            send(pid, signal);
        }
    }
}

impl Drop for Family {
    fn drop(&mut self) {
        // A refusal has no remedy: a later run asks again.
        let _ = rustix::process::set_child_subreaper(None);
    }
}

/// Returns how a child has ended, and buries it.
pub(crate) fn ended(pid: u32) -> Option<ProgramEnd> {
    let end = trace::end_of(pid)?;
    trace::bury(pid);
    Some(end)
}

/// Sends a signal to a process; one that has ended meanwhile needs none.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Some(handle) = handle(pid) {
        let _ = rustix::process::kill_process(handle, signal);
    }
}

fn handle(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
