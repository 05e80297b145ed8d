//! Identity of processes, which remains correct when process numbers are reused.

use super::ledger::Process;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// Returns when a process started, in clock ticks since boot.
pub(super) fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may contain any characters, including parentheses.
    let after_name = &stat[stat.rfind(')')? + 1..];
    // The start time is the 22nd field, and the first field after the name is the 3rd.
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Returns a descriptor (pidfd) that becomes readable when a process ends; `None` if the process has already ended.
pub(super) fn watch(process: &Process) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(process.peer.pid).ok()?)?;
    let watched = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // The start time is checked while the pidfd is open, because then the number cannot pass to another process any
    // more.
    (started(process.peer.pid)? == process.started).then_some(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_and_no_other_is_taken_for_it() {
        let pid = std::process::id();
        let mine = started(pid).expect("this process started");
        let peer =
            crate::wire::PeerProcess { id: crate::wire::ClientId(1), pid, uid: 0, gid: 0, name: "x".into() };
        assert!(watch(&Process { peer: peer.clone(), started: mine }).is_some());
        assert!(watch(&Process { peer: peer.clone(), started: mine + 1 }).is_none());
        let ended = std::process::Command::new("true").spawn().and_then(|mut child| {
            let pid = child.id();
            child.wait().map(|_| pid)
        });
        let peer = crate::wire::PeerProcess { pid: ended.expect("`true` runs"), ..peer };
        assert!(watch(&Process { peer, started: mine }).is_none());
    }
}
