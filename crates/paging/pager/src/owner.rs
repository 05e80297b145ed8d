//! The owner of a run: the `unrack` that started it, which holds a lock on the control file as long as it lives.
//!
//! When the lock can be taken, the owner was killed. Nobody watches the run or cleans up after it any more, so
//! each of its processes ends itself, unless its memory was only borrowed.

use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, flock};

/// Time between two checks: the longest that a process goes on without its owner.
const PAUSE_NS: u64 = 50_000_000;

/// Owner of the run, as the pager of one process sees it.
pub(crate) struct Owner {
    /// The control file; `None` if it cannot be opened from here, or its file system has no locks.
    file: Option<OwnedFd>,
    next_look_ns: u64,
}

impl Owner {
    /// Makes the check for a control file.
    pub(crate) fn new(file: Option<OwnedFd>) -> Owner {
        Owner { file, next_look_ns: 0 }
    }

    /// Returns whether the owner was killed; looks only from time to time.
    pub(crate) fn was_killed(&mut self, now_ns: u64) -> bool {
        if now_ns < self.next_look_ns {
            return false;
        }
        self.next_look_ns = now_ns + PAUSE_NS;
        self.is_gone()
    }

    /// Returns whether the lock is free. Several pagers may find it free and share it; nobody else needs
    /// it then.
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
        let owner = Owner::new(Some(seen.into()));
        assert!(!owner.is_gone());
        drop(held);
        assert!(owner.is_gone());
        assert!(!Owner::new(None).is_gone(), "who cannot look goes on");
    }
}
