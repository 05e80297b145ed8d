//! Lock that allows one manager per socket, and the file of the ledger, which is next to the socket.
//!
//! The manager keeps the ledger locked as long as it runs, and the kernel releases the lock however the manager ends.
//! Therefore a process that obtains the lock knows that no manager serves the socket, and may replace the socket. A
//! crash leaves no lock that must be removed by hand.

use super::error::Error;
use super::ledger::{Ledger, LedgerRecord, LedgerShape};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The ledger's file, locked. Dropping this removes the file, unless a process still needs it.
pub(super) struct LockedLedger {
    file: OwnedFd,
    path: PathBuf,
    needed: bool,
}

impl LockedLedger {
    /// Locks the ledger's file of a socket, and makes the file if it does not exist.
    ///
    /// # Errors
    /// If another manager has locked the file, or it cannot be made.
    pub(super) fn take(socket: &Path) -> Result<LockedLedger, Error> {
        let path = ledger_of(socket);
        let failed = |error: Errno| Error::Ledger { path: path.clone(), error: error.into() };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(Error::Served(socket.into())),
                locked => locked.map_err(failed)?,
            }
            // The previous owner may have removed the file before it was locked here. Then the path no longer leads to
            // this file, so the attempt is repeated.
            let ours = rustix::fs::fstat(&file).map_err(failed)?;
            let there = rustix::fs::stat(&path);
            if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
                return Ok(LockedLedger { file, path, needed: false });
            }
        }
    }

    /// Opens the existing ledger and returns its records, or makes a new ledger. `alive` returns whether the object
    /// that a record describes still exists.
    ///
    /// # Errors
    /// If the ledger cannot be mapped, or belongs to another pool that programs still use.
    pub(super) fn open(
        &mut self,
        shape: LedgerShape,
        alive: impl Fn(&LedgerRecord) -> bool,
    ) -> Result<(Ledger, Vec<LedgerRecord>), Error> {
        let path = self.path.clone();
        let failed = |error: Errno| Error::Ledger { path: path.clone(), error: error.into() };
        if let Some((ledger, records)) = Ledger::recover(&self.file, shape).map_err(failed)? {
            self.needed = records.iter().any(alive);
            return Ok((ledger, records));
        }
        if let Some(other) = Ledger::shape_of(&self.file)
            && let Some((_, records)) = Ledger::recover(&self.file, other).map_err(failed)?
            && records.iter().any(alive)
        {
            self.needed = true;
            return Err(Error::OtherPool(path));
        }
        Ok((Ledger::create(&self.file, shape).map_err(failed)?, Vec::new()))
    }

    /// Returns whether the ledger must be kept for a running process or for the next manager.
    pub(super) fn is_needed(&self) -> bool {
        self.needed
    }

    /// Sets whether the next manager needs the ledger.
    pub(super) fn set_needed(&mut self, needed: bool) {
        self.needed = needed;
    }
}

/// Unlocks the file explicitly, because closing the descriptor may not suffice: a child that this process forked and
/// that has not executed its program yet holds the same descriptor.
impl Drop for LockedLedger {
    fn drop(&mut self) {
        if !self.needed {
            let _ = rustix::fs::unlink(&self.path);
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Returns the capacity in bytes of the pool that was served at a socket before, and that programs may still use.
pub fn capacity_before(socket: &Path) -> Option<u64> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::open(ledger_of(socket), flags, Mode::empty()).ok()?;
    Ledger::shape_of(&file)?.capacity_sections.checked_mul(crate::SECTION)
}

fn ledger_of(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".ledger");
    name.into()
}
