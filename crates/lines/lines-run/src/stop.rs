//! Waits for the end of an instrumented run, or ends the run early: at a deadline, or because this process was asked to
//! stop. In this case, all processes of the run are ended, including orphans.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Interval at which this process checks whether a run has ended.
const LOOK: Duration = Duration::from_millis(20);
/// While a run is being ended: interval between two searches for its processes. The constant after it is the time after
/// which processes that do not end are abandoned.
const RESCAN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// Number of successive searches that find no process of a run, after which all processes of the run count as ended.
/// One search is not enough, because a process that is being started or replaced has no command line for a moment.
const EMPTY_LOOKS: usize = 3;

/// Reason why a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunEnd {
    /// The program ended by itself.
    Itself,
    /// The run was ended because its deadline had passed.
    Deadline,
    /// The run was ended because this process was asked to stop.
    Stopped,
}

/// Waits until a run ends, or ends it at the deadline or when `is_stopped` returns `true`. A process belongs to the run
/// if its command line contains `mark`.
///
/// # Errors
/// If the exit status cannot be obtained from the kernel.
pub(crate) fn wait(
    child: &mut Child,
    deadline: Option<Instant>,
    is_stopped: &dyn Fn() -> bool,
    mark: &[u8],
) -> std::io::Result<(ExitStatus, RunEnd)> {
    loop {
        if is_stopped() {
            return Ok((end(child, mark)?, RunEnd::Stopped));
        }
        if let Some(status) = child.try_wait()? {
            return Ok((status, RunEnd::Itself));
        }
        if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Ok((end(child, mark)?, RunEnd::Deadline));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a run and all processes whose command line contains `mark`. The search for them is repeated, because a process
/// may start another one in the meantime. After `PATIENCE`, processes that do not end are abandoned, except the first
/// process of the run, which is always ended.
fn end(child: &mut Child, mark: &[u8]) -> std::io::Result<ExitStatus> {
    let start = Instant::now();
    let mut empty = 0;
    while empty < EMPTY_LOOKS && start.elapsed() < PATIENCE {
        let has_ended = child.try_wait()?.is_some();
        empty = if end_marked(mark) == 0 && has_ended { empty + 1 } else { 0 };
        std::thread::sleep(RESCAN);
    }
    // This has no effect on a process that has ended.
    child.kill()?;
    child.wait()
}

/// Ends all processes whose command line contains this mark. Returns their number.
fn end_marked(mark: &[u8]) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Pid::from_raw);
    pids.filter(|pid| end_one(*pid, mark)).count()
}

/// Ends a process if its command line contains this mark. Returns whether the process had the mark
/// and the signal was sent.
fn end_one(pid: Pid, mark: &[u8]) -> bool {
    // A process descriptor always refers to the same process, whereas a process ID may be reused.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // The command line of a zombie process is empty.
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let has_mark = line.windows(mark.len()).any(|window| window == mark);
    has_mark && pidfd_send_signal(&process, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    fn waiting(mark: &str) -> Child {
        Command::new("sh").args(["-c", "while sleep 0.05; do :; done", mark]).spawn().unwrap()
    }

    #[test]
    fn a_run_with_another_mark_goes_on() {
        let mark = |name: &str| format!("unrack-stop-{name}-{}", std::process::id());
        let (mut one, mut other) = (waiting(&mark("one")), waiting(&mark("other")));
        let now = Some(Instant::now());
        let (status, ended) = wait(&mut one, now, &|| false, mark("one").as_bytes()).unwrap();
        assert!(ended == RunEnd::Deadline && !status.success());
        assert!(other.try_wait().unwrap().is_none());
        assert!(!end(&mut other, mark("other").as_bytes()).unwrap().success());
    }

    #[test]
    fn a_run_ends_however_young_it_is() {
        for round in 0..50 {
            let mark = format!("unrack-stop-young-{round}-{}", std::process::id());
            let mut run = waiting(&mark);
            std::thread::sleep(Duration::from_micros(20 * round));
            assert!(!end(&mut run, mark.as_bytes()).unwrap().success());
            assert_eq!(end_marked(mark.as_bytes()), 0);
        }
    }

    #[test]
    fn a_run_that_ends_by_itself_has_its_status() {
        let mut run = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let (status, ended) = wait(&mut run, None, &|| false, b"unrack-stop-none").unwrap();
        assert_eq!((status.code(), ended), (Some(7), RunEnd::Itself));
    }

    #[test]
    fn a_run_ends_when_its_process_is_asked_to_stop() {
        let mark = format!("unrack-stop-asked-{}", std::process::id());
        let mut run = waiting(&mark);
        let (status, ended) = wait(&mut run, None, &|| true, mark.as_bytes()).unwrap();
        assert!(ended == RunEnd::Stopped && !status.success());
        assert_eq!(end_marked(mark.as_bytes()), 0);
    }
}
