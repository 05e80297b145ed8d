//! The process whose memory is borrowed: what can be found out about it before it is touched.

use crate::elf;
use crate::footprint::Footprint;
use crate::inject::Refusal;
use crate::{PagingError, machine, proc};
use rustix::io::Errno;
use std::fs::File;

/// A process found fit to lend its memory.
#[derive(Debug, Clone)]
pub struct RunningProgram {
    pub(super) pid: u32,
    /// With the number, this names it for ever.
    pub(super) started: u64,
    name: String,
    words: Vec<String>,
}

const LIBRARY: &str = "libunrack_preload";

impl RunningProgram {
    /// Finds a process, and checks all that can be checked without touching it.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if there is no such process, or it makes no sense to borrow from it;
    /// [`PagingError::Lacking`] if its memory cannot be borrowed, or this machine cannot do that for any.
    pub fn find(pid: u32) -> Result<RunningProgram, PagingError> {
        check_sense(pid)?;
        machine::check()?;
        RunningProgram::check(pid).map_err(PagingError::Lacking)
    }

    /// Checks a process that is there. An error is the reason why its memory cannot be borrowed.
    pub(super) fn check(pid: u32) -> Result<RunningProgram, String> {
        let name = proc::name(pid).unwrap_or_default();
        let says = |why: &str| Err(format!("process {pid} ({name}) {why}"));
        if let Some(tracer) = proc::tracer(pid) {
            let by = proc::name(tracer).unwrap_or_default();
            return says(&match by.as_str() {
                "unrack" | "tracer" => "is paged by unrack already: end that first".to_string(),
                _ => format!("is traced by {by} ({tracer}), and only one can: end that first"),
            });
        }
        if proc::maps_file(pid, LIBRARY) == Some(true) || maps_control_file(pid) {
            return says("is paged by unrack already, or is just being left by it: wait for that to end");
        }
        match File::open(format!("/proc/{pid}/exe")) {
            Err(why) => return says(&format!("cannot be looked at ({why}): {PERMISSION}")),
            Ok(file) if elf::read(&file).ok().and_then(|elf| elf.entrance()).is_none() => {
                return says("is no 64-bit program of this processor, and the pager runs in such only");
            }
            Ok(_) => {}
        }
        if proc::status_word(pid, "Seccomp:").is_some_and(|mode| mode != "0") {
            return says(
                "runs under a filter of system calls (seccomp), which might end it for those of the pager",
            );
        }
        if proc::has_open(pid, "userfaultfd") {
            return says("uses userfaultfd itself, and memory cannot have two pagers");
        }
        if proc::is_stopped(pid) {
            return says("is stopped (SIGSTOP, or in the background of a terminal): let it go on first");
        }
        let started = proc::started(pid).ok_or("it has just ended".to_string())?;
        Ok(RunningProgram { pid, started, name, words: proc::words(pid) })
    }

    /// Returns its memory now.
    ///
    /// # Errors
    /// [`PagingError::Lacking`] if it is mostly shared.
    pub fn footprint(&self) -> Result<Footprint, PagingError> {
        let footprint = Footprint::distinct(&[self.pid]);
        footprint.check()?;
        Ok(footprint)
    }

    /// Returns its command, as a person reads it.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns its name and number.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name, self.pid)
    }

    pub(super) fn has_ended(&self) -> bool {
        proc::has_ended(self.pid) || proc::started(self.pid) != Some(self.started)
    }

    /// Returns the error for a process that was not changed.
    pub(super) fn refused(&self, refusal: Refusal) -> PagingError {
        let why = match refusal {
            Refusal::Trace(Errno::SRCH) => {
                return PagingError::Failed(format!("{} has just ended", self.title()));
            }
            Refusal::Trace(_) => format!("may not be traced by this user: {PERMISSION}"),
            Refusal::Stop(Errno::AGAIN) => {
                "is stopped, or just becomes another program: try again when it runs".into()
            }
            Refusal::Stop(_) => {
                "has a thread that cannot be stopped now (it waits for a program that it starts, or for \
                a device): try again"
                    .into()
            }
            Refusal::Open(why) => {
                format!(
                    "cannot be given the files that its pager needs ({why}): raise its limit of open files"
                )
            }
            Refusal::Userfaultfd(why) => {
                format!(
                    "cannot have a userfaultfd ({why}): run this as root, on a machine with /dev/userfaultfd"
                )
            }
            Refusal::Forks => {
                "could fork unseen, and its child would lack memory: to be told of forks by the kernel, \
                unrack needs CAP_SYS_PTRACE; run it as root"
                    .into()
            }
            Refusal::Start(why) => format!(
                "has no room for the pager ({why}): it needs address space (ulimit -v), a thread, and memory that is not \
                 locked (mlockall)"
            ),
        };
        PagingError::Lacking(format!("process {} {why}", self.title()))
    }
}

const PERMISSION: &str =
    "run this as the same user or as root; where /proc/sys/kernel/yama/ptrace_scope is above 0, as root";

fn check_sense(pid: u32) -> Result<(), PagingError> {
    let usage = |why: &str| Err(PagingError::Usage(format!("--pid {pid}: {why}")));
    let Some(process) = proc::process_of(pid) else { return usage("there is no such process") };
    if process != pid {
        return usage(&format!("that is a thread of process {process}: give --pid {process}"));
    }
    if is_own_ancestor(pid) {
        return usage("unrack itself, and what has started it, wait for it: run it from elsewhere");
    }
    if proc::has_ended(pid) {
        return usage("that process has ended; only its status is left");
    }
    // Threads of the kernel have no memory of their own.
    match proc::status_word(pid, "VmSize:") {
        None => usage("that is a part of the kernel, not a program"),
        Some(_) => Ok(()),
    }
}

/// Returns whether a process has a run's control file mapped.
fn maps_control_file(pid: u32) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let is_one = |line: &str| {
        let path = line.trim_end_matches(" (deleted)");
        path.contains(" rw-s ") && path.contains("/unrack-") && path.ends_with("/control")
    };
    maps.lines().any(is_one)
}

fn is_own_ancestor(pid: u32) -> bool {
    let mut next = Some(std::process::id());
    while let Some(one) = next.filter(|one| *one != 0) {
        if one == pid {
            return true;
        }
        next = proc::parent(one);
    }
    false
}
