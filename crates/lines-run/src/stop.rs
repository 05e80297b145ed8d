//! End of a run before its own: all its processes are ended, orphans too.

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time between two looks at a run that has a deadline.
const LOOK: Duration = Duration::from_millis(20);
/// Time between two looks for processes that still run, and after which those that do not end are left.
const RESCAN: Duration = Duration::from_millis(5);
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks without a process before a run counts as ended: one that is being started or replaced has no command line for a moment.
const EMPTY_LOOKS: usize = 3;

/// Waits for a run to end, or ends it at a deadline. Returns its status, and whether it was ended. Its processes have `mark` in
/// their command lines.
///
/// # Errors
/// If the kernel does not say how it ended.
pub(crate) fn wait(child: &mut Child, deadline: Instant, mark: &[u8]) -> std::io::Result<(ExitStatus, bool)> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() >= deadline {
            return Ok((end(child, mark)?, true));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends a run and all processes with its mark, until there are none: one may start another meanwhile. A process that does not end
/// is left after `PATIENCE`, the run itself is ended in any case.
fn end(child: &mut Child, mark: &[u8]) -> std::io::Result<ExitStatus> {
    let start = Instant::now();
    let mut empty = 0;
    while empty < EMPTY_LOOKS && start.elapsed() < PATIENCE {
        let has_ended = child.try_wait()?.is_some();
        empty = if end_marked(mark) == 0 && has_ended { empty + 1 } else { 0 };
        std::thread::sleep(RESCAN);
    }
    // Does nothing to one that has ended.
    child.kill()?;
    child.wait()
}

/// Ends all processes with this mark, and returns how many there were.
fn end_marked(mark: &[u8]) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Pid::from_raw);
    pids.filter(|pid| end_one(*pid, mark)).count()
}

/// Ends a process if it has this mark. Returns whether it had, and may be ended.
fn end_one(pid: Pid, mark: &[u8]) -> bool {
    // The process of a descriptor stays the same, the one of a number may become another.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // That of a process that has ended, and is not yet waited for, is empty.
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
        let (status, was_ended) = wait(&mut one, Instant::now(), mark("one").as_bytes()).unwrap();
        assert!(was_ended && !status.success());
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
        let (status, was_ended) = wait(&mut run, Instant::now() + PATIENCE, b"unrack-stop-none").unwrap();
        assert_eq!((status.code(), was_ended), (Some(7), false));
    }
}
