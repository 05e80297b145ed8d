//! Folder whose files are segments.

use super::error::Error;
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::path::Path;

/// Folder of segments. It is locked until this is dropped, because two pools in one folder would remove each other's
/// files.
pub(super) struct SegmentFolder {
    file: OwnedFd,
    huge: bool,
}

/// Values of `f_type` for the file systems whose files are in memory.
const TMPFS: u32 = 0x0102_1994;
const HUGETLBFS: u32 = 0x9584_58f6;

impl SegmentFolder {
    /// Opens and locks a folder that belongs to this user alone, on a file system whose files are in memory.
    ///
    /// # Errors
    /// If the folder is not such a folder, or another pool has locked it.
    pub(super) fn take(path: &Path) -> Result<SegmentFolder, Error> {
        let unfit = |why: String| Error::Folder { path: path.into(), why };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
            Errno::NOENT => Error::Lacking(format!(
                "there is no folder {}: make it first with `{}`",
                path.display(),
                make(path)
            )),
            error => unfit(format!("it cannot be opened as a folder: {}", std::io::Error::from(error))),
        })?;
        let failed = |error: Errno| unfit(std::io::Error::from(error).to_string());
        let stat = rustix::fs::fstat(&file).map_err(failed)?;
        let others = (Mode::RWXG | Mode::RWXO).as_raw_mode();
        if stat.st_uid != rustix::process::geteuid().as_raw() || stat.st_mode & others != 0 {
            return Err(unfit(format!("others can use it: give a folder made with `{}`", make(path))));
        }
        let kind = rustix::fs::fstatfs(&file).map_err(failed)?.f_type as u32;
        if kind != TMPFS && kind != HUGETLBFS {
            let text = "its files are not in memory: give a folder on tmpfs, such as one in /dev/shm, or on hugetlbfs";
            return Err(unfit(text.into()));
        }
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)
            .map_err(|_| unfit("another pool uses it: give each pool a different folder".into()))?;
        Ok(SegmentFolder { file, huge: kind == HUGETLBFS })
    }

    /// Returns whether the folder's files consist of huge pages, which are not part of the machine's free memory.
    pub(super) fn is_huge(&self) -> bool {
        self.huge
    }

    /// Returns the bytes that the folder's file system has free for this user.
    pub(super) fn free_bytes(&self) -> Option<u64> {
        let found = rustix::fs::fstatvfs(&self.file).ok()?;
        found.f_bavail.checked_mul(found.f_frsize)
    }
}

/// Unlocks the folder explicitly, because closing the descriptor may not suffice: a child that this process forked and
/// that has not executed its program yet holds the same descriptor.
impl Drop for SegmentFolder {
    fn drop(&mut self) {
        let _ = rustix::fs::flock(&self.file, FlockOperation::Unlock);
    }
}

/// Returns the command that makes such a folder, for messages.
fn make(path: &Path) -> String {
    format!("install -d -m 700 {}", path.display())
}
