//! The process whose memory is borrowed, and the checks that are possible before the process is touched.

use crate::elf;
use crate::footprint::Footprint;
use crate::headroom::MemoryHeadroom;
use crate::inject::BorrowRefusal;
use crate::{PagingError, machine, proc};
use rustix::io::Errno;
use std::fs::File;
use std::time::{Duration, Instant};
use unrack_units::Bytes;

/// A running process that was found fit to lend its memory.
#[derive(Debug, Clone)]
pub struct RunningProgram {
    pub(super) pid: u32,
    /// Start time. Together with the process number it identifies the process uniquely, even if the number is reused.
    pub(super) started: u64,
    name: String,
    words: Vec<String>,
}

const LIBRARY: &str = "libunrack_preload";
/// Names of Unrack's threads that trace a program.
const NAMES: [&str; 2] = ["unrack", "tracer"];
/// Longest time to wait for another instance of Unrack to leave a process.
const LEAVING: Duration = Duration::from_secs(1);

impl RunningProgram {
    /// Finds a process, and makes all checks that are possible without touching it.
    ///
    /// # Errors
    /// [`PagingError::Usage`] if there is no such process, or borrowing from it makes no sense; [`PagingError::Lacking`]
    /// if the memory of this process cannot be borrowed, or this machine supports no borrowing.
    pub fn find(pid: u32) -> Result<RunningProgram, PagingError> {
        check_sense(pid)?;
        machine::check()?;
        machine::check_borrowing()?;
        // Another instance of Unrack may be about to leave the process.
        let deadline = Instant::now() + LEAVING;
        while is_paged(pid) && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
        RunningProgram::check(pid).map_err(PagingError::Lacking)
    }

