//! Processes, such that none is taken for another that has its number later.

use super::ledger::Process;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, pidfd_open};

/// When a process started, in ticks after the kernel did.
pub fn started(pid: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name is in parentheses, and may hold anything, those included.
    let after_name = &stat[stat.rfind(')')? + 1..];
    // The 22nd field; the 3rd is the first after the name.
    after_name.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// A descriptor that says when a process ends, if it has not.
pub fn watch(process: &Process) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(process.peer.pid).ok()?)?;
    let watched = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    // Asked when the process can no longer be replaced under our eyes.
    (started(process.peer.pid)? == process.started).then_some(watched)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_known_and_no_other_is_taken_for_it() {
        let pid = std::process::id();
        let mine = started(pid).expect("this process started");
        let peer = crate::wire::Peer { id: crate::wire::ClientId(1), pid, uid: 0, gid: 0, name: "x".into() };
        assert!(watch(&Process { peer: peer.clone(), started: mine }).is_some());
        assert!(watch(&Process { peer: peer.clone(), started: mine + 1 }).is_none());
        let ended = std::process::Command::new("true").spawn().and_then(|mut child| {
            let pid = child.id();
            child.wait().map(|_| pid)
        });
        let peer = crate::wire::Peer { pid: ended.expect("`true` runs"), ..peer };
        assert!(watch(&Process { peer, started: mine }).is_none());
    }
}
