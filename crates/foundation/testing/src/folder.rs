//! Temporary folders of tests.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use tempfile::TempDir;

/// New folder for one test. It is removed with all its contents when dropped. Its path is short enough for Unix sockets in the folder.
#[derive(Debug)]
pub struct TestFolder(TempDir);

impl TestFolder {
    /// Creates a folder with `name` in its path, so that folders left by killed tests can be identified.
    ///
    /// # Panics
    /// If the folder cannot be created.
    pub fn new(name: &str) -> TestFolder {
        TestFolder::made_in(&std::env::temp_dir(), name)
    }

    /// Creates a folder whose files are in memory, in `/dev/shm`.
    ///
    /// # Panics
    /// If the folder cannot be created.
    pub fn in_memory(name: &str) -> TestFolder {
        TestFolder::made_in(Path::new("/dev/shm"), name)
    }

    /// Makes the folder accessible to its user only (mode 0700), independently of the umask, because pools and racks reject other modes.
    fn made_in(place: &Path, name: &str) -> TestFolder {
        let prefix = format!("unrack-{name}-");
        let made = tempfile::Builder::new()
            .prefix(&prefix)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(place);
        TestFolder(made.unwrap_or_else(|why| panic!("no folder can be made in {}: {why}", place.display())))
    }

    /// Returns the letters and digits at the end of the folder's name, which no other existing folder has.
    pub fn word(&self) -> String {
        let name = self.0.path().to_string_lossy();
        name.rsplit('-').next().unwrap_or_default().to_string()
    }

    /// Returns whether the folder has no entries.
    ///
    /// # Panics
    /// If the folder was removed.
    pub fn is_empty(&self) -> bool {
        std::fs::read_dir(self).expect("it is there").next().is_none()
    }
}

impl std::ops::Deref for TestFolder {
    type Target = Path;

    fn deref(&self) -> &Path {
        self.0.path()
    }
}

impl AsRef<Path> for TestFolder {
    fn as_ref(&self) -> &Path {
        self
    }
}

impl AsRef<std::ffi::OsStr> for TestFolder {
    fn as_ref(&self) -> &std::ffi::OsStr {
        self.as_os_str()
    }
}
