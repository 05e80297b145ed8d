//! Locks that show whether the process that made a file is still alive.
//!
//! A process locks each file that it makes (`flock(2)`), and the kernel drops the lock when the process ends for any reason. Therefore a
//! file whose lock can be taken is abandoned. The name of the file would not prove this, because any process can choose a name; a process
//! number would not either, because numbers are reused.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::io::Errno;

/// Creates a file that stays locked as long as it is open. Returns `None` if a sweep took the file for abandoned before it was locked, and
/// has removed it.
///
/// # Errors
/// If the file cannot be created.
pub(crate) fn create(path: &Path, mode: u32) -> io::Result<Option<File>> {
    let file = File::options().write(true).create_new(true).mode(mode).open(path)?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok((file.metadata()?.nlink() > 0).then_some(file)),
        Err(Errno::WOULDBLOCK) => Ok(None),
        // This file system has no locks, so a sweep cannot take a lock either.
        Err(_) => Ok(Some(file)),
    }
}

/// Takes the lock of a file of this user whose maker has ended. Returns `None` if the maker is alive, or if the path is not such a file.
pub(crate) fn claim_abandoned(path: &Path) -> Option<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let opened = file.metadata().ok()?;
    if !opened.is_file() || !is_own(&opened) {
        return None;
    }
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    // The maker may have renamed the file meanwhile.
    let there = path.symlink_metadata().ok()?;
    ((there.dev(), there.ino()) == (opened.dev(), opened.ino())).then_some(file)
}

/// Returns whether this user made the file. Therefore even root leaves files of other users alone.
pub(crate) fn is_own(meta: &std::fs::Metadata) -> bool {
    meta.uid() == rustix::process::geteuid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;
    use unrack_testing::TestFolder;

    #[test]
    fn only_the_lock_says_that_a_file_is_abandoned() {
        let folder = TestFolder::new("lock");
        let path = folder.join("a");
        let made = create(&path, 0o600).unwrap().unwrap();
        assert!(claim_abandoned(&path).is_none(), "its maker lives");
        drop(made);
        let claim = claim_abandoned(&path).expect("its maker is gone");
        assert!(claim_abandoned(&path).is_none(), "somebody else removes it already");
        drop(claim);
        std::os::unix::fs::symlink(&path, folder.join("link")).unwrap();
        for other in ["link", "absent", "."] {
            assert!(claim_abandoned(&folder.join(other)).is_none(), "{other}");
        }
    }
}
