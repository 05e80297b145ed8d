//! End of the command with the program that started it, such as a Python that is killed.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use unrack_compare::PARENT_VARIABLE;

/// Has the kernel send SIGTERM to this process when its parent ends, if the parent asked for that. Call this first: the
/// parent may end at any time.
pub(crate) fn end_with_it() {
    let asked =
        std::env::var(PARENT_VARIABLE).ok().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    if asked.is_none() || getppid() != asked {
        return;
    }
    // Kernels without it leave the command running, as before.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid() != asked {
        // It ended before the kernel was asked.
        std::process::exit(128 + Signal::TERM.as_raw());
    }
}
