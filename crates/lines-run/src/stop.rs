//! End of a run before its own: all its processes are ended, orphans too.

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::path::Path;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

/// Time between two looks at a run that has a deadline.
const LOOK: Duration = Duration::from_millis(20);

/// Waits for a run to end, or ends it at a deadline. Returns its status, and whether it was ended.
///
/// # Errors
/// If the kernel does not say how it ended.
pub(crate) fn wait(
    child: &mut Child,
    deadline: Instant,
    records: &Path,
) -> std::io::Result<(ExitStatus, bool)> {
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok((status, false));
        }
        if Instant::now() >= deadline {
            end(records);
            return Ok((child.wait()?, true));
        }
        std::thread::sleep(LOOK);
    }
}

/// Ends all processes that are recorded to a folder, until there are none: one may start another meanwhile.
fn end(records: &Path) {
    let Some(name) = records.file_name() else { return };
    while recorded(name.as_encoded_bytes()) > 0 {}
}

/// Ends all processes whose command line names these records, and returns how many there were.
fn recorded(name: &[u8]) -> usize {
    let processes = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids =
        processes.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).filter_map(Pid::from_raw);
    pids.filter(|pid| end_one(*pid, name)).count()
}

/// Ends a process if its command line has this part. Returns whether it had, and was not yet ended.
fn end_one(pid: Pid, part: &[u8]) -> bool {
    // The process of a descriptor stays the same, the one of a number may become another.
    let Ok(process) = pidfd_open(pid, PidfdFlags::empty()) else { return false };
    // That of a process that has ended, and is not yet waited for, is empty.
    let line = std::fs::read(format!("/proc/{}/cmdline", pid.as_raw_nonzero())).unwrap_or_default();
    let has_part = line.windows(part.len()).any(|window| window == part);
    has_part && pidfd_send_signal(&process, Signal::KILL) != Err(Errno::SRCH)
}
