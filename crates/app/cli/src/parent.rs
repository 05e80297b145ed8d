//! Ends the command when the program that started it ends, for example a Python process that is killed.

use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};
use unrack_compare::PARENT_VARIABLE;

/// If the parent requested it, asks the kernel to send SIGTERM to this process when the parent ends. Call this first, because the parent
/// may end at any time.
pub(crate) fn end_with_it() {
    let asked =
        std::env::var(PARENT_VARIABLE).ok().and_then(|text| text.parse().ok()).and_then(Pid::from_raw);
    if asked.is_none() || getppid() != asked {
        return;
    }
    // On a kernel without this feature the command keeps running.
    let _ = set_parent_process_death_signal(Some(Signal::TERM));
    if getppid() != asked {
        // The parent ended before the kernel was asked, so no signal will come.
        std::process::exit(128 + Signal::TERM.as_raw());
    }
}
