//! Lock that keeps one manager per socket, and the ledger's file beside the socket.
//!
//! The ledger is locked for as long as its manager lives. However that ends, the kernel releases the lock. So a
//! process that holds the lock knows that no manager serves the socket, and may replace it. There is nothing to
//! clean up by hand.

use super::error::Error;
use super::ledger::{Ledger, Record, Shape};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The ledger's file, locked. Dropping this removes it, unless some process still needs it.
pub(super) struct Locked {
    file: OwnedFd,
    path: PathBuf,
    needed: bool,
}

impl Locked {
    /// Locks the ledger's file of a socket, which is made if there is none.
    ///
    /// # Errors
    /// If another manager has it, or it cannot be made.
    pub(super) fn take(socket: &Path) -> Result<Locked, Error> {
        let path = ledger_of(socket);
        let failed = |error: Errno| Error::Ledger { path: path.clone(), error: error.into() };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(Error::Served(socket.into())),
                locked => locked.map_err(failed)?,
            }
            // Its last owner may have removed it before we had the lock: then no path leads to it any more, and
            // we try again.
            let ours = rustix::fs::fstat(&file).map_err(failed)?;
            let there = rustix::fs::stat(&path);
            if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
                return Ok(Locked { file, path, needed: false });
            }
        }
    }

    /// Opens the existing ledger and returns its records; or makes a new one. `alive` returns whether the thing
    /// that a record describes still exists.
    ///
    /// # Errors
    /// If it cannot be mapped, or belongs to another pool that programs still use.
    pub(super) fn open(
        &mut self,
        shape: Shape,
        alive: impl Fn(&Record) -> bool,
    ) -> Result<(Ledger, Vec<Record>), Error> {
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

    /// Returns whether the ledger still has to be kept for a process that runs, or for the next manager.
    pub(super) fn is_needed(&self) -> bool {
        self.needed
    }

    /// Sets whether the next manager needs the ledger.
    pub(super) fn set_needed(&mut self, needed: bool) {
        self.needed = needed;
    }
}

/// Unlocks at once: a child that this process forked and that has not executed its program yet has the file, too.
impl Drop for Locked {
    fn drop(&mut self) {
        if !self.needed {
            let _ = rustix::fs::unlink(&self.path);
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Returns the capacity in bytes of the pool that was served at a socket before and that programs may still use.
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
