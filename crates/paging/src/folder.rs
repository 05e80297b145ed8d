//! Temporary files: what pagers and `unrack` share during a run.

use crate::PagingError;
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Memory-backed: writing to it costs no disk.
const FAST: &str = "/dev/shm";
/// The preload library keeps the folder's name in a buffer of fixed size.
const LONGEST_PATH: usize = 400;

/// A folder that only we can enter, removed with all that is in it when dropped.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
}

impl Folder {
    /// In memory if possible.
    pub fn fast() -> Result<Folder, PagingError> {
        Folder::within(Path::new(FAST)).or_else(|_| Folder::roomy())
    }

    /// For large files: where `TMPDIR` says.
    pub fn roomy() -> Result<Folder, PagingError> {
        let parent = std::env::temp_dir();
        let folder = Folder::within(&parent)
            .map_err(PagingError::failed(format_args!("make a folder in {}", parent.display())))?;
        match folder.path.as_os_str().as_bytes().len() <= LONGEST_PATH {
            true => Ok(folder),
            false => Err(PagingError::Usage(format!("the path in TMPDIR is too long: {}", parent.display()))),
        }
    }

    fn within(parent: &Path) -> io::Result<Folder> {
        loop {
            let path = parent.join(unique_name());
            match DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Folder { path }),
                Err(why) if why.kind() == io::ErrorKind::AlreadyExists => {}
                Err(why) => return Err(why),
            }
        }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    pub fn whole(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // A process that is just ending may still add a file: look again.
        for _ in 0..3 {
            if std::fs::remove_dir_all(&self.path).is_ok() {
                return;
            }
        }
    }
}

fn unique_name() -> String {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let salt = now.subsec_nanos() as u64 + (NEXT.fetch_add(1, Relaxed) << 32);
    format!("unrack-{}-{salt:x}", std::process::id())
}

/// A file without a name: it is gone when it is closed.
pub fn unnamed_file() -> io::Result<File> {
    let parent = std::env::temp_dir();
    let path = parent.join(unique_name());
    let file = File::options().read(true).write(true).create_new(true).open(&path)?;
    std::fs::remove_file(&path)?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_folder_is_private_and_leaves_nothing() {
        let folder = Folder::fast().unwrap();
        let (path, other) = (folder.whole().to_path_buf(), Folder::fast().unwrap());
        assert_ne!(path, other.whole());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o700);
        std::fs::write(folder.path("a"), "b").unwrap();
        drop(folder);
        assert!(!path.exists());
    }
}
