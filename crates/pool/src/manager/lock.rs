//! One manager at a socket, and its ledger beside it.
//!
//! The ledger is locked for as long as its manager lives, however it ends: the kernel lets the lock go. So whoever
//! has the lock knows that nobody serves the socket, and may replace it. There is nothing to clean up by hand.

use super::Error;
use super::ledger::{Ledger, Record, Shape};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::{Path, PathBuf};

/// The ledger's file, locked. It is removed when this is dropped, unless some process is in it.
pub struct Locked {
    file: OwnedFd,
    path: PathBuf,
    needed: bool,
}

impl Locked {
    /// # Errors
    /// If another manager has it, or it cannot be made.
    pub fn take(socket: &Path) -> Result<Locked, Error> {
        let path = ledger_of(socket);
        let failed = |error: Errno| Error::Ledger { path: path.clone(), error: error.into() };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        loop {
            let file = rustix::fs::open(&path, flags, Mode::RUSR | Mode::WUSR).map_err(failed)?;
            match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Err(Errno::WOULDBLOCK) => return Err(Error::Served(socket.into())),
                locked => locked.map_err(failed)?,
            }
            // Whoever had it may have removed it before we had the lock: then it is nobody's, and nobody finds it.
            let ours = rustix::fs::fstat(&file).map_err(failed)?;
            let there = rustix::fs::stat(&path);
            if there.is_ok_and(|there| (there.st_dev, there.st_ino) == (ours.st_dev, ours.st_ino)) {
                return Ok(Locked { file, path, needed: false });
            }
        }
    }

    /// The ledger that is there, and what it says; or a new one. `alive` says whether what a record is of still is.
    ///
    /// # Errors
    /// If it cannot be mapped, or is of another pool that programs still use.
    pub fn open(
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

    /// True if a process that still runs is in the ledger.
    pub fn is_needed(&self) -> bool {
        self.needed
    }

    /// Says whether the next manager needs the ledger.
    pub fn set_needed(&mut self, needed: bool) {
        self.needed = needed;
    }
}

/// Let go at once: a child that this process has forked and that has not executed its program yet has the file, too.
impl Drop for Locked {
    fn drop(&mut self) {
        if !self.needed {
            let _ = rustix::fs::unlink(&self.path);
        }
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// The capacity of the pool that was served at a socket before and that programs may still use, in bytes.
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
