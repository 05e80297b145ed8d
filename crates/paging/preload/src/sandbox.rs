//! Filters of system calls (`seccomp(2)`), which would end the process because of the pager's system calls.
//!
//! The pager's threads do not belong to the program. Therefore a filter that the program sets must not apply to them. A filter for all
//! threads (`SECCOMP_FILTER_FLAG_TSYNC`) is set for the calling thread alone if the program has no other thread. Otherwise the pager puts
//! all pages back and ends, and the process continues with all memory local. A child of a process with a filter has no pager either,
//! because the forking thread may not make the system calls that start one.

use std::ffi::{c_int, c_long};
use unrack_pager::{attached, blocking, gate};

/// Returns whether this process has system call filters other than those of `unrack` and the agent.
pub(crate) fn is_filtered_from_outside() -> bool {
    let Some(control) = attached::control() else { return false };
    let ours = control.settings.filters.load(std::sync::atomic::Ordering::Relaxed)
        + control.settings.has_agents_filter.load(std::sync::atomic::Ordering::Relaxed);
    let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
    let count = status.lines().find_map(|line| line.strip_prefix("Seccomp_filters:"));
    count.and_then(|count| count.trim().parse::<u32>().ok()).is_some_and(|count| count > ours)
}

/// Sets a filter by `seccomp` with these flags.
pub(crate) fn seccomp(flags: c_long, call: impl FnOnce(c_long) -> c_long) -> c_long {
    const ALL: c_long = libc::SECCOMP_FILTER_FLAG_TSYNC as c_long;
    const ALL_OR_SRCH: c_long = libc::SECCOMP_FILTER_FLAG_TSYNC_ESRCH as c_long;
    if flags & ALL == 0 {
        return filter(|| call(flags));
    }
    match threads() {
        Some(threads) if threads == 1 + blocking::threads() => filter(|| call(flags & !(ALL | ALL_OR_SRCH))),
        _ => {
            blocking::leave();
            call(flags)
        }
    }
}

/// Sets a filter for the calling thread, and notes that system calls are filtered.
pub(crate) fn filter(call: impl FnOnce() -> c_long) -> c_long {
    let before = gate::is_filtered();
    gate::set_filtered(true);
    let result = call();
    if result < 0 {
        gate::set_filtered(before);
    }
    result
}

/// Returns the number of threads of this process.
fn threads() -> Option<usize> {
    // The folder has one link for each thread, and two for itself.
    let folder = rustix::fs::stat(c"/proc/self/task").ok()?;
    (folder.st_nlink as usize).checked_sub(2)
}

/// Returns whether a call of `prctl` with this option sets a filter.
pub(crate) fn is_filter(option: c_int) -> bool {
    option == libc::PR_SET_SECCOMP
}
