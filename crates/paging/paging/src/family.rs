//! All processes of a run: the program and its descendants, including orphans, which the kernel reparents to this process because it is
//! their *subreaper*.

use crate::program_end::ProgramEnd;
use crate::{PagingError, proc, trace};
use rustix::process::{Pid, Signal};
use std::cell::RefCell;
use std::collections::HashMap;
use std::time::Duration;

/// Environment variable that all processes of a run have. Its value is the mark of the run.
pub(crate) const MARK_VARIABLE: &str = "UNRACK_RUN";

/// Maximum number of attempts to read the environment of a process, and the interval between two attempts; an `execve` takes less time than
/// all attempts.
const LOOKS: u32 = 4;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The processes of a run.
pub(crate) struct ProcessFamily {
    /// Children that this process had before the run.
    strangers: Vec<u32>,
    own: u32,
    /// Value of [`MARK_VARIABLE`] by which to find processes that are not descendants of this process.
    mark: Option<String>,
    /// Members that are not descendants of this process, with their start times: the program in its placeholder, and every process that was
    /// seen below it. They are remembered because orphans of the placeholder are not reparented to this process.
    elsewhere: RefCell<HashMap<u32, u64>>,
}

impl ProcessFamily {
    /// Makes this process a subreaper. Must be called before the program is started.
    pub(crate) fn claim() -> Result<ProcessFamily, PagingError> {
        let own = rustix::process::getpid();
        rustix::process::set_child_subreaper(Some(own))
            .map_err(PagingError::failed("follow the program's processes"))?;
        let own = own.as_raw_nonzero().get() as u32;
        let strangers = proc::children(own);
        Ok(ProcessFamily { strangers, own, mark: None, elsewhere: RefCell::default() })
    }

    /// Adds all processes whose environment has this mark.
    pub(crate) fn with_mark(mut self, mark: Option<String>) -> ProcessFamily {
        self.mark = mark;
        self
    }

    /// Adds a program that is not a descendant of this process.
    pub(crate) fn with_program(self, pid: u32) -> ProcessFamily {
        self.elsewhere.borrow_mut().extend(proc::started(pid).map(|started| (pid, started)));
        self
    }

    /// Returns the children of this process that belong to the run: the program, and orphans of its descendants.
    fn roots(&self) -> Vec<u32> {
        let mut roots = proc::children(self.own);
        roots.retain(|pid| !self.strangers.contains(pid));
        roots
    }

    /// Returns all processes of the run. Descendants of this process are included even if they have ended; other processes only if they
    /// have not ended.
    pub(crate) fn members(&self) -> Vec<u32> {
        let mut members = self.roots();
        add_descendants(&mut members);
        let mut elsewhere = self.elsewhere.borrow_mut();
        elsewhere.retain(|pid, started| proc::started(*pid) == Some(*started) && !proc::has_ended(*pid));
        let mut others: Vec<u32> = elsewhere.keys().copied().collect();
        add_descendants(&mut others);
        others.retain(|pid| !proc::has_ended(*pid) && !members.contains(pid));
        elsewhere.extend(others.iter().filter_map(|pid| Some((*pid, proc::started(*pid)?))));
        others.sort_unstable();
        members.extend(others);
        members
    }

    /// Returns all processes of the run, including those that were never seen below the program. Expensive, because it inspects every
    /// process of the machine.
    pub(crate) fn all_members(&self) -> Vec<u32> {
        if let Some(mark) = &self.mark {
            let variable = format!("{MARK_VARIABLE}={mark}");
            let marked = marked(&variable);
            let found: Vec<_> =
                marked.into_iter().filter_map(|pid| Some((pid, proc::started(pid)?))).collect();
            self.elsewhere.borrow_mut().extend(found);
        }
        self.members()
    }

    /// Reaps orphans that have ended.
    pub(crate) fn bury_orphans(&self, program: u32) {
        for pid in self.roots().into_iter().filter(|pid| *pid != program) {
            ended(pid);
        }
    }

    /// Sends a signal to all processes, except those that have ended.
    pub(crate) fn signal_all(&self, signal: Signal) {
        for pid in self.all_members() {
            send(pid, signal);
        }
    }
}

impl Drop for ProcessFamily {
    fn drop(&mut self) {
        // If this call fails, there is no remedy; a later run makes the call again.
        let _ = rustix::process::set_child_subreaper(None);
    }
}

/// Returns the processes of the machine that have this environment variable. A process in the middle of an `execve` has no environment for
/// a moment, so it is inspected again.
fn marked(variable: &str) -> Vec<u32> {
    let mut found = Vec::new();
    let mut unknown = proc::all();
    for _ in 0..LOOKS {
        unknown.retain(|pid| match proc::has_variable(*pid, variable) {
            Some(has) => {
                found.extend(has.then_some(*pid));
                false
            }
            None => true,
        });
        if unknown.is_empty() {
            break;
        }
        std::thread::sleep(BETWEEN_LOOKS);
    }
    found
}

fn add_descendants(members: &mut Vec<u32>) {
    let mut next = 0;
    while next < members.len() {
        let found = proc::children(members[next]);
        // Skips known members, because a process may change its parent meanwhile.
        let new: Vec<_> = found.into_iter().filter(|pid| !members.contains(pid)).collect();
        members.extend(new);
        next += 1;
    }
}

/// Reaps a child that has ended, and returns how it ended; `None` if it has not ended.
pub(crate) fn ended(pid: u32) -> Option<ProgramEnd> {
    let end = trace::end_of(pid)?;
    trace::bury(pid);
    Some(end)
}

/// Sends a signal to a process. Does nothing if the process has ended meanwhile.
pub(crate) fn send(pid: u32, signal: Signal) {
    if let Some(handle) = handle(pid) {
        let _ = rustix::process::kill_process(handle, signal);
    }
}

fn handle(pid: u32) -> Option<Pid> {
    i32::try_from(pid).ok().and_then(Pid::from_raw)
}
