//! The owner of a run: the `unrack` process that started it and that holds a lock on the control file as long as it lives.
//!
//! If a pager can take the lock, the owner was killed. Then the run is no longer watched or cleaned up, so each of its processes ends
//! itself, unless its memory was only borrowed.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};

/// Time in ns between two checks, which is the longest time that a process continues without its owner.
const PAUSE_NS: u64 = 50_000_000;

/// Owner of the run, as the pager of one process sees it.
pub(crate) struct RunOwner {
    /// The control file; `None` if this process cannot open it, or if its file system has no locks.
    file: Option<OwnedFd>,
    next_look_ns: u64,
}

impl RunOwner {
    /// Makes the check for a control file.
    pub(crate) fn new(file: Option<OwnedFd>) -> RunOwner {
        RunOwner { file, next_look_ns: 0 }
    }

    /// Returns whether the owner was killed. Checks the lock only once per pause and otherwise returns false.
    pub(crate) fn was_killed(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_look_ns {
            return false;
        }
        self.next_look_ns = now_ns + PAUSE_NS;
        self.is_gone()
    }

    /// Returns whether the lock is free. Several pagers may find it free and share it, because after the owner's end the lock has no other
    /// use.
    fn is_gone(&self) -> bool {
        self.file.as_ref().is_some_and(|file| flock(file, FlockOperation::NonBlockingLockShared).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{MemfdFlags, memfd_create};

    #[test]
    fn an_owner_is_gone_when_its_lock_is_free() {
        let held = memfd_create("control", MemfdFlags::CLOEXEC).unwrap();
        flock(&held, FlockOperation::LockExclusive).unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&held));
        let seen = std::fs::File::open(path).unwrap();
        let owner = RunOwner::new(Some(seen.into()));
        assert!(!owner.is_gone());
        drop(held);
        assert!(owner.is_gone());
        assert!(!RunOwner::new(None).is_gone(), "who cannot look goes on");
    }
}