    /// Checks a process that exists. The error is the reason why its memory cannot be borrowed.
    pub(super) fn check(pid: u32) -> Result<RunningProgram, String> {
        let name = proc::name(pid).unwrap_or_default();
        let says = |why: &str| Err(format!("process {pid} ({name}) {why}"));
        if proc::has_lost_its_first_thread(pid) {
            return says(
                "has lost its first thread, and the kernel does not show the memory of such a process",
            );
        }
        if let Some(tracer) = proc::tracer_of_any_thread(pid) {
            let by = proc::name(tracer).unwrap_or_default();
            return says(&match by.as_str() {
                name if NAMES.contains(&name) => "is paged by unrack already: end that first".to_string(),
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
        if let Some(thread) = proc::threads(pid).into_iter().find(|thread| proc::is_filtered(*thread)) {
            return says(&filtered(pid, thread));
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

    /// Returns the memory that the process has now; with `with_children`, also that of all processes that it has started.
    ///
    /// # Errors
    /// [`PagingError::Lacking`] if the memory is mostly shared.
    pub fn footprint(&self, with_children: bool) -> Result<Footprint, PagingError> {
        let mut members = vec![self.pid];
        if with_children {
            members.extend(proc::descendants(self.pid));
        }
        let footprint = Footprint::distinct(&members);
        footprint.check()?;
        Ok(footprint)
    }

    /// Checks that all memory that becomes remote could exist twice: remote pages stay in the memory of the process and are charged to it
    /// as before, and the child of a fork gets copies of them, whereas natively parent and child would share the pages.
    ///
    /// # Errors
    /// [`PagingError::Lacking`] if a fork would exhaust the memory.
    pub fn check_headroom(&self, footprint: Bytes, local: Bytes) -> Result<(), PagingError> {
        match MemoryHeadroom::of_process(self.pid) {
            Some(headroom) => self.check_room(footprint.get(), local.get(), &headroom),
            None => Ok(()),
        }
    }

    fn check_room(&self, footprint: u64, local: u64, headroom: &MemoryHeadroom) -> Result<(), PagingError> {
        let away = footprint.saturating_sub(local);
        // The program may keep growing.
        let needed = away + away / 16 + RESERVE;
        if headroom.bytes >= needed || away == 0 {
            return Ok(());
        }
        let most_away = headroom.bytes.saturating_sub(RESERVE) / 17 * 16;
        let mib = |bytes: u64| bytes >> 20;
        Err(PagingError::Lacking(format!(
            "{} has {} MiB and may keep {}: the other {} MiB would stay charged to its control group, and a child that it \
             forks would get copies of them where natively it shares them, but only {} MiB are left in {}, so that the \
             kernel might kill the process. Give it --local {}MiB or more, or raise the limit of memory",
            self.title(),
            mib(footprint),
            mib(local),
            mib(away),
            mib(headroom.bytes),
            headroom.of,
            mib(footprint.saturating_sub(most_away)) + 1
        )))
    }

    /// Returns the command of the process in readable form.
    pub fn words(&self) -> &[String] {
        &self.words
    }

    /// Returns the name and the number of the process.
    pub fn title(&self) -> String {
        format!("{} ({})", self.name, self.pid)
    }

    pub(super) fn has_ended(&self) -> bool {
        proc::has_ended(self.pid) || proc::started(self.pid) != Some(self.started)
    }

    /// Converts a refusal into the error for a process that was left unchanged.
    pub(super) fn refused(&self, refusal: BorrowRefusal) -> PagingError {
        if self.has_ended() || proc::is_zombie(self.pid) {
            return PagingError::Failed(format!("{} has just ended", self.title()));
        }
        // The process may have changed since it was found: for example, another instance of Unrack may have attached to it.
        if let (BorrowRefusal::Trace(Errno::PERM), Err(why)) = (refusal, RunningProgram::check(self.pid)) {
            return PagingError::Lacking(why);
        }
        let why = match refusal {
            BorrowRefusal::Filtered(thread) => filtered(self.pid, thread),
            BorrowRefusal::Trace(Errno::SRCH) => {
                return PagingError::Failed(format!("{} has just ended", self.title()));
            }
            BorrowRefusal::Trace(_) => format!("may not be traced by this user: {PERMISSION}"),
            BorrowRefusal::Stop(Errno::AGAIN) => {
                "is stopped, or just becomes another program: try again when it runs".into()
            }
            BorrowRefusal::Stop(_) => {
                "has a thread that cannot be stopped now (it waits for a program that it starts, or for \
                a device): try again"
                    .into()
            }
            BorrowRefusal::Open(why) => {
                format!(
                    "cannot be given the files that its pager needs ({why}): raise its limit of open files"
                )
            }
            BorrowRefusal::Userfaultfd(why) => {
                format!(
                    "cannot have a userfaultfd ({why}): run this as root, on a machine with /dev/userfaultfd"
                )
            }
            BorrowRefusal::Forks => {
                "could fork unseen, and its child would lack memory: to be told of forks by the kernel, \
                unrack needs CAP_SYS_PTRACE; run it as root"
                    .into()
            }
            BorrowRefusal::Start(why) => format!(
                "has no room for the pager ({why}): it needs address space (ulimit -v), a thread, and memory that is not \
                 locked (mlockall)"
            ),
        };
        PagingError::Lacking(format!("process {} {why}", self.title()))
    }
}

/// Bytes that must stay free for a fork itself and for the needs of the program meanwhile.
const RESERVE: u64 = 8 << 20;

const PERMISSION: &str =
    "run this as the same user or as root; where /proc/sys/kernel/yama/ptrace_scope is above 0, as root";

fn filtered(process: u32, thread: u32) -> String {
    let what = if thread == process { "runs".into() } else { format!("has a thread ({thread}) that runs") };
    format!("{what} under a filter of system calls (seccomp), which might end it for those of the pager")
}

fn check_sense(pid: u32) -> Result<(), PagingError> {
    let usage = |why: &str| Err(PagingError::Usage(format!("--pid {pid}: {why}")));
    let Some(process) = proc::process_of(pid) else { return usage("there is no such process") };
    if process != pid {
        return usage(&format!("that is a thread of process {process}: give --pid {process}"));
    }
    if is_own_ancestor(pid) {
        return usage(
            "unrack itself and the processes that started it would wait for themselves: run it from another shell",
        );
    }
    if proc::has_ended(pid) {
        return usage("that process has ended; only its status is left");
    }
    if proc::has_lost_its_first_thread(pid) {
        return Ok(());
    }
    // Threads of the kernel have no address space.
    match proc::status_word(pid, "VmSize:") {
        None => usage("that is a part of the kernel, not a program"),
        Some(_) => Ok(()),
    }
}

/// Returns whether an instance of Unrack pages a process, starts to, or is about to leave it.
fn is_paged(pid: u32) -> bool {
    let is_of_unrack = |tracer| NAMES.contains(&proc::name(tracer).unwrap_or_default().as_str());
    proc::tracer_of_any_thread(pid).is_some_and(is_of_unrack)
        || proc::maps_file(pid, LIBRARY) == Some(true)
        || maps_control_file(pid)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fork_that_would_exhaust_the_memory_is_foreseen() {
        let program = RunningProgram { pid: 7, started: 1, name: "redis-server".into(), words: Vec::new() };
        let check = |footprint: u64, local: u64, left: u64| {
            let headroom = MemoryHeadroom { bytes: left << 20, of: "its control group (/box)".into() };
            program.check_room(footprint << 20, local << 20, &headroom)
        };
        assert_eq!(check(490, 122, 400), Ok(()));
        assert_eq!(check(100, 100, 0), Ok(()), "nothing goes away");
        let why = check(490, 122, 210).unwrap_err().to_string();
        let parts = [
            "redis-server (7) has 490 MiB",
            "other 368 MiB",
            "only 210 MiB are left in its control group",
            "--local 300MiB",
        ];
        assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        assert_eq!(check(490, 300, 210), Ok(()));
    }
}
