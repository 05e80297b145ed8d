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

/// The ledger's file, locked.
pub struct Locked {
    file: OwnedFd,
    path: PathBuf,
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
                return Ok(Locked { file, path });
            }
        }
    }

    /// The ledger that is there, and what it says; or a new one. `alive` says whether anything in a ledger that does
    /// not suit this pool is still there.
    ///
    /// # Errors
    /// If it cannot be mapped, or is of another pool that programs still use.
    pub fn open(
        &self,
        shape: Shape,
        alive: impl Fn(&Record) -> bool,
    ) -> Result<(Ledger, Vec<Record>), Error> {
        let failed = |error: Errno| Error::Ledger { path: self.path.clone(), error: error.into() };
        if let Some(found) = Ledger::recover(&self.file, shape).map_err(failed)? {
            return Ok(found);
        }
        if let Some(other) = Ledger::shape_of(&self.file)
            && let Some((_, records)) = Ledger::recover(&self.file, other).map_err(failed)?
            && records.iter().any(alive)
        {
            return Err(Error::OtherPool(self.path.clone()));
        }
        Ok((Ledger::create(&self.file, shape).map_err(failed)?, Vec::new()))
    }

    /// Nobody needs the ledger any more.
    pub fn remove(self) {
        let _ = rustix::fs::unlink(&self.path);
    }
}

/// Let go at once: a child that this process has forked and that has not executed its program yet has the file, too.
impl Drop for Locked {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

fn ledger_of(socket: &Path) -> PathBuf {
    let mut name = socket.as_os_str().to_owned();
    name.push(".ledger");
    name.into()
}
