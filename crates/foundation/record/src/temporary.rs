//! Temporary folders that are removed even if their process is killed.
//!
//! Each folder contains a file that its process keeps locked. The process removes the folder when it no longer needs it. If the process was
//! killed before that, the next [`sweep`] removes the folder. Folders of other users and folders without such a file are never removed,
//! whatever their names.

use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::lock;

const PREFIX: &str = "unrack-";
const LOCK: &str = ".unrack-lock";

/// Folder that only this user can enter. It is removed with all its contents when this value is dropped.
#[derive(Debug)]
pub struct TemporaryFolder {
    path: PathBuf,
    _lock: File,
}

impl TemporaryFolder {
    /// Creates a folder in `parent`.
    ///
    /// # Errors
    /// If the folder cannot be created.
    pub fn within(parent: &Path) -> io::Result<TemporaryFolder> {
        loop {
            let path = parent.join(unique_name());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => {}
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => continue,
                Err(why) => return Err(why),
            }
            match lock::create(&path.join(LOCK), 0o600) {
                Ok(Some(lock)) => return Ok(TemporaryFolder { path, _lock: lock }),
                Ok(None) => {}
                Err(why) => {
                    // Errors here are ignored, because the first error is more informative.
                    let _ = std::fs::remove_dir(&path);
                    return Err(why);
                }
            }
        }
    }

    /// Returns the path of the folder.
    pub fn whole(&self) -> &Path {
        &self.path
    }

    /// Returns the path of the file with this name in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }
}

impl Drop for TemporaryFolder {
    fn drop(&mut self) {
        // Repeated because a process that is just ending may still add a file.
        for _ in 0..3 {
            if remove(&self.path).is_ok() {
                return;
            }
        }
    }
}

/// Removes the folders that killed processes of this user left in `parent`. Errors are ignored, because the next sweep finds the folders
/// that remain.
pub fn sweep(parent: &Path) {
    let Ok(entries) = std::fs::read_dir(parent) else { return };
    for entry in entries.flatten() {
        if !entry.file_name().to_string_lossy().starts_with(PREFIX) || !is_own_folder(&entry.path()) {
            continue;
        }
        if let Some(_claim) = lock::claim_abandoned(&entry.path().join(LOCK)) {
            let _ = remove(&entry.path());
        }
    }
}

fn is_own_folder(path: &Path) -> bool {
    path.symlink_metadata().is_ok_and(|meta| meta.is_dir() && lock::is_own(&meta))
}

/// Removes a folder. The lock file is removed last, so that the next sweep can continue if this process is killed meanwhile.
fn remove(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            _ if entry.file_name() == LOCK => {}
            true => std::fs::remove_dir_all(entry.path())?,
            false => std::fs::remove_file(entry.path())?,
        }
    }
    std::fs::remove_dir_all(folder)
}

fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let salt = now.subsec_nanos() as u64 + (NEXT.fetch_add(1, Relaxed) << 32);
    format!("{PREFIX}{}-{salt:x}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use unrack_testing::TestFolder;

    /// Creates the state that a killed process leaves behind: its destructors did not run, and its lock is free.
    fn abandoned(parent: &Path) -> PathBuf {
        let mut folder = std::mem::ManuallyDrop::new(TemporaryFolder::within(parent).unwrap());
        std::fs::write(folder.path("spool"), "x").unwrap();
        std::fs::create_dir(folder.path("deep")).unwrap();
        symlink("/", folder.path("link")).unwrap();
        folder._lock = File::open("/dev/null").unwrap();
        folder.path.clone()
    }

    #[test]
    fn a_folder_is_private_and_leaves_nothing() {
        let parent = TestFolder::new("temporary");
        let (folder, other) =
            (TemporaryFolder::within(&parent).unwrap(), TemporaryFolder::within(&parent).unwrap());
        let path = folder.whole().to_path_buf();
        assert_ne!(path, other.whole());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(folder.path("a"), "b").unwrap();
        drop(folder);
        assert!(!path.exists() && other.whole().exists());
    }

    #[test]
    fn only_what_a_dead_process_of_this_user_left_is_swept() {
        let parent = TestFolder::new("sweep");
        let dead = abandoned(&parent);
        let alive = TemporaryFolder::within(&parent).unwrap();
        let unmarked = parent.join("unrack-1-1");
        std::fs::create_dir(&unmarked).unwrap();
        std::fs::write(unmarked.join("notes"), "mine").unwrap();
        let other_name = parent.join("notes");
        std::fs::rename(abandoned(&parent), &other_name).unwrap();
        let (target, link) = (TestFolder::new("sweep-target"), parent.join("unrack-1-2"));
        let elsewhere = abandoned(&target);
        symlink(&elsewhere, &link).unwrap();
        let foreign = abandoned(&parent);
        let is_root = rustix::process::geteuid().is_root();
        if is_root {
            chown(&foreign, Some(65534), None).unwrap();
        } else {
            eprintln!("skipped: only root can make a folder of another user");
        }
        let foreign_lock = abandoned(&parent);
        if is_root {
            chown(foreign_lock.join(LOCK), Some(65534), None).unwrap();
        }
        sweep(&parent);
        assert!(!dead.exists());
        let kept = [alive.whole(), &unmarked.join("notes"), &other_name, &link, &elsewhere];
        kept.into_iter().for_each(|path| assert!(path.exists(), "{}", path.display()));
        assert_eq!((foreign.exists(), foreign_lock.exists()), (is_root, is_root));
    }

    #[test]
    fn a_sweep_that_was_cut_short_is_taken_up_by_the_next() {
        let parent = TestFolder::new("sweep-again");
        let dead = abandoned(&parent);
        std::fs::remove_file(dead.join("spool")).unwrap();
        sweep(&parent);
        assert!(!dead.exists());
    }

    #[test]
    fn folders_are_made_while_others_sweep() {
        let parent = TestFolder::new("sweep-race");
        let done = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            let sweeper = || {
                while !done.load(Relaxed) {
                    sweep(&parent);
                }
            };
            scope.spawn(sweeper);
            scope.spawn(sweeper);
            for _ in 0..2000 {
                let folder = TemporaryFolder::within(&parent).unwrap();
                std::fs::write(folder.path("a"), "b").unwrap();
                assert!(folder.whole().join(LOCK).exists());
            }
            done.store(true, Relaxed);
        });
        assert_eq!(std::fs::read_dir(&*parent).unwrap().count(), 0);
    }
}
